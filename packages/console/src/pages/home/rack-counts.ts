import { useEvents } from "../../api/events.ts";
import { request } from "../../api/request.ts";
import type { ToolPage } from "../../api/types.ts";
import { type Remote, useRemote } from "../../ui/use-remote.ts";
import { readTroubled } from "../tools/all-tools.ts";

export interface RackCounts {
  readonly ready: number;
  readonly disabled: number;
  readonly troubled: number;
}

/** How much is on the rack, counted by the server: there may be ten thousand tools. */
export function useRackCounts(): Remote<RackCounts> {
  const remote = useRemote(async (signal) => {
    const count = (status?: string) =>
      request<ToolPage>("/api/tools", { query: { limit: 1, status }, signal }).then(({ total }) => total);
    const [all, disabled, troubled] = await Promise.all([count(), count("disabled"), readTroubled(signal)]);
    return { ready: all - disabled, disabled, troubled: troubled.length };
  });
  useEvents(["tools.", "tool.", "reload."], () => remote.reloadSoon());
  void remote.reload();
  return remote;
}

import { onScopeDispose } from "vue";
import { ApiError } from "../../api/api-error.ts";
import { useEvents } from "../../api/events.ts";
import { request } from "../../api/request.ts";
import type { FileReport, ToolPage, ToolSummary } from "../../api/types.ts";
import { type Remote, useRemote } from "../../ui/use-remote.ts";

export interface Rack {
  readonly tools: readonly ToolSummary[];
  /** Files that do not load, or only in an older version. Nobody but an admin is told of them. */
  readonly troubled: readonly FileReport[];
}

/** All tools that the token may see, and the files that are in trouble, kept up to date. */
export function useRack(): Remote<Rack> {
  const remote = useRemote(async (signal) => {
    const [tools, troubled] = await Promise.all([readTools(signal), readTroubled(signal)]);
    return { tools, troubled };
  });
  // The whole list is much to read, so a page that nobody sees waits until somebody does.
  let isOld = false;
  const refresh = () => {
    isOld = document.hidden;
    if (!isOld) remote.reloadSoon();
  };
  const look = () => {
    if (isOld) refresh();
  };
  useEvents(["tools.", "tool.", "reload."], refresh);
  document.addEventListener("visibilitychange", look);
  onScopeDispose(() => document.removeEventListener("visibilitychange", look));
  void remote.reload();
  return remote;
}

async function readTools(signal: AbortSignal): Promise<ToolSummary[]> {
  const tools: ToolSummary[] = [];
  let cursor: string | undefined;
  do {
    const page = await request<ToolPage>("/api/tools", { query: { limit: 1_000, cursor }, signal });
    tools.push(...page.items);
    cursor = page.next;
  } while (cursor !== undefined);
  return tools;
}

/** The files that do not load, or only in an older version. */
export async function readTroubled(signal: AbortSignal): Promise<readonly FileReport[]> {
  try {
    const { files } = await request<{ files: readonly FileReport[] }>("/api/files", { signal });
    return files.filter(({ status }) => status === "failed" || status === "stale");
  } catch (thrown) {
    if (thrown instanceof ApiError && thrown.code === "forbidden") return [];
    throw thrown;
  }
}

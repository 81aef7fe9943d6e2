import { Plug, Repeat } from "@lucide/vue";
import { type Component, type ComputedRef, computed } from "vue";
import type { RouteLocationRaw } from "vue-router";
import { ApiError } from "../../api/api-error.ts";
import { useEvents } from "../../api/events.ts";
import type { McpServerList } from "../../api/mcp-server-types.ts";
import { request } from "../../api/request.ts";
import type { CallPage } from "../../api/types.ts";
import { useRemote } from "../../ui/use-remote.ts";
import { loopsOf } from "../reloads/loops-of.ts";

/** A number on the first page, and where more is said about it. */
export interface HomeTile {
  readonly key: string;
  readonly icon: Component;
  readonly count: number;
  /** How many there are, where the count is of those that are well. */
  readonly of?: number;
  readonly to: RouteLocationRaw;
  readonly look: string;
}

const DAY = 86_400_000;
const MOST = 500;

/** Whether the upstream MCP servers are up, and whether sessions go in circles. Nobody is told of servers that there are not. */
export function useHealthTiles(): ComputedRef<readonly HomeTile[]> {
  const servers = useRemote(async (signal) => {
    try {
      return (await request<McpServerList>("/api/mcp-servers", { signal })).items;
    } catch (thrown) {
      // Only admins see them; others are not to be shown a failure for it.
      if (thrown instanceof ApiError && thrown.code === "forbidden") return [];
      throw thrown;
    }
  });
  const loops = useRemote(async (signal) => {
    const query = { flag: "loop", since: Date.now() - DAY, limit: MOST };
    return loopsOf((await request<CallPage>("/api/calls", { query, signal })).items).length;
  });
  void servers.reload();
  void loops.reload();
  useEvents(["mcp."], () => servers.reloadSoon());
  useEvents(["loop."], () => loops.reloadSoon(2_000));
  return computed(() => {
    const wanted = (servers.value.value ?? []).filter(({ enabled }) => enabled);
    const count = wanted.filter(({ state }) => state === "ready").length;
    const isDown = wanted.some(({ state }) => state !== "ready" && state !== "starting");
    const mcpServers: HomeTile = {
      key: "mcpServers",
      icon: Plug,
      count,
      of: wanted.length,
      to: { name: "mcpServers" },
      look: isDown ? "text-bad" : "text-good",
    };
    const caught: HomeTile = {
      key: "loops",
      icon: Repeat,
      count: loops.value.value ?? 0,
      to: { name: "reloads" },
      look: "text-warn",
    };
    return [...(wanted.length === 0 ? [] : [mcpServers]), caught];
  });
}

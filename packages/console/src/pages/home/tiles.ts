import { Plug, Repeat } from "@lucide/vue";
import { type Component, type ComputedRef, computed } from "vue";
import type { RouteLocationRaw } from "vue-router";
import { loopsOf, request, unlessForbidden, useEvents } from "../../api/index.ts";
import { useLive } from "../../ui/index.ts";
import { readTroubled } from "../tools/rack.ts";

export interface HomeTile {
  readonly key: string;
  readonly icon: Component;
  readonly count: number;
  readonly of?: number;
  readonly to: RouteLocationRaw;
  readonly look: string;
}

const DAY = 86_400_000;
const MOST = 500;

/** Tiles for upstream MCP servers and detected loops. Without servers there is no tile for them. */
export function useHealthTiles(): ComputedRef<readonly HomeTile[]> {
  // Only admins may read servers; others must not see an error for it.
  const servers = useLive(
    (signal) => unlessForbidden(request("GET /api/mcp-servers", { signal }), undefined),
    ["mcp."],
  );
  const loops = useLive(async (signal) => {
    const query = { flag: "loop", since: Date.now() - DAY, limit: MOST };
    return loopsOf((await request("GET /api/calls", { query, signal })).items).length;
  });
  useEvents(["loop."], () => loops.reloadSoon(2_000));
  return computed(() => {
    const wanted = (servers.value.value?.items ?? []).filter(({ enabled }) => enabled);
    const count = wanted.filter(({ state }) => state === "ready").length;
    const isDown = wanted.some(({ state }) => state !== "ready" && state !== "starting");
    const look = isDown ? "text-bad" : "text-good";
    const up = { key: "mcpServers", icon: Plug, count, of: wanted.length, to: { name: "mcpServers" }, look };
    const caught = loops.value.value ?? 0;
    return [
      ...(wanted.length === 0 ? [] : [up]),
      { key: "loops", icon: Repeat, count: caught, to: { name: "reloads" }, look: "text-warn" },
    ];
  });
}

/** Counts of the rack, made by the server, because there may be ten thousand tools. */
export function useRackCounts() {
  return useLive(
    async (signal) => {
      const count = (status?: string) =>
        request("GET /api/tools", { query: { limit: 1, status }, signal }).then(({ total }) => total);
      const [all, disabled, troubled] = await Promise.all([count(), count("disabled"), readTroubled(signal)]);
      return { ready: all - disabled, disabled, troubled: troubled.length };
    },
    ["tools.", "tool.", "reload."],
  );
}

import { computed } from "vue";
import { ApiError } from "../../api/api-error.ts";
import { request } from "../../api/request.ts";
import type { Reload } from "../../api/types.ts";
import { seenReloads } from "../../shell/reload-log.ts";
import { useRemote } from "../../ui/use-remote.ts";

/** What was loaded when: what the server remembers, for who may know it, and what happened since the console was opened. */
export function useReloads() {
  const openedAt = Date.now();
  const remote = useRemote(async (signal) => {
    try {
      return (await request<{ items: readonly Reload[] }>("/api/reloads", { signal })).items;
    } catch (thrown) {
      if (thrown instanceof ApiError && thrown.code === "forbidden") return undefined;
      throw thrown;
    }
  });
  void remote.reload();
  return {
    isLiveOnly: computed(() => remote.value.value === undefined),
    items: computed(() => {
      const stored = remote.value.value;
      if (stored === undefined) return seenReloads.value;
      return [...seenReloads.value.filter(({ at }) => at > openedAt), ...stored];
    }),
  };
}

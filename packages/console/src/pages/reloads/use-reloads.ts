import { computed, ref } from "vue";
import { ApiError } from "../../api/api-error.ts";
import { eventStream } from "../../api/events.ts";
import { request } from "../../api/request.ts";
import type { Reload } from "../../api/types.ts";
import { useRemote } from "../../ui/use-remote.ts";

const MOST = 200;
const seen = ref<readonly Reload[]>([]);

// From the moment the console is open, whichever page is on the screen.
eventStream.subscribe(({ type, data }) => {
  if (type !== "reload.finished") return;
  const names = (key: string) => (Array.isArray(data[key]) ? data[key].map(String) : []);
  const reload = {
    at: Date.now(),
    added: names("added"),
    changed: names("changed"),
    removed: names("removed"),
    failed: names("failed"),
    duration: typeof data.duration === "number" ? data.duration : 0,
  };
  seen.value = [reload, ...seen.value].slice(0, MOST);
});

/** What was loaded when: what the server remembers, where it does, and what happened since the console was opened. */
export function useReloads() {
  const openedAt = Date.now();
  const remote = useRemote(async (signal) => {
    try {
      return (await request<{ items: readonly Reload[] }>("/api/reloads", { signal })).items;
    } catch (thrown) {
      if (thrown instanceof ApiError && (thrown.isUnknownPath || thrown.code === "forbidden")) return undefined;
      throw thrown;
    }
  });
  void remote.reload();
  return {
    isLiveOnly: computed(() => remote.value.value === undefined),
    items: computed(() => {
      const stored = remote.value.value;
      if (stored === undefined) return seen.value;
      return [...seen.value.filter(({ at }) => at > openedAt), ...stored];
    }),
  };
}

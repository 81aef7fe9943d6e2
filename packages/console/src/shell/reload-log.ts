import { computed, ref } from "vue";
import { useEvents } from "../api/events.ts";
import type { Reload } from "../api/types.ts";

const MOST = 200;
const seen = ref<readonly Reload[]>([]);

/** The reloads since the console was opened, newest first. */
export const seenReloads = computed(() => seen.value);

/** Takes note of reloads for as long as the console is open, whichever page is on the screen. */
export function keepReloads(): void {
  useEvents(["reload.finished"], ({ type, data }) => {
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
}

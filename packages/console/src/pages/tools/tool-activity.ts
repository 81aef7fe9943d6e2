import { onScopeDispose, shallowRef } from "vue";
import { useEvents } from "../../api/events.ts";
import { readStatistics } from "../../statistics/read-statistics.ts";
import type { Activity } from "./tool-tree.ts";

const DAY = 24 * 3_600_000;
/** The server tells of so many tools; of others nothing is known then. */
const MOST_TOLD = 500;
const PAUSE = 10_000;

/** How often each tool was called in the last 24 hours. Undefined until it is known of all of them. */
export function useToolActivity() {
  const activity = shallowRef<Activity>();
  const gone = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const read = async () => {
    timer = undefined;
    const found = await readStatistics({ since: Date.now() - DAY }, gone.signal).catch(() => undefined);
    if (found !== undefined && found.latest === undefined && found.tools.length < MOST_TOLD)
      activity.value = new Map(found.tools.map((tool) => [tool.toolName, tool]));
  };
  useEvents(["call.completed", "call.failed"], () => {
    timer ??= setTimeout(() => void read(), PAUSE);
  });
  onScopeDispose(() => {
    clearTimeout(timer);
    gone.abort();
  });
  void read();
  return activity;
}

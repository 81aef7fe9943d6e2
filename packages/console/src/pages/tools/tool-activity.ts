import { type ComputedRef, computed } from "vue";
import { useEvents } from "../../api/events.ts";
import { readStatistics } from "../../statistics/read-statistics.ts";
import { useRemote } from "../../ui/use-remote.ts";
import type { Activity } from "./tool-tree.ts";

const DAY = 24 * 3_600_000;
/** The server tells of so many tools; of others nothing is known then. */
const MOST_TOLD = 500;
const PAUSE = 10_000;

/** How often each tool was called in the last 24 hours. Undefined until it is known of all of them. */
export function useToolActivity(): ComputedRef<Activity | undefined> {
  const remote = useRemote((signal) => readStatistics({ since: Date.now() - DAY }, signal));
  useEvents(["call.completed", "call.failed"], () => remote.reloadSoon(PAUSE));
  void remote.reload();
  return computed(() => {
    const found = remote.value.value;
    if (found === undefined || found.latest !== undefined || found.tools.length >= MOST_TOLD)
      return undefined;
    return new Map(found.tools.map((tool) => [tool.toolName, tool]));
  });
}

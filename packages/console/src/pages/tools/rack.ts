import { type ComputedRef, computed, onScopeDispose } from "vue";
import {
  type FileReport,
  readPages,
  readStatistics,
  request,
  type ToolSummary,
  unlessForbidden,
  useEvents,
} from "../../api/index.ts";
import { type Remote, useLive } from "../../ui/index.ts";
import type { Activity, Rack } from "./tool-tree.ts";

/** All tools that the token may see and the files with problems, kept up to date. */
export function useRack(): Remote<Rack> {
  const remote = useLive(async (signal) => {
    const [tools, troubled] = await Promise.all([readTools(signal), readTroubled(signal)]);
    return { tools, troubled };
  });
  // The list is large, so a hidden page reads it when it is shown again.
  let isOld = false;
  const refresh = () => {
    if (isOld && !document.hidden) remote.reloadSoon();
    isOld &&= document.hidden;
  };
  useEvents(["tools.", "tool.", "reload."], () => {
    isOld = true;
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  onScopeDispose(() => document.removeEventListener("visibilitychange", refresh));
  return remote;
}

async function readTools(signal: AbortSignal): Promise<readonly ToolSummary[]> {
  return (await readPages("GET /api/tools", { query: { limit: 1_000 }, signal })).items;
}

async function readTroubled(signal: AbortSignal): Promise<readonly FileReport[]> {
  const { files } = await unlessForbidden(request("GET /api/files", { signal }), { files: [] });
  return files.filter(({ status }) => status === "failed" || status === "stale");
}

const DAY = 24 * 3_600_000;
/** The server reports at most this many tools; with more, activity is incomplete. */
const MOST_REPORTED = 500;
const PAUSE = 10_000;

/** Calls of each tool in the last 24 hours. Undefined unless the calls of all tools are known. */
export function useToolActivity(): ComputedRef<Activity | undefined> {
  const read = (signal: AbortSignal) => readStatistics({ since: Date.now() - DAY }, signal);
  const remote = useLive(read, ["call.completed", "call.failed"], PAUSE);
  return computed(() => {
    const found = remote.value;
    if (found === undefined || found.latest !== undefined || found.tools.length >= MOST_REPORTED)
      return undefined;
    return new Map(found.tools.map((tool) => [tool.toolName, tool]));
  });
}

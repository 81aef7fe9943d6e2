import { type ComputedRef, computed, type Ref, watch } from "vue";
import { type LocationQuery, useRoute } from "vue-router";
import { type FileReport, readStatistics, request, unlessForbidden } from "../../api/index.ts";
import { type Remote, useLive } from "../../ui/index.ts";
import { type Activity, type Rack, sources } from "./tool-tree.ts";

/** Up to so many tools are read at once, and filtered here. Of more, only those are read that the list shows. */
const MOST_READ = 1_000;

/**
 * The tools that the token may see and the files with problems, kept up to date. Of a large rack only the tools that fit
 * the filters of the address are read, or without filters those of the groups in `opened`.
 */
export function useRack(opened: Ref<ReadonlySet<string>>): Remote<Rack> {
  const route = useRoute();
  let isLarge = false;
  const readPart = (part: object, signal: AbortSignal) =>
    request("GET /api/tools", { query: { limit: MOST_READ, groups: true, ...part }, signal });
  const readTools = async (signal: AbortSignal): Promise<Omit<Rack, "troubled">> => {
    const filter = filterOf(route.query);
    const all = await readPart(
      isLarge ? { ...filter, ...(filter === noFilter && { limit: 1 }) } : {},
      signal,
    );
    isLarge ||= all.next !== undefined;
    const { items, total, groups = [], tags = [] } = all;
    if (!isLarge) return { tools: items, total };
    if (filter !== noFilter) return { tools: items, total, tags };
    const wanted = groups.filter(({ source, group }) => opened.value.has(`${source}/${group}`));
    const parts = wanted.map(({ source, group }) => readPart({ source, group }, signal));
    return { tools: (await Promise.all(parts)).flatMap((part) => part.items), total, groups, tags };
  };
  const remote = useLive(
    async (signal) => {
      const [tools, troubled] = await Promise.all([readTools(signal), readTroubled(signal)]);
      return { ...tools, troubled };
    },
    ["tools.", "tool.", "reload."],
  );
  watch([opened, () => JSON.stringify(filterOf(route.query))], () => {
    if (isLarge) remote.reloadSoon(0);
  });
  return remote;
}

const noFilter = {};

/** What the server is asked for, from the filters of the address. */
function filterOf({ q, show, tag, source }: LocationQuery): object {
  const filter = {
    ...(typeof q === "string" && q.trim() !== "" && { words: q.trim() }),
    ...(typeof tag === "string" && tag !== "" && { tag }),
    ...(sources.some((known) => known === source) && { source }),
    ...(show === "failed" && { status: "stale" }),
    ...(show === "disabled" && { status: "disabled" }),
    ...(show === "dangerous" && { dangerous: true }),
  };
  return Object.keys(filter).length === 0 ? noFilter : filter;
}

async function readTroubled(signal: AbortSignal): Promise<readonly FileReport[]> {
  const { files } = await unlessForbidden(request("GET /api/files", { query: { problems: true }, signal }), {
    files: [],
  });
  return files.filter(({ status }) => status === "failed" || status === "stale");
}

const DAY = 24 * 3_600_000;
/** The server reports at most this many tools; with more, activity is incomplete. */
const MOST_REPORTED = 500;
const PAUSE = 10_000;

/** Calls of each tool in the last 24 hours. Undefined unless the calls of all tools are known. */
export function useToolActivity(): ComputedRef<Activity | undefined> {
  const read = (signal: AbortSignal) =>
    readStatistics({ since: Date.now() - DAY, tools: MOST_REPORTED }, signal);
  const remote = useLive(read, ["call.completed", "call.failed"], PAUSE);
  return computed(() => {
    const found = remote.value;
    if (found === undefined || found.latest !== undefined || found.tools.length >= MOST_REPORTED)
      return undefined;
    return new Map(found.tools.map((tool) => [tool.toolName, tool]));
  });
}

import { computed, onScopeDispose, type Ref, readonly, ref, shallowRef, watch } from "vue";
import {
  ApiError,
  type CallPage,
  type CallSummary,
  isUnderWay,
  type RackEvent,
  request,
  useEvents,
} from "../../api/index.ts";
import { Recent, useReread } from "../../ui/index.ts";

export interface CallQuery {
  readonly [key: string]: string | number | boolean | undefined;
  readonly status?: string | undefined;
  readonly within?: number | undefined;
}

const PAGE = 100;
const LARGEST_PAGE = 500;
/** Shortest time between two reads of the newest page, in milliseconds. */
const PAUSE = 600;

/** The calls that match a query, newest first: updated live, with older pages on demand. */
export function useCallFeed(
  query: Ref<CallQuery>,
  isPaused: Ref<boolean>,
  start?: { readonly calls: readonly CallSummary[]; readonly next: string | undefined },
) {
  const calls = shallowRef<readonly CallSummary[]>(start?.calls ?? []);
  const next = ref(start?.next);
  const error = shallowRef<ApiError>();
  const isLoading = ref(false);
  /** Number of calls that have ended while the feed is paused. */
  const missed = ref(0);
  let generation = 0;
  /** Whether the first page has been read. Until then newer calls cannot be merged. */
  let isBegun = start !== undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  /** Reads a page and passes it to `take`, unless the query changed in the meantime. */
  async function read(take: (page: CallPage) => void, cursor?: string, limit = PAGE): Promise<void> {
    const mine = generation;
    isLoading.value = true;
    const { within, ...rest } = query.value;
    const since = within === undefined ? undefined : Date.now() - within;
    const asking = request("GET /api/calls", { query: { ...rest, since, limit, cursor } });
    const failed = await asking.then(
      (page) => void (mine === generation && take(page)),
      (thrown: unknown) => ApiError.of(thrown),
    );
    if (mine !== generation) return;
    error.value = failed;
    isLoading.value = false;
  }

  function restart(): Promise<void> {
    generation++;
    isBegun = false;
    missed.value = 0;
    return refresh();
  }

  let asked = 0;
  let taken = 0;
  const refresh = (limit?: number) => {
    const mine = ++asked;
    return read(
      (page) => {
        // The answer to a later request has arrived before this one.
        if (mine < taken) return;
        taken = mine;
        // If the new page does not overlap the old ones, calls are missing between them, so the list starts again.
        const known = new Set(calls.value.map(({ callId }) => callId));
        const hasGap =
          known.size > 0 && page.next !== undefined && !page.items.some(({ callId }) => known.has(callId));
        const isNew = hasGap || !isBegun;
        calls.value = isNew ? page.items : mergeHead(calls.value, page);
        if (isNew || calls.value.length === page.items.length) next.value = page.next;
        isBegun = true;
      },
      undefined,
      limit,
    );
  };

  /** Reads the known calls again, as many as one request allows, because they may have ended since. */
  const reread = () => refresh(Math.min(LARGEST_PAGE, Math.max(PAGE, calls.value.length)));

  async function readMore(): Promise<void> {
    if (next.value === undefined || isLoading.value) return;
    await read((page) => {
      const known = new Set(calls.value.map(({ callId }) => callId));
      calls.value = [...calls.value, ...page.items.filter(({ callId }) => !known.has(callId))];
      next.value = page.next;
    }, next.value);
  }

  useEvents(["call."], (event) => {
    if (event.type === "call.progress" || event.type === "call.updated") return;
    if (isPaused.value) {
      if (event.type in endings) missed.value++;
      return;
    }
    // After a reset, calls below the newest page may have ended without an event.
    if (event.type === "reset") {
      void restart();
      return;
    }
    calls.value = withEnd(calls.value, event, query.value.status);
    timer ??= setTimeout(() => {
      timer = undefined;
      void refresh();
    }, PAUSE);
  });
  watch(query, restart);
  void reread();
  // While paused, the feed reads only older pages, so only such a read can have failed.
  useReread(
    () => error.value,
    () => (isPaused.value && isBegun ? readMore() : reread()),
  );
  watch(isPaused, (paused) => {
    if (!paused) void restart();
  });
  onScopeDispose(() => {
    generation++;
    clearTimeout(timer);
  });
  const hasMore = computed(() => next.value !== undefined);
  return { calls, next: readonly(next), hasMore, error, isLoading, missed, restart, readMore };
}

/** Puts the newest page before the known calls. A page without `next` is the whole list. */
export function mergeHead(known: readonly CallSummary[], { items, next }: CallPage): readonly CallSummary[] {
  if (next === undefined) return items;
  const fresh = new Set(items.map(({ callId }) => callId));
  const oldest = items.at(-1)?.timestamp ?? Number.POSITIVE_INFINITY;
  // A call that is as new as the page but missing in it was deleted or no longer matches the filter.
  const rest = known.filter(({ callId, timestamp = 0 }) => !fresh.has(callId) && timestamp <= oldest);
  return [...items, ...rest];
}

const endings: Readonly<Record<string, CallSummary["status"]>> = {
  "call.completed": "completed",
  "call.failed": "error",
  "call.cancelled": "cancelled",
};

/**
 * Applies the end of a call: updates its row, or removes the row if the list is filtered by another status.
 */
export function withEnd(
  calls: readonly CallSummary[],
  { type, data }: RackEvent,
  wantedStatus: string | undefined,
): readonly CallSummary[] {
  const status = endings[type];
  const index = calls.findIndex((call) => call.callId === data.callId);
  const known = calls[index];
  if (status === undefined || known === undefined || !isUnderWay(known)) return calls;
  if (wantedStatus !== undefined && wantedStatus !== status) return calls.toSpliced(index, 1);
  // The event holds these members in the record's form.
  const { duration, error } = data as Pick<CallSummary, "duration" | "error">;
  const ended = { ...known, status, ...(error && { error }) };
  return calls.with(index, duration === undefined ? ended : { ...ended, duration });
}

export interface FeedRow {
  readonly call: CallSummary;
  /** Repetitions of the same call, newest first, beginning with `call`. */
  readonly repeats: readonly CallSummary[];
  /** How many rows, from this one on, can be folded into one. */
  readonly foldable: number;
}

/** Folds adjacent calls with the same tool, arguments, caller and outcome into one row. */
export function foldRepeats(calls: readonly CallSummary[], unfolded: ReadonlySet<string>): FeedRow[] {
  const runs: CallSummary[][] = [];
  for (const call of calls) {
    const last = runs.at(-1);
    if (last !== undefined && isRepeat(last[0]!, call)) last.push(call);
    else runs.push([call]);
  }
  return runs.flatMap((run) => {
    // A row that was unfolded stays unfolded when the call is repeated again.
    if (!run.some(({ callId }) => unfolded.has(callId)))
      return [{ call: run[0]!, repeats: run, foldable: 1 }];
    return run.map((call, index) => ({ call, repeats: [call], foldable: index === 0 ? run.length : 1 }));
  });
}

export function rowOf(rows: readonly FeedRow[], callId: string): number {
  return rows.findIndex(({ repeats }) => repeats.some((call) => call.callId === callId));
}

function isRepeat(left: CallSummary, right: CallSummary): boolean {
  return (
    left.toolName === right.toolName &&
    left.parametersHash !== undefined &&
    left.parametersHash === right.parametersHash &&
    left.status === right.status &&
    left.caller === right.caller &&
    left.parentCallId === right.parentCallId
  );
}

/** The loaded calls and the scroll position of a feed. */
export interface KeptFeed {
  readonly calls: readonly CallSummary[];
  readonly next: string | undefined;
  readonly selected: string;
  readonly unfolded: ReadonlySet<string>;
  readonly top: number;
}

const feeds = new Recent<KeptFeed>({ most: 10 });

/** Keeps a feed for a person who opens a call and returns. */
export function keepFeed(query: object, feed: KeptFeed): void {
  feeds.set(JSON.stringify(query), feed);
}

/** The kept feed, when the person goes back to it or returns from a call; otherwise the newest calls are read. */
export function keptFeed(query: object, arrival: unknown): KeptFeed | undefined {
  return isReturn(arrival) ? feeds.get(JSON.stringify(query)) : undefined;
}

/** `arrival` is what the router keeps in the browser's history: the addresses before and after this one. */
function isReturn(arrival: unknown): boolean {
  const { back, forward } = (arrival ?? {}) as { back?: unknown; forward?: unknown }; // Both are checked below.
  return typeof forward === "string" || (typeof back === "string" && back.startsWith("/calls/"));
}

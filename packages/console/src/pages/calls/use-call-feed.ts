import { computed, onScopeDispose, type Ref, readonly, ref, shallowRef, watch } from "vue";
import { ApiError } from "../../api/api-error.ts";
import { useEvents } from "../../api/events.ts";
import { request } from "../../api/request.ts";
import type { CallPage, CallSummary } from "../../api/types.ts";
import { useReread } from "../../ui/use-reread.ts";
import { mergeHead, withEnd } from "./call-feed.ts";

export interface CallQuery {
  readonly [key: string]: string | number | boolean | undefined;
  readonly status?: string | undefined;
  /** Milliseconds before now, whenever that is. */
  readonly within?: number | undefined;
}

const PAGE = 100;
const LARGEST_PAGE = 500;
/** However much happens, the newest page is read no more often. */
const PAUSE = 600;

/** The calls that fit a query, newest first: live at its head, and as far back as somebody scrolls. */
export function useCallFeed(
  query: Ref<CallQuery>,
  isPaused: Ref<boolean>,
  start?: { readonly calls: readonly CallSummary[]; readonly next: string | undefined },
) {
  const calls = shallowRef<readonly CallSummary[]>(start?.calls ?? []);
  const next = ref(start?.next);
  const error = shallowRef<ApiError>();
  const isLoading = ref(false);
  /** What happened while the feed was paused. */
  const missed = ref(0);
  let generation = 0;
  /** What is there answers the query. Until then there is nothing that newer calls could be put before. */
  let isBegun = start !== undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const read = (cursor?: string, limit = PAGE) => {
    const { within, ...rest } = query.value;
    const since = within === undefined ? undefined : Date.now() - within;
    return request<CallPage>("/api/calls", { query: { ...rest, since, limit, cursor } });
  };

  async function attempt(work: (isCurrent: () => boolean) => Promise<void>): Promise<void> {
    const mine = generation;
    isLoading.value = true;
    try {
      await work(() => mine === generation);
      if (mine === generation) error.value = undefined;
    } catch (thrown) {
      if (mine === generation) error.value = ApiError.of(thrown);
    } finally {
      if (mine === generation) isLoading.value = false;
    }
  }

  function restart(): Promise<void> {
    generation++;
    isBegun = false;
    missed.value = 0;
    return attempt(async (isCurrent) => {
      const page = await read();
      // What was read since is newer.
      if (!isCurrent() || isBegun) return;
      calls.value = page.items;
      next.value = page.next;
      isBegun = true;
    });
  }

  function refresh(limit = PAGE): Promise<void> {
    return attempt(async (isCurrent) => {
      const page = await read(undefined, limit);
      if (!isCurrent()) return;
      // When more came than a page holds, the gap between would be invisible: begin anew instead.
      const known = new Set(calls.value.map(({ callId }) => callId));
      const hasGap =
        calls.value.length > 0 &&
        page.next !== undefined &&
        !page.items.some(({ callId }) => known.has(callId));
      const isNew = hasGap || !isBegun;
      calls.value = isNew ? page.items : mergeHead(calls.value, page);
      if (isNew || calls.value.length === page.items.length) next.value = page.next;
      isBegun = true;
    });
  }

  /** As much of what was read before as one request brings: it may have ended since. */
  function reread(): Promise<void> {
    return refresh(Math.min(LARGEST_PAGE, Math.max(PAGE, calls.value.length)));
  }

  async function readMore(): Promise<void> {
    const cursor = next.value;
    if (cursor === undefined || isLoading.value) return;
    await attempt(async (isCurrent) => {
      const page = await read(cursor);
      if (!isCurrent()) return;
      const known = new Set(calls.value.map(({ callId }) => callId));
      calls.value = [...calls.value, ...page.items.filter(({ callId }) => !known.has(callId))];
      next.value = page.next;
    });
  }

  useEvents(["call."], (event) => {
    if (event.type === "call.progress" || event.type === "call.updated") return;
    if (isPaused.value) {
      if (event.type === "call.completed" || event.type === "call.failed" || event.type === "call.cancelled")
        missed.value++;
      return;
    }
    // What ended while nobody told of it may be further down than the newest page.
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
  // To who has paused the feed nothing newer is shown: it was an earlier page that could not be read.
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
  return {
    calls,
    next: readonly(next),
    hasMore: computed(() => next.value !== undefined),
    error,
    isLoading,
    missed,
    restart,
    readMore,
  };
}

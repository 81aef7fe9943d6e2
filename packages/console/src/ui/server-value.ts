import { computed, effectScope, onScopeDispose, shallowReactive, watch } from "vue";
import {
  ApiError,
  type Approval,
  type Asked,
  currentSession,
  eventStream,
  type ItemsOf,
  type ListRoute,
  request,
  type Server,
  type ToolSummary,
  useEvents,
} from "../api/index.ts";

/** A value from the server, as reactive data. */
export interface Remote<Value> {
  value: Value | undefined;
  error: ApiError | undefined;
  isLoading: boolean;
  /**
   * Reads again; the old value stays until the answer arrives. Older answers never replace newer ones. Never rejects.
   */
  reload(): Promise<void>;
  /** Reads again soon, at most once in `pause` milliseconds. */
  reloadSoon(pause?: number): void;
}

const PAUSE = 400;

/** A value from the server. A read that failed because the server was away is repeated when it is back. */
export function useRemote<Value>(read: (signal: AbortSignal) => Promise<Value>): Remote<Value> {
  let current: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let latest = Promise.resolve();
  const remote = shallowReactive<Remote<Value>>({
    value: undefined,
    error: undefined,
    isLoading: false,
    reload() {
      latest = readNow();
      return latest;
    },
    reloadSoon(pause = PAUSE) {
      timer ??= setTimeout(() => void remote.reload(), pause);
    },
  });
  async function readNow(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    current?.abort();
    const attempt = new AbortController();
    current = attempt;
    remote.isLoading = true;
    try {
      const value = await read(attempt.signal);
      if (current === attempt) Object.assign(remote, { value, error: undefined });
    } catch (thrown) {
      if (current === attempt && !attempt.signal.aborted) remote.error = ApiError.of(thrown);
    }
    if (current !== attempt) return latest;
    remote.isLoading = false;
  }
  // A new token may see other data.
  watch(
    () => currentSession.token,
    (token) => {
      if (token !== undefined && current !== undefined) void remote.reload();
    },
  );
  useReread(() => remote.error, remote.reload);
  onScopeDispose(() => {
    clearTimeout(timer);
    current?.abort();
  });
  return remote;
}

/**
 * Like `useRemote`, but reads at once, and again after events whose type begins with one of the prefixes: soon, and at
 * most once in `pause` milliseconds.
 */
export function useLive<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  events: readonly string[] = [],
  pause?: number,
): Remote<Value> {
  const remote = useRemote(read);
  if (events.length > 0) useEvents(events, () => remote.reloadSoon(pause));
  void remote.reload();
  return remote;
}

/** Like `useLive`, for the items of a list. */
export function useList<Route extends ListRoute>(
  route: Route,
  asked: Pick<Asked, "path" | "query"> = {},
  events?: readonly string[],
  pause?: number,
): Remote<ItemsOf<Route>> {
  return useLive(async (signal) => (await request(route, { ...asked, signal })).items, events, pause);
}

const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 15_000;

/** Repeats a read that failed because the server was away: when the connection is back, or after growing waits. */
export function useReread(error: () => ApiError | undefined, reread: () => unknown): void {
  let wait = FIRST_WAIT;
  let timer: ReturnType<typeof setTimeout> | undefined;
  watch([error, eventStream.state], ([failed, state], [, stateBefore]) => {
    clearTimeout(timer);
    if (failed === undefined) wait = FIRST_WAIT;
    if (!failed?.isAway || state !== "open") return;
    if (stateBefore !== "open") {
      reread();
      return;
    }
    timer = setTimeout(reread, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  });
  onScopeDispose(() => clearTimeout(timer));
}

/** An action that the server may refuse, as reactive data. */
export interface Attempt {
  isBusy: boolean;
  error: ApiError | undefined;
  /** Runs the work and returns whether it succeeded. Never rejects. */
  run(work: () => Promise<unknown>): Promise<boolean>;
  dismiss(): void;
}

/** `after` runs after each attempt, successful or not. */
export function useAttempt(after?: () => unknown): Attempt {
  const attempt = shallowReactive<Attempt>({
    isBusy: false,
    error: undefined,
    async run(work) {
      Object.assign(attempt, { isBusy: true, error: undefined });
      try {
        await work();
        return true;
      } catch (thrown) {
        attempt.error = ApiError.of(thrown);
        return false;
      } finally {
        attempt.isBusy = false;
        await after?.();
      }
    },
    dismiss() {
      attempt.error = undefined;
    },
  });
  return attempt;
}

/** The tools that the server finds for a text, by name and by meaning; none for an empty text. */
export function useToolSearch(text: () => string): Remote<readonly ToolSummary[]> {
  const found = useRemote(async (signal): Promise<readonly ToolSummary[]> => {
    const query = { q: text().trim(), limit: 20 };
    if (query.q === "") return [];
    return request("GET /api/tools", { query, signal }).then(
      ({ items }) => items,
      () => [],
    );
  });
  watch(() => text().trim(), found.reload, { immediate: true });
  return found;
}

let server: Remote<Server> | undefined;

/** Information about the server, shared by all components. Only admins get it. */
export function useServerInfo(): Remote<Server> {
  // Runs in a scope of its own, because the value outlives the first component that uses it.
  server ??= effectScope(true).run(() => useLive((signal) => request("GET /api/server", { signal })))!;
  return server;
}

let approvals: Remote<readonly Approval[]> | undefined;

/** The approvals that wait, shared by all components and kept up to date. */
export function useWaitingApprovals(): Remote<readonly Approval[]> {
  approvals ??= effectScope(true).run(() =>
    useList("GET /api/approvals", { query: { limit: 500 } }, ["approval."]),
  )!;
  return approvals;
}

watch(
  () => currentSession.token,
  () => {
    for (const shared of [server, approvals]) if (shared !== undefined) shared.value = undefined;
  },
);

/** The open approvals; empty for people who may not decide them. */
export const waitingApprovals = computed(() => useWaitingApprovals().value ?? []);

/** Ids of the calls that wait for approval, and of the calls that made them. */
export const waitingCalls = computed(
  (): ReadonlySet<string> =>
    new Set(
      waitingApprovals.value.flatMap(({ callId, parentCallId }) =>
        parentCallId === undefined ? [callId] : [callId, parentCallId],
      ),
    ),
);

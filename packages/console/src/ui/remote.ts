import { effectScope, onScopeDispose, type Ref, ref, type ShallowRef, shallowRef, watch } from "vue";
import { ApiError, currentSession, eventStream, request, type Server, useEvents } from "../api/index.ts";

export interface Remote<Value> {
  readonly value: ShallowRef<Value | undefined>;
  readonly error: ShallowRef<ApiError | undefined>;
  readonly isLoading: ShallowRef<boolean>;
  /**
   * Reads again; the old value stays until the answer is there. Older answers never replace newer ones.
   * Never rejects.
   */
  reload(): Promise<void>;
  /** Reads anew soon. However often it is asked for, it reads at most once in so many milliseconds. */
  reloadSoon(pause?: number): void;
}

const PAUSE = 400;

/** Something read from the server. What failed because the server was away is read again once it is back. */
export function useRemote<Value>(read: (signal: AbortSignal) => Promise<Value>): Remote<Value> {
  const value = shallowRef<Value>();
  const error = shallowRef<ApiError>();
  const isLoading = ref(false);
  let current: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  let latest = Promise.resolve();
  const reload = () => {
    latest = readNow();
    return latest;
  };
  const readNow = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    current?.abort();
    const attempt = new AbortController();
    current = attempt;
    isLoading.value = true;
    try {
      const answer = await read(attempt.signal);
      if (current !== attempt) return latest;
      value.value = answer;
      error.value = undefined;
    } catch (thrown) {
      if (current !== attempt) return latest;
      if (!attempt.signal.aborted) error.value = ApiError.of(thrown);
    } finally {
      if (current === attempt) isLoading.value = false;
    }
  };
  // After a new sign-in other things may be visible.
  watch(
    () => currentSession.token,
    (token) => {
      if (token !== undefined && current !== undefined) void reload();
    },
  );
  useReread(() => error.value, reload);
  onScopeDispose(() => {
    clearTimeout(timer);
    current?.abort();
  });
  return {
    value,
    error,
    isLoading,
    reload,
    reloadSoon(pause = PAUSE) {
      timer ??= setTimeout(() => void reload(), pause);
    },
  };
}

/** The same, read at once, and again soon after every event whose type begins with one of the given texts. */
export function useLive<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  events: readonly string[] = [],
): Remote<Value> {
  const remote = useRemote(read);
  if (events.length > 0) useEvents(events, () => remote.reloadSoon());
  void remote.reload();
  return remote;
}

const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 15_000;

/**
 * Repeats what failed because the server was away: when the connection is back, or after growing waits
 * while it holds.
 */
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

export interface Attempt {
  readonly isBusy: Ref<boolean>;
  readonly failure: ShallowRef<ApiError | undefined>;
  /** Does the work and says whether it was done. Never rejects. */
  attempt(work: () => Promise<unknown>): Promise<boolean>;
}

/** Something that a person asks the server to do, and that may be refused. `after` runs after each, done or not. */
export function useAttempt(after?: () => unknown): Attempt {
  const isBusy = ref(false);
  const failure = shallowRef<ApiError>();
  return {
    isBusy,
    failure,
    async attempt(work) {
      isBusy.value = true;
      failure.value = undefined;
      try {
        await work();
        return true;
      } catch (thrown) {
        failure.value = ApiError.of(thrown);
        return false;
      } finally {
        isBusy.value = false;
        await after?.();
      }
    },
  };
}

/** Does something every so many milliseconds for as long as the page lives and somebody can see it. */
export function usePolling(work: () => void, every: number): void {
  const timer = setInterval(() => {
    if (!document.hidden) work();
  }, every);
  onScopeDispose(() => clearInterval(timer));
}

let remote: Remote<Server> | undefined;

/** What the server says of itself, read once for all that want to know. Only an admin is told; others see nothing. */
export function useServerInfo(): ShallowRef<Server | undefined> {
  remote ??= readOnce();
  return remote.value;
}

function readOnce(): Remote<Server> {
  // It outlives the page that asked first.
  return effectScope(true).run(() => useLive((signal) => request("GET /api/server", { signal })))!;
}

watch(
  () => currentSession.token,
  () => {
    if (remote !== undefined) remote.value.value = undefined;
  },
);

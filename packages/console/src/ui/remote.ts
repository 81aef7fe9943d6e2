import { effectScope, onScopeDispose, type Ref, ref, type ShallowRef, shallowRef, watch } from "vue";
import { ApiError, currentSession, eventStream, request, type Server, useEvents } from "../api/index.ts";

export interface Remote<Value> {
  readonly value: ShallowRef<Value | undefined>;
  readonly error: ShallowRef<ApiError | undefined>;
  readonly isLoading: ShallowRef<boolean>;
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
  // A new sign-in may see other things.
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

/** Like `useRemote`, but reads at once, and again soon after events whose type begins with one of the prefixes. */
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

export interface Attempt {
  readonly isBusy: Ref<boolean>;
  readonly failure: ShallowRef<ApiError | undefined>;
  /** Runs the work and returns whether it succeeded. Never rejects. */
  attempt(work: () => Promise<unknown>): Promise<boolean>;
}

/** An action that the server may refuse. `after` runs after each attempt, successful or not. */
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

/** Runs the work at this interval while the page exists and is visible. */
export function usePolling(work: () => void, every: number): void {
  const timer = setInterval(() => {
    if (!document.hidden) work();
  }, every);
  onScopeDispose(() => clearInterval(timer));
}

let remote: Remote<Server> | undefined;

/** Information about the server, shared by all components. Only admins get it. */
export function useServerInfo(): ShallowRef<Server | undefined> {
  remote ??= readOnce();
  return remote.value;
}

function readOnce(): Remote<Server> {
  // Its own scope, because it outlives the first component that uses it.
  return effectScope(true).run(() => useLive((signal) => request("GET /api/server", { signal })))!;
}

watch(
  () => currentSession.token,
  () => {
    if (remote !== undefined) remote.value.value = undefined;
  },
);

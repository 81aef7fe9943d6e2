import { onScopeDispose, ref, type ShallowRef, shallowRef, watch } from "vue";
import { ApiError } from "../api/api-error.ts";
import { currentSession } from "../api/session.ts";
import { useReread } from "./use-reread.ts";

export interface Remote<Value> {
  readonly value: ShallowRef<Value | undefined>;
  readonly error: ShallowRef<ApiError | undefined>;
  readonly isLoading: ShallowRef<boolean>;
  /**
   * Reads anew; what was read before stays until the answer is there. An older answer never replaces a newer one: whoever
   * waits for it waits for the newer one. Never rejects.
   */
  reload(): Promise<void>;
  /** Reads anew soon. However often it is asked for, it reads at most once in so many milliseconds. */
  reloadSoon(pause?: number): void;
}

const PAUSE = 400;

/**
 * Something that is read from the server, and kept up to date by whoever shows it. What could not be read because the
 * server was away is read once it is back.
 */
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
  // Who signs in over a page that is there already may see something else, or what was refused a moment ago.
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

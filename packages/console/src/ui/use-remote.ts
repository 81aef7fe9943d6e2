import { onScopeDispose, ref, type ShallowRef, shallowRef, watch } from "vue";
import { ApiError } from "../api/api-error.ts";
import { currentSession } from "../api/session.ts";

export interface Remote<Value> {
  readonly value: ShallowRef<Value | undefined>;
  readonly error: ShallowRef<ApiError | undefined>;
  readonly isLoading: ShallowRef<boolean>;
  /** Reads anew; what was read before stays until the answer is there. An older answer never replaces a newer one. */
  reload(): Promise<void>;
  /** Reads anew soon. However often it is asked for, it reads at most once in so many milliseconds. */
  reloadSoon(pause?: number): void;
}

const PAUSE = 400;

/** Something that is read from the server, and kept up to date by whoever shows it. */
export function useRemote<Value>(read: (signal: AbortSignal) => Promise<Value>): Remote<Value> {
  const value = shallowRef<Value>();
  const error = shallowRef<ApiError>();
  const isLoading = ref(false);
  let current: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const reload = async () => {
    clearTimeout(timer);
    timer = undefined;
    current?.abort();
    const attempt = new AbortController();
    current = attempt;
    isLoading.value = true;
    try {
      const answer = await read(attempt.signal);
      if (current !== attempt) return;
      value.value = answer;
      error.value = undefined;
    } catch (thrown) {
      if (current !== attempt || attempt.signal.aborted) return;
      error.value = thrown instanceof ApiError ? thrown : new ApiError(0, "unexpected", String(thrown));
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

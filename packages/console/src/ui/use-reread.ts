import { onScopeDispose, watch } from "vue";
import type { ApiError } from "../api/api-error.ts";
import { eventStream } from "../api/events.ts";

const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 15_000;

/**
 * Reads again what could not be read because the server was away: as soon as the connection is back, and after ever longer
 * waits where the connection holds and only an answer was lost. Each failure is to be an error of its own.
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

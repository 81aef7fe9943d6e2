import { AsyncLocalStorage } from "node:async_hooks";

/**
 * How many calls in the sandbox wait, each for the next, for what runs now: what a worker asks of the host may lead
 * back into the sandbox. Nothing outside of such a question.
 */
export const nesting = new AsyncLocalStorage<number>();

import { AsyncLocalStorage } from "node:async_hooks";
import type { ToolContext } from "@toolrack/core";

/** The call whose code runs now, for contracts whose functions get no context. */
export const currentCall: AsyncLocalStorage<ToolContext> = new AsyncLocalStorage();

/** The last errors that the code of each call has caught, newest first. */
const caught = new WeakMap<ToolContext<unknown>, Error[]>();
const MOST_CAUGHT = 8;

/** Called by tool files at the start of each `catch`. */
export function noteCaught(error: unknown): void {
  const call = currentCall.getStore();
  if (call === undefined || !(error instanceof Error)) return;
  caught.set(call, [error, ...(caught.get(call) ?? [])].slice(0, MOST_CAUGHT));
}

/** The newest error that the call has caught and whose message one of the texts quotes, as it is or in JSON. */
export function quotedError(call: ToolContext<unknown>, texts: readonly string[]): Error | undefined {
  return caught.get(call)?.find(({ message }) => {
    const inJson = JSON.stringify(message).slice(1, -1);
    return message !== "" && texts.some((text) => text.includes(message) || text.includes(inJson));
  });
}

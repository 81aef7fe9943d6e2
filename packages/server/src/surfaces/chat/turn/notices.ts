import type { TurnEnd } from "./turn-event.ts";

/** What stands at the end of an answer that the rack ended, so that nobody takes it for whole. */
export function noticeOf({ reason, message }: TurnEnd): string | undefined {
  if (reason === "limit" || reason === "loop") return `[${message}]`;
  return undefined;
}

export const roundLimit = (rounds: number): string =>
  `Stopped after ${rounds} rounds of tool calls, which is the limit of one turn (chat.maxRounds). Send a message to go on.`;

export const timeLimit = (seconds: number): string =>
  `Stopped after ${seconds} seconds, which is the limit of one turn (chat.maxSeconds). Send a message to go on.`;

export const tokenLimit = (used: number, limit: number): string =>
  `Stopped after ${used} tokens; the limit of one turn is ${limit} (chat.maxTokens). Send a message to go on.`;

export const wentInCircles = (evidence: string | undefined): string =>
  `Stopped, because the model goes in circles: ${evidence ?? "its latest calls repeat earlier ones"}. Say what should be done instead to go on.`;

/** The model is told why a call that it was writing was not run. */
export const cutArguments = (name: string): string =>
  `"${name}" was not run: your message reached its length limit in the middle of the arguments. Call it again with shorter ones, or in several steps.`;

export const noName = "A call without a name was not run. Name one of the tools that you were given.";

export const tooManyCalls = (limit: number): string =>
  `Not run: one message may make ${limit} calls. Make the rest in the next one.`;

export const unknownTool = (message: string, nearest: readonly string[]): string =>
  nearest.length === 0 ? message : `${message} Nearest to it: ${nearest.join(", ")}.`;

export const outcomeUnknown =
  "The server ended while the tool ran, so nobody knows whether it did its work. Check before you call it again.";

export const neverRun = "Not run: the server ended before its turn came.";

export const stoppedCall = "Not run: the turn was stopped.";

export const notResumed =
  "It was agreed to after the server had started anew, but could not be made then. Call it again if it is still needed.";

export const roundLimit = (rounds: number): string =>
  `Stopped after ${rounds} rounds of tool calls, which is the limit of one turn (chat.maxRounds). Send a message to go on.`;

export const timeLimit = (seconds: number): string =>
  `Stopped after ${seconds} seconds, which is the limit of one turn (chat.maxSeconds). Send a message to go on.`;

export const tokenLimit = (used: number, limit: number): string =>
  `Stopped after ${used} tokens; the limit of one turn is ${limit} (chat.maxTokens). Send a message to go on.`;

export const answerLimit = (limit: number): string =>
  `Stopped in the middle of an answer that has more than ${limit} characters of text, reasoning and arguments, which is the limit of one answer (chat.maxAnswer). Send a message to go on.`;

export const callLimit = (limit: number): string =>
  `Stopped in the middle of an answer that asks for more than ${limit} calls at once, which is the most that one answer may ask for. None of them was run. Ask for fewer at a time to go on.`;

/** What a provider says may have no full stop. */
const asSentence = (text: string): string => (/[.!?…。！？]$/.test(text) ? text : `${text}.`);

/** For a client whose answer could not be finished after tools had changed something. */
export const failedAfterCalls = (problem: string): string =>
  `The answer could not be finished: ${asSentence(problem)} Tools had run before, and what they did stays done. This same request is not run again for two minutes: it gets this answer. Send a further message to go on.`;

/** For a client that repeats a request whose connection closed. */
export const connectionClosed =
  "The connection of this request closed while it was being answered, and it was cancelled.";

/** For a client that repeats a request whose tools already ran in another process or before a restart. */
export const requestRanElsewhere =
  "The same request came a moment ago to another server, or before a restart, and called tools there that do more than read. They are not called again.";

/** For a client that does not follow the events of its turn. */
export const waitsForApproval = (tool: string, id: string): string =>
  `A person has to approve the call of ${tool}: in the console, with \`toolrack approvals\`, or at POST /api/approvals/${id}.`;

export const wentInCircles = (evidence: string | undefined): string =>
  `Stopped, because the model goes in circles: ${evidence ?? "its latest calls repeat earlier ones"}. Say what should be done instead to go on.`;

/** For a call whose arguments were cut off. */
export const cutArguments = (name: string): string =>
  `"${name}" was not run: your message broke off in the middle of the call, as it does at its length limit. Write the whole call again, with shorter arguments or in several steps.`;

export const noName = "A call without a name was not run. Name one of the tools that you were given.";

export const tooManyCalls = (limit: number): string =>
  `Not run: one message may make ${limit} calls. Make the rest in the next one.`;

/** For calls beyond `max_tool_calls` of the request. */
export const enoughCalls = (limit: number): string =>
  `Not run: the client allows ${limit} calls for this answer, and they are made. Answer with what you have.`;

/** For the second and every further call to a client that takes only one call at a time. */
export const oneCallAtATime = (name: string): string =>
  `"${name}" was not run: only one call of this kind is made at a time. Call it again once you have read the answer to the other.`;

/** The answer to a call that the client did not answer, because providers refuse a call without one. */
export const notAnswered = "The client brought no answer to this call.";

/** `given`: how many tools the model was given. */
export const unknownTool = (name: string, nearest: readonly string[], given: number): string => {
  const shown = name.length > 100 ? `${name.slice(0, 100)}…` : name;
  const others =
    nearest.length === 0
      ? `Use one of the ${given} tools that you were given.`
      : `Nearest to it: ${nearest.join(", ")}.`;
  return `There is no tool named "${shown}" here. ${others}`;
};

/** For arguments that are not JSON: the text before and after the place where they stop being JSON. */
export const writtenThere = (before: string, behind: string): string =>
  behind === ""
    ? `What you wrote ends too early, behind: ${before}`
    : `You wrote: ${before} ⟨here⟩ ${behind}`;

export const outcomeUnknown =
  "The server ended while the tool ran, so nobody knows whether it did its work. Check before you call it again.";

/** For a tool that had called other tools when the server ended. `made`: these calls and their outcomes. */
export const interruptedChain = (name: string, made: readonly string[], why: string): string =>
  `"${name}" was interrupted: ${why}. Of the calls that it had made: ${made.join("; ")}. Whether it did anything else is not known. Check before you call it again.`;

/** For readers of the conversation: the call continues under another id. */
export const madeAgain = (callId: string): string =>
  `The server ended while it waited for consent. It was agreed to, and is made again as ${callId}.`;

export const serverEnded = "the server ended while it ran";

export const neverRun = "Not run: the server ended before its turn came.";

export const stoppedCall = "Not run: the turn was stopped.";

export const notResumed =
  "It was agreed to after the server had started anew, but could not be made then. Call it again if it is still needed.";

export const maskedArguments =
  "Not run: its arguments had a secret in them, which was not stored, and the server has started anew since. Call it again with all arguments.";

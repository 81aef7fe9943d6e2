import { createHash } from "node:crypto";
import { functionHandoffId } from "./client-calls.ts";
import type { CompletionRequest } from "./completion-request.ts";
import { type ModelMessage, parsedJson } from "./model.ts";
import { notAnswered } from "./model-messages.ts";

/** A call in the older form of Chat Completions: without an id, one per answer. */
interface FunctionCall {
  readonly name: string;
  readonly arguments: string;
}

/** Whether the client uses the older `functions` form for tools and calls. */
export function offersFunctions({ functions }: CompletionRequest): boolean {
  return (functions?.length ?? 0) > 0;
}

/**
 * Translates a request with `functions` and `function_call` into one with `tools`. Calls in the older form
 * have no ids, so a call is recognised by a hash of its owner, of everything said before it and of the call
 * itself. `handoffId` makes that hash for the calls of the next answer; it is set for a client that offers
 * `functions`.
 */
export function fromFunctions(
  request: CompletionRequest,
  owner: string,
): { request: CompletionRequest; handoffId?: (call: FunctionCall) => string } {
  const { functions, function_call, ...others } = request;
  const choice = others.tool_choice ?? toToolChoice(function_call);
  const rest = choice === undefined ? others : { ...others, tool_choice: choice };
  if (!offersFunctions(request) && !request.messages.some(functionCallOf)) return { request: rest };
  // Hash of the conversation so far. Different ways to write the same message must give the same hash.
  const conversationHash = createHash("sha256").update(lineOf([owner, request.user ?? null]));
  const idOf = (call: FunctionCall) => {
    const hash = conversationHash.copy().update(JSON.stringify(parsedCall(call)));
    return hash.digest("hex").slice(0, 32);
  };
  const messages: ModelMessage[] = [];
  for (const [at, message] of request.messages.entries()) {
    const { function_call: _call, ...asked } = message;
    const call = functionCallOf(message);
    if (call !== undefined) {
      const id = functionHandoffId(idOf(call));
      const next = request.messages[at + 1];
      const content = next?.role === "function" ? (next.content ?? "") : notAnswered;
      messages.push({ ...asked, tool_calls: [{ id, type: "function", function: call }] });
      messages.push({ role: "tool", tool_call_id: id, name: call.name, content });
    } else if (message.role !== "function" || functionCallOf(request.messages[at - 1]) === undefined) {
      // All other messages. A `function` message that answers a call was already added with that call.
      messages.push(message);
    }
    const { role, name, content, tool_calls, tool_call_id } = message;
    const calls = tool_calls?.length ? tool_calls : null;
    const said = [name || null, content || null, call ? parsedCall(call) : null, calls, tool_call_id || null];
    conversationHash.update(lineOf([role, ...said]));
  }
  if (!offersFunctions(request)) return { request: { ...rest, messages } };
  const tools = (functions ?? []).map((described) => ({ type: "function", function: described }));
  return { request: { ...rest, messages, tools, parallel_tool_calls: false }, handoffId: idOf };
}

/** Index of a `function` message that answers no call; -1 when there is none. */
export function functionWithoutCall(messages: readonly ModelMessage[]): number {
  return messages.findIndex(
    ({ role }, at) => role === "function" && functionCallOf(messages[at - 1]) === undefined,
  );
}

function functionCallOf(message: ModelMessage | undefined): FunctionCall | undefined {
  if (message === undefined) return undefined;
  const { role, function_call: call, tool_calls } = message;
  if (role !== "assistant" || typeof call !== "object" || call === null || tool_calls?.length)
    return undefined;
  const { name, arguments: written } = Object(call);
  return { name: String(name), arguments: String(written ?? "") };
}

function toToolChoice(choice: unknown): unknown {
  if (typeof choice !== "object" || choice === null) return choice ?? undefined;
  return { type: "function", function: choice };
}

function lineOf(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/** Parses the arguments, so that whitespace makes no difference to the hash. */
function parsedCall({ name, arguments: written }: FunctionCall): unknown {
  return [name, parsedJson(written) ?? written];
}

import { createHash } from "node:crypto";
import type { CompletionRequest } from "./completion-request.ts";
import { functionHandoffId, type HandoverOptions } from "./handoff.ts";
import type { ModelMessage } from "./model.ts";

/** A call in the older form of Chat Completions, which has no id and comes alone. */
interface FunctionCall {
  readonly name: string;
  readonly arguments: string;
}

interface TranslatedRequest {
  readonly request: CompletionRequest;
  /** Of a client that knows only the older form: under which id a call that it is handed is found again. */
  readonly handoffId?: HandoverOptions["handoffId"];
}

/** Whether the client offers its tools as `functions`, and so reads calls in their form. */
export function offersFunctions({ functions }: CompletionRequest): boolean {
  return (functions?.length ?? 0) > 0;
}

/**
 * A request with `functions`, `function_call` and messages of their kind as one with `tools`. Their calls have no ids by
 * which a client could say what it answers, so one is found again by who asked and all that was said before it.
 */
export function fromFunctions(request: CompletionRequest, owner: string): TranslatedRequest {
  const { functions, function_call, ...others } = request;
  const choice = others.tool_choice ?? toToolChoice(function_call);
  const rest = choice === undefined ? others : { ...others, tool_choice: choice };
  if (!offersFunctions(request) && !request.messages.some(functionCallOf)) return { request: rest };
  // Stands for the conversation up to a message, also when the client writes the same in another way.
  const spoken = createHash("sha256").update(lineOf([owner, request.user ?? null]));
  const idOf = (call: FunctionCall) =>
    spoken
      .copy()
      .update(JSON.stringify(parsedCall(call)))
      .digest("hex")
      .slice(0, 32);
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
      // An answer came together with its call.
      messages.push(message);
    }
    const { role, name, content, tool_calls, tool_call_id } = message;
    const calls = tool_calls?.length ? tool_calls : null;
    spoken.update(
      lineOf([
        role,
        name || null,
        content || null,
        call ? parsedCall(call) : null,
        calls,
        tool_call_id || null,
      ]),
    );
  }
  if (!offersFunctions(request)) return { request: { ...rest, messages } };
  const tools = (functions ?? []).map((described) => ({ type: "function", function: described }));
  return { request: { ...rest, messages, tools, parallel_tool_calls: false }, handoffId: idOf };
}

/** Where a message of the role `function` answers nothing; -1 when every one does. */
export function functionWithoutCall(messages: readonly ModelMessage[]): number {
  return messages.findIndex(
    ({ role }, at) => role === "function" && functionCallOf(messages[at - 1]) === undefined,
  );
}

/** Providers take no call without an answer. */
const notAnswered = "The client brought no answer to this call.";

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

/** The same for arguments that are written with other spaces. */
function parsedCall({ name, arguments: written }: FunctionCall): unknown {
  try {
    return [name, JSON.parse(written)];
  } catch {
    return [name, written];
  }
}

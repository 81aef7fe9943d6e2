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
  const spoken = new SpokenSoFar(owner, request.user);
  const messages = request.messages.flatMap((message, at) => {
    const translated = translatedMessage(request.messages, at, spoken);
    spoken.add(message);
    return translated;
  });
  if (!offersFunctions(request)) return { request: { ...rest, messages } };
  return {
    request: {
      ...rest,
      messages,
      tools: (functions ?? []).map((described) => ({ type: "function", function: described })),
      parallel_tool_calls: false,
    },
    handoffId: (call) => spoken.idOf(call),
  };
}

/** Where a message of the role `function` answers nothing; -1 when every one does. */
export function functionWithoutCall(messages: readonly ModelMessage[]): number {
  return messages.findIndex(
    ({ role }, at) => role === "function" && functionCallOf(messages[at - 1]) === undefined,
  );
}

function translatedMessage(
  messages: readonly ModelMessage[],
  at: number,
  spoken: SpokenSoFar,
): readonly ModelMessage[] {
  const message = messages[at]!;
  const call = functionCallOf(message);
  // It is answered together with its call.
  if (message.role === "function" && functionCallOf(messages[at - 1]) !== undefined) return [];
  if (call === undefined) return [message];
  const { function_call: _call, ...asked } = message;
  const id = functionHandoffId(spoken.idOf(call));
  const next = messages[at + 1];
  const content = next?.role === "function" ? (next.content ?? "") : notAnswered;
  return [
    { ...asked, tool_calls: [{ id, type: "function", function: call }] },
    { role: "tool", tool_call_id: id, name: call.name, content },
  ];
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

/** Stands for a conversation up to a message, also when the client writes the same in another way. */
class SpokenSoFar {
  readonly #hash = createHash("sha256");

  constructor(owner: string, user: unknown) {
    this.#write([owner, user ?? null]);
  }

  add(message: ModelMessage): void {
    const { role, name, content, tool_calls, tool_call_id } = message;
    const call = functionCallOf(message);
    this.#write([
      role,
      name || null,
      content || null,
      call === undefined ? null : withoutSpaces(call),
      tool_calls?.length ? tool_calls : null,
      tool_call_id || null,
    ]);
  }

  /** 32 hexadecimal digits for a call that comes next. */
  idOf(call: FunctionCall): string {
    return this.#hash
      .copy()
      .update(JSON.stringify(withoutSpaces(call)))
      .digest("hex")
      .slice(0, 32);
  }

  #write(value: unknown): void {
    this.#hash.update(`${JSON.stringify(value)}\n`);
  }
}

function withoutSpaces({ name, arguments: written }: FunctionCall): unknown {
  try {
    return [name, JSON.parse(written)];
  } catch {
    return [name, written];
  }
}

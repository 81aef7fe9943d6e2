import { createHash } from "node:crypto";
import type { JsonSchemaObject } from "@toolrack/core";
import { parsedJson } from "../helpers/index.ts";
import { HttpError, s } from "../http/wire/index.ts";
import { functionHandoffId } from "./client-calls.ts";
import type { ModelEndpoint, ModelMessage, ModelTool } from "./model.ts";
import { notAnswered } from "./model-messages.ts";

const open = { additionalProperties: true };
const functionCall = s.object({ name: s.text(), arguments: s.text() }, open);
/** The schema of a `ModelMessage`. Members that are not named here are passed on unchanged. */
const message: JsonSchemaObject = s.object(
  {
    role: s.choice(["system", "developer", "user", "assistant", "tool", "function"]),
    "content?": {
      type: ["string", "array", "null"],
      items: s.object({ type: s.text(), "text?": s.text() }, open),
    },
    "tool_calls?": s.nullable(
      s.list(
        s.object(
          {
            id: s.text(),
            "function?": functionCall,
            "custom?": s.object({ name: s.text(), input: s.text() }, open),
          },
          { ...open, anyOf: [{ required: ["function"] }, { required: ["custom"] }] },
        ),
      ),
    ),
    "function_call?": s.nullable(functionCall),
    "tool_call_id?": s.nullable(s.text()),
    "name?": s.nullable(s.text()),
  },
  open,
);

const functionChoice: JsonSchemaObject = {
  ...s.object({ name: s.text() }, open),
  type: ["string", "object", "null"],
  description: "The older form of `tool_choice`.",
};

/** Members of a request in either of OpenAI's forms that the rack itself reads. */
export const rackMembers = {
  "model?": s.nullable(
    s.text({ maxLength: 200, description: "As `GET /v1/models` lists it. Default: the config's." }),
  ),
  "n?": s.nullable(s.integer({ minimum: 1, description: "Only 1: tools are run for one answer." })),
  "toolrack?": s.closed(
    {
      "events?": s.boolean("Tell of the tools that are run; see the guide."),
      "expert?": s.text({ minLength: 1, maxLength: 128, description: "Offer this expert's tools only." }),
    },
    "What only the rack understands; it is not sent to the provider.",
  ),
} as const;

const requestMembers = {
  messages: s.list<ModelMessage>(message, { minItems: 1 }),
  "tools?": s.nullable<readonly ModelTool[]>(
    s.list(s.object({ type: s.text() }, open), {
      maxItems: 1024,
      description: "Tools that the client runs itself, beside those of the rack.",
    }),
  ),
  "functions?": s.nullable(
    s.list(s.object({ name: s.text({ minLength: 1 }) }, open), {
      maxItems: 1024,
      description: "The older form of `tools`: calls come back as `function_call`, one at a time.",
    }),
  ),
  "function_call?": functionChoice,
  "stream?": s.nullable(s.boolean()),
  "stream_options?": s.nullable(s.object({ "include_usage?": s.boolean() }, open)),
  ...rackMembers,
} as const;

/** A request to `/v1/chat/completions`. Members that are not named here go to the provider unchanged. */
export type CompletionRequest = s.Values<typeof requestMembers> & { readonly [key: string]: unknown };

export const completionRequestSchema: s.Schema<CompletionRequest> = s.object(requestMembers, open);

/** Throws what a client is told of a member of its request that cannot be served. */
export function refuse(param: string, message: string): never {
  throw new HttpError("invalid_request", message, { param });
}

export function refuseSeveral({ n }: Pick<CompletionRequest, "n">): void {
  const advice = "Leave it out, and send the request again for another answer.";
  if ((n ?? 1) > 1)
    refuse("n", `\`n\` is ${n}, but the tools of the rack are run for one answer only. ${advice}`);
}

/** Throws `HttpError` with what to do instead. */
export function refuseUnservable(
  { messages, tools, functions, n }: CompletionRequest,
  { toolCalls }: Pick<ModelEndpoint, "toolCalls">,
): void {
  refuseSeveral({ n });
  if (tools?.length && functions?.length)
    refuse("functions", "`functions` is the older form of `tools`: send one of them, and best `tools`.");
  const orphan = functionWithoutCall(messages);
  if (orphan >= 0)
    refuse(
      `messages[${orphan}]`,
      `messages[${orphan}] has the role \`function\`, but the message before it has no \`function_call\` that it could answer.`,
    );
  // Only tools of these two types can be described as text. For models with native tool calls the provider
  // decides which types it accepts.
  const unfit = tools?.find(({ type }) => type !== "function" && type !== "custom")?.type;
  if (toolCalls === "tags" && unfit !== undefined)
    refuse(
      "tools",
      `This model is told of tools by text, which works for tools of the types \`function\` and \`custom\`, but not for \`${unfit}\`.`,
    );
}

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
function functionWithoutCall(messages: readonly ModelMessage[]): number {
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

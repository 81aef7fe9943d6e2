import { s } from "../http/wire/index.ts";
import { type CompletionRequest, rackMembers, refuse, refuseSeveral } from "./completion-request.ts";
import type { ModelTool } from "./model.ts";
import { isRackItem, type ResponseItem } from "./response-items.ts";

const open = { additionalProperties: true };
const item = s.object({ "type?": s.text(), "role?": s.text(), "id?": s.nullable(s.text()) }, open);

const settingMembers = {
  "instructions?": s.nullable(s.text("What the model is told first, for this response only.")),
  "previous_response_id?": s.nullable(s.text("The response that this one follows.")),
  "store?": s.nullable(s.boolean("False: nothing is kept. Default true.")),
  "background?": s.nullable(s.boolean("Answer at once; the work goes on.")),
  "stream?": s.nullable(s.boolean()),
  "tools?": s.nullable<readonly ResponseTool[]>(
    s.list(s.object({ type: s.text(), "name?": s.text() }, open), {
      maxItems: 1024,
      description: "Tools that the client runs itself, beside those of the rack.",
    }),
  ),
  "tool_choice?": s.anything(),
  "text?": s.nullable(
    s.object({ "format?": s.nullable(s.object({ type: s.text() }, open)), "verbosity?": s.anything() }, open),
  ),
  "reasoning?": s.nullable(s.object({ "effort?": s.nullable(s.text()) }, open)),
  "max_output_tokens?": s.nullable(s.integer({ minimum: 1 })),
  "max_tool_calls?": s.nullable(s.integer({ minimum: 1 })),
  "top_logprobs?": s.nullable(s.integer({ minimum: 0, maximum: 20 })),
  "include?": s.nullable(s.texts()),
  "metadata?": s.nullable(s.anyObject()),
  ...rackMembers,
} as const;

interface ResponseTool {
  readonly type: string;
  readonly name?: string;
  readonly [key: string]: unknown;
}

/**
 * A request to `/v1/responses` without its input, as it is stored with the response. Members that are not named here go
 * to the provider unchanged.
 */
export type ResponseSettings = s.Values<typeof settingMembers> & { readonly [key: string]: unknown };

export type ResponseRequest = ResponseSettings & { readonly input: string | readonly ResponseItem[] };

const input: s.Schema<ResponseRequest["input"]> = {
  anyOf: [s.text(), s.list(item)],
  description: "Text, or items: messages, calls of the client's tools and their outputs, references.",
};

export const responseRequestSchema: s.Schema<ResponseRequest> = s.object({ ...settingMembers, input }, open);

/** Whether the client expects JSON, so that the answer may hold nothing else. */
export function wantsJson({ text }: ResponseSettings): boolean {
  const type = text?.format?.type;
  return type === "json_object" || type === "json_schema";
}

/** Whether the client is shown the calls of the rack's tools. */
export function showsCalls({ toolrack }: ResponseSettings): boolean {
  return toolrack?.events === true;
}

const formats = new Set(["text", "json_object", "json_schema"]);

/** Throws `HttpError` with what to do instead. */
export function refuseUnservable(request: ResponseRequest, items: readonly ResponseItem[]): void {
  const { conversation, prompt, background, store, tools, tool_choice, text } = request;
  refuseSeveral(request);
  if (conversation != null)
    refuse("conversation", "`conversation` is not known here: go on with `previous_response_id` instead.");
  if (prompt != null)
    refuse("prompt", "`prompt` is a template at OpenAI: send its text as `instructions` and `input`.");
  if (background && store === false)
    refuse("background", "A response in the background is kept: leave out `store: false`.");
  if (!formats.has(text?.format?.type ?? "text"))
    refuse("text.format", "`text.format` has the type `text`, `json_object` or `json_schema`.");
  for (const [at, { type, name }] of (tools ?? []).entries()) {
    const advice =
      "Leave it out: the rack offers its own tools by itself, and takes the types `function` and `custom`.";
    if (type !== "function" && type !== "custom")
      refuse(
        `tools[${at}]`,
        `tools[${at}] has the type \`${type}\`, which only OpenAI's servers run. ${advice}`,
      );
    if (!name) refuse(`tools[${at}].name`, `tools[${at}] has no name. Give it one, beside its type.`);
  }
  if (toToolChoice(tool_choice) === undefined && tool_choice != null)
    refuse("tool_choice", "`tool_choice` is `auto`, `none`, `required`, or names tools of the request.");
  for (const [at, item] of items.entries()) {
    const advice =
      "Send messages with text, images and files (as data, not as an address), calls of functions and custom tools, and their outputs.";
    if (!isRackItem(item))
      refuse(
        `input[${at}]`,
        `input[${at}] of the type \`${item.type}\` has no place in a chat completion. ${advice}`,
      );
  }
}

/** Members that only the Responses API knows, or that are translated below. */
const ownMembers = new Set(
  [
    "model input instructions previous_response_id conversation prompt store background stream stream_options n toolrack",
    "tools tool_choice max_tool_calls text reasoning max_output_tokens top_logprobs include metadata truncation image",
    "context_management moderation prompt_cache_options prompt_cache_retention access_programs",
  ].flatMap((line) => line.split(" ")),
);

/** The request in the form of Chat Completions, without its messages. `max_output_tokens` and `max_tool_calls` keep their names; see `requestBody`. */
export function toProviderRequest(
  request: ResponseSettings,
): Pick<CompletionRequest, "tools"> & { readonly body: Readonly<Record<string, unknown>> } {
  const { tools, tool_choice, text, reasoning, top_logprobs, include } = request;
  const others = Object.entries(request).filter(([name, value]) => !ownMembers.has(name) && value != null);
  const wantsLogprobs = top_logprobs != null || include?.includes("message.output_text.logprobs") === true;
  const translated = {
    tool_choice: toToolChoice(tool_choice),
    response_format: toResponseFormat(text?.format),
    verbosity: text?.verbosity ?? undefined,
    reasoning_effort: reasoning?.effort ?? undefined,
    max_output_tokens: request.max_output_tokens ?? undefined,
    max_tool_calls: request.max_tool_calls ?? undefined,
    ...(wantsLogprobs ? { logprobs: true, top_logprobs: top_logprobs ?? undefined } : {}),
  };
  const known = Object.entries(translated).filter(([, value]) => value !== undefined);
  return {
    tools: (tools ?? []).map(toModelTool),
    body: Object.fromEntries([...others, ...known]),
  };
}

/** Responses have the members of a tool beside its type, Chat Completions in a member of the type's name. */
function toModelTool({ type, name, description, parameters, strict, format }: ResponseTool): ModelTool {
  if (type === "custom") return { type, custom: { name, description, format: toGrammar(format) } };
  // Members that are undefined are not sent, because JSON leaves them out.
  return {
    type: "function",
    function: {
      name,
      description: description ?? undefined,
      parameters: parameters ?? undefined,
      strict: strict ?? undefined,
    },
  };
}

function toGrammar(format: unknown): unknown {
  const { type, ...grammar } = Object(format);
  return type === "grammar" ? { type, grammar } : format;
}

function toToolChoice(choice: unknown): unknown {
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  const { type, name, mode, tools } = Object(choice);
  if ((type === "function" || type === "custom") && typeof name === "string")
    return { type, [type]: { name } };
  if (type !== "allowed_tools" || !Array.isArray(tools)) return undefined;
  const allowed = tools.map(toToolChoice);
  return allowed.includes(undefined) ? undefined : { type, allowed_tools: { mode, tools: allowed } };
}

function toResponseFormat(format: Readonly<Record<string, unknown>> | null | undefined): unknown {
  const { type, ...described } = format ?? {};
  if (type === "json_schema") return { type, json_schema: described };
  return type === "json_object" ? { type } : undefined;
}

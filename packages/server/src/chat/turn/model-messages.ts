import {
  type FilePart,
  fromTagArguments,
  type JsonSchemaObject,
  readTagText,
  toDefinition,
  toTagResult,
} from "@toolrack/core";
import { v7 as uuid } from "uuid";
import {
  calledIn,
  type ModelContentPart,
  type ModelMessage,
  type ModelTool,
  type ModelToolCall,
  nameOf,
  textOf,
} from "../model/providers.ts";
import { isSettled, isTool, type MessagePart, type ToolPart, textOfParts } from "./events.ts";
import type { Turn } from "./turn-loop.ts";

/**
 * A turn as the model is told of it: for every round its own message, then one answer for each call in the order in
 * which it asked. Images cannot stand in an answer to a call, so they follow as a message.
 */
export function toModelMessages(
  parts: readonly MessagePart[],
  takesImages: boolean,
  /** Who is told, where the turn still goes on: is given back what it wants to read again. */
  provider?: string,
): ModelMessage[] {
  const rounds = Map.groupBy(parts, ({ round }) => round);
  return [...rounds.values()].flatMap((round) => roundMessages(round, takesImages, provider));
}

/** What a model reads that takes no images: a line in the place of each. */
export function withoutImages(message: ModelMessage): ModelMessage {
  const { content } = message;
  if (!Array.isArray(content) || content.every((part) => !isImage(part))) return message;
  return { ...message, content: content.map((part) => (isImage(part) ? imageLine : part)) };
}

const imageLine: ModelContentPart = {
  type: "text",
  text: "[An image was left out here: you are set up to take none (images: false). Say so if it matters.]",
};

function isImage({ type }: ModelContentPart): boolean {
  return type === "image_url" || type === "input_image" || type === "image";
}

function roundMessages(
  parts: readonly MessagePart[],
  takesImages: boolean,
  provider: string | undefined,
): ModelMessage[] {
  const calls = parts.filter(isTool);
  const said = textOfParts(parts);
  const refusal = textOfParts(parts, "refusal");
  if (calls.length === 0) {
    if (said === "" && refusal === "") return [];
    return [{ role: "assistant", content: said, ...(refusal === "" ? {} : { refusal }) }];
  }
  const asked: ModelMessage = {
    role: "assistant",
    content: said === "" ? null : said,
    ...echoOf(parts, calls[0], provider),
    tool_calls: calls.map((part) => ({
      ...(part.echo !== undefined && part.echo.provider === provider ? part.echo.call : {}),
      ...toModelCall({ ...part, arguments: soundArguments(part) }),
    })),
  };
  const images = takesImages ? imageMessages(calls) : [];
  // What the client answers, it brings itself.
  const answered = calls.filter((part) => !part.client || isSettled(part));
  return [asked, ...answered.map(answerMessage), ...images];
}

/** The call in the form in which the model made it. */
export function toModelCall({
  id,
  name,
  arguments: written,
  kind = "function",
}: Pick<ToolPart, "id" | "name" | "arguments" | "kind">): ModelToolCall {
  if (kind === "custom") return { id, type: kind, custom: { name, input: written } };
  return { id, type: kind, function: { name, arguments: written } };
}

function echoOf(
  parts: readonly MessagePart[],
  first: ToolPart | undefined,
  provider: string | undefined,
): Record<string, unknown> {
  const echo = first?.echo;
  if (echo === undefined || echo.provider !== provider) return {};
  const reasoning = echo.reasoning === undefined ? {} : { [echo.reasoning]: textOfParts(parts, "reasoning") };
  return { ...reasoning, ...echo.message };
}

function answerMessage({ id, name, state }: ToolPart): ModelMessage {
  return { role: "tool", tool_call_id: id, name, content: answerText(state) };
}

function answerText(state: ToolPart["state"]): string {
  if (state.status === "error") return state.error;
  if (state.status !== "completed") return notAnswered;
  const files = (state.attachments ?? []).map(fileLine);
  return [...(state.output === "" && files.length > 0 ? [] : [state.output]), ...files].join("\n");
}

const notAnswered = "The call was not run: the turn ended before its turn came.";

function fileLine({ mime, filename, url }: FilePart): string {
  const name = filename === undefined ? mime : `${filename}, ${mime}`;
  return url.startsWith("data:") ? `[attached: ${name}]` : `[attached: ${name}, ${url}]`;
}

function imageMessages(calls: readonly ToolPart[]): ModelMessage[] {
  return calls.flatMap(({ id, name, state }) => {
    const files = state.status === "completed" ? (state.attachments ?? []) : [];
    const images = files.filter(({ mime }) => mime.startsWith("image/"));
    if (images.length === 0) return [];
    const text = `The image${images.length === 1 ? "" : "s"} that ${name} returned (call ${id}):`; // See `imageCallOf`.
    const shown = images.map(({ url }) => ({ type: "image_url", image_url: { url } }));
    return [{ role: "user", content: [{ type: "text", text }, ...shown] }];
  });
}

const imageWords = /^The images? that .+ returned \(call (.+)\):$/;

/** The model's id of the call whose images a message shows; undefined for a message of any other kind. */
export function imageCallOf({ role, content }: ModelMessage): string | undefined {
  if (role !== "user" || !Array.isArray(content)) return undefined;
  const [first, ...others] = content;
  const isImages = others.length > 0 && others.every(({ type }) => type === "image_url");
  return isImages ? imageWords.exec(first?.text ?? "")?.[1] : undefined;
}

/**
 * Providers refuse a history with arguments that are not JSON. Of a call that was mended the model is told what ran; of
 * any other, its answer says what was wrong.
 */
function soundArguments({ kind, arguments: written, state }: ToolPart): string {
  if (kind === "custom" || isObject(written)) return written;
  return JSON.stringify(state.status === "completed" ? state.input : {});
}

function isObject(written: string): boolean {
  try {
    const value: unknown = JSON.parse(written);
    return typeof value === "object" && value !== null;
  } catch {
    return false;
  }
}

/** The conversation for a model that has no tool calls of its own: definitions, calls and answers become text. */
export function toTagMessages(
  messages: readonly ModelMessage[],
  tools: readonly ModelTool[],
): ModelMessage[] {
  const told = messages.map(toTagMessage);
  if (tools.length === 0) return told;
  const instructions = howToCall(tools);
  const [first, ...others] = told;
  // Many of these models read only one system message.
  if (first?.role === "system")
    return [{ ...first, content: `${textOf(first)}\n\n${instructions}` }, ...others];
  return [{ role: "system", content: instructions }, ...told];
}

/** What a model wrote, taken apart. */
interface TagAnswer {
  /** With the types that the tools' schemas ask for. One with which the text breaks off is the last, without arguments. */
  readonly calls: ModelToolCall[];
  readonly text: string;
  readonly isCut: boolean;
}

export function readTagAnswer(
  written: string,
  { offered, clientTools }: Pick<Turn, "offered" | "clientTools">,
): TagAnswer {
  const { calls, text, unfinished } = readTagText(written);
  const schemaOf = (name: string) => {
    const own = clientTools.find((tool) => nameOf(tool) === name);
    if (own !== undefined) return Object(own.function?.parameters) as JsonSchemaObject; // Looked into with care.
    const info = offered.infos.get(name);
    return info === undefined ? undefined : toDefinition(info).inputSchema;
  };
  const typed = calls.map(({ name, arguments: values }) => {
    const own = clientTools.find((tool) => nameOf(tool) === name);
    if (own?.type === "custom") return toCustomCall(name, inputIn(values));
    const inputSchema = schemaOf(name);
    return toCall(
      name,
      JSON.stringify(inputSchema === undefined ? values : fromTagArguments(values, { inputSchema })),
    );
  });
  const isCut = unfinished !== undefined;
  return { calls: isCut ? [...typed, toCall(unfinished, "")] : typed, text, isCut };
}

/** The parameter by which a model in this form gives a `custom` tool its input. */
const INPUT = "input";

function toCall(name: string, written: string): ModelToolCall {
  return { id: newId(), type: "function", function: { name, arguments: written } };
}

function toCustomCall(name: string, input: string): ModelToolCall {
  return { id: newId(), type: "custom", custom: { name, input } };
}

function inputIn(values: unknown): string {
  return String((Object(values) as Record<string, unknown>)[INPUT] ?? "");
}

function newId(): string {
  return `call_${uuid().replaceAll("-", "")}`;
}

function toTagMessage(message: ModelMessage): ModelMessage {
  const { role, tool_calls, name } = message;
  if (role === "tool") {
    const result = { type: "text", content: textOf(message) } as const;
    return { role: "user", content: toTagResult(name ?? "tool", result) };
  }
  if (role !== "assistant" || !tool_calls) return message;
  const said = textOf(message);
  const calls = tool_calls.map((call) => {
    const { name: called, written } = calledIn(call);
    return tagOf(called, call.custom === undefined ? written : JSON.stringify({ [INPUT]: written }));
  });
  return { role, content: [...(said === "" ? [] : [said]), ...calls].join("\n") };
}

function tagOf(name: string, written: string): string {
  const parameters = Object.entries(objectOf(written)).map(([key, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `<param name="${encode(key)}" value="${encode(text)}"/>`;
  });
  return `<tool_action name="${encode(name)}">${parameters.join("")}</tool_action>`;
}

function objectOf(written: string): object {
  try {
    return Object(JSON.parse(written));
  } catch {
    return {};
  }
}

function encode(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

/** As a function: a `custom` tool is one that takes a text. */
function describe({ type, function: described, custom }: ModelTool): Readonly<Record<string, unknown>> {
  if (type !== "custom") return described ?? {};
  return {
    ...custom,
    parameters: { type: "object", properties: { [INPUT]: { type: "string" } }, required: [INPUT] },
  };
}

function howToCall(tools: readonly ModelTool[]): string {
  const described = tools.map((tool) => JSON.stringify(describe(tool)));
  return [
    "You can call tools. To call one, write exactly this, with one tag for each parameter, and end your message after it:",
    '<tool_action name="TOOL"><param name="PARAMETER" value="VALUE"/></tool_action>',
    'Inside a value write &quot; for ", &lt; for < and &amp; for &. Write lists and objects as JSON. Several calls may ' +
      "follow each other. In quotation marks and in code blocks a call is only shown and not made. The " +
      'answers come in the next message as <tool_output name="TOOL" status="ok">; never write ' +
      "those yourself. Without a call, your message is the answer to the person. The tools, each as JSON:",
    ...described,
  ].join("\n");
}

const opening = /<(?:tool_action|action)(?=[\s/>])/;
/** What could become an opening tag with what comes next. */
const beginning =
  /<(?:t(?:o(?:o(?:l(?:_(?:a(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?)?)?)?)?|a(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?$/;

/**
 * Lets through the text that a person reads, and holds back the calls that a model writes into it, with what stands
 * behind them: only the whole text tells what is a call.
 */
export class TagFilter {
  #held = "";
  #isHolding = false;
  #shown = 0;

  /** What can be shown now. */
  add(text: string): string {
    this.#held += text;
    if (this.#isHolding) return "";
    const start = opening.exec(this.#held)?.index;
    this.#isHolding = start !== undefined;
    const end = start ?? beginning.exec(this.#held)?.index ?? this.#held.length;
    const shown = this.#held.slice(0, end);
    this.#held = this.#held.slice(end);
    this.#shown += shown.length;
    return shown;
  }

  /** What is still to be shown of the text that is left without its calls. */
  rest(text: string): string {
    const rest = text.slice(this.#shown);
    return rest.trim() === "" ? "" : rest;
  }
}

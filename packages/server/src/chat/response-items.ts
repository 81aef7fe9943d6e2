import { parsedJson } from "../helpers/index.ts";
import { objectsIn } from "./answer-chunks.ts";
import { type ModelContentPart, type ModelMessage, type ModelToolCall, newCall } from "./model.ts";

/**
 * An item of the Responses API: a message, a call, the output of a call, reasoning, or a reference to another item.
 */
export interface ResponseItem {
  readonly type: string;
  readonly id?: string | null;
  readonly [key: string]: unknown;
}

const roles = new Set(["user", "assistant", "system", "developer"]);

/** The input of a request as items. A message may be written without its type, and with a text instead of parts. */
export function toItems(input: string | readonly ResponseItem[]): ResponseItem[] {
  if (typeof input === "string") return [userItem(input)];
  return input.map((item) => {
    const { type = "message", role, content } = item;
    if (type !== "message" || typeof content !== "string") return { ...item, type };
    const part = { type: role === "assistant" ? "output_text" : "input_text", text: content };
    return { ...item, type, content: [part] };
  });
}

export function userItem(content: unknown): ResponseItem {
  const parts = typeof content === "string" ? [{ type: "input_text", text: content }] : content;
  return { type: "message", role: "user", content: parts };
}

/** Whether the item can be sent to a model that is reached by chat completions. */
export function isRackItem(item: ResponseItem): boolean {
  const { type, role, content, call_id, name, arguments: written, input, output } = item;
  if (type === "item_reference" || isUnsaid({ type })) return true;
  if (type === "function_call" || type === "custom_tool_call")
    return [call_id, name, written ?? input ?? ""].every((member) => typeof member === "string");
  if (isOutput({ type })) return typeof call_id === "string" && isReadable(output);
  return type === "message" && roles.has(String(role)) && isReadable(content);
}

export function isCall({ type }: Pick<ResponseItem, "type">): boolean {
  return type === "function_call" || type === "custom_tool_call";
}

export function isOutput({ type }: Pick<ResponseItem, "type">): boolean {
  return type === "function_call_output" || type === "custom_tool_call_output";
}

/** Reasoning, and calls that the rack made. The rack knows itself what the model should read of them. */
function isUnsaid({ type }: Pick<ResponseItem, "type">): boolean {
  return type === "reasoning" || type === "mcp_call" || type === "mcp_list_tools";
}

/** Whether the items go on with a turn: outputs of the client's tools, and nothing that a person said. */
export function isReturn(items: readonly ResponseItem[]): boolean {
  return items.some(isOutput) && !items.some(({ role }) => role === "user");
}

/** Why calls and outputs do not fit together, as providers demand it; undefined when they do. */
export function unpaired(items: readonly ResponseItem[]): string | undefined {
  const open = new Map<string, unknown>();
  const known = new Set<string>();
  for (const item of items) {
    const callId = String(item.call_id);
    if (isCall(item)) open.set(callId, item.name);
    if (isCall(item)) known.add(callId);
    if (!isOutput(item)) continue;
    if (!known.has(callId))
      return `No call with the call_id "${callId}" stands before its output. Send the item with the call too, or the \`previous_response_id\` of the response that has it.`;
    open.delete(callId);
  }
  const [left] = open;
  if (left === undefined) return undefined;
  return `The call "${left[0]}" of the tool "${left[1]}" has no output. Run it, and send a \`function_call_output\` item with its call_id.`;
}

/** The items as messages of Chat Completions. References must have been replaced before. */
export function toMessages(items: readonly ResponseItem[]): ModelMessage[] {
  const messages: ModelMessage[] = [];
  /** Images that tools returned. They follow the outputs of all calls, because `tool` messages hold only text. */
  let images: ModelContentPart[] = [];
  const showImages = () => {
    if (images.length > 0) messages.push({ role: "user", content: images });
    images = [];
  };
  for (const item of items) {
    if (isUnsaid(item)) continue;
    if (isOutput(item)) {
      const parts = contentParts(item.output);
      messages.push({ role: "tool", tool_call_id: String(item.call_id), content: joinedText(parts) });
      images.push(...parts.filter(({ type }) => type !== "text"));
      continue;
    }
    showImages();
    const last = messages.at(-1);
    if (!isCall(item)) messages.push(toMessage(item));
    else if (last?.role !== "assistant")
      messages.push({ role: "assistant", content: null, tool_calls: [toCall(item)] });
    else messages[messages.length - 1] = { ...last, tool_calls: [...(last.tool_calls ?? []), toCall(item)] };
  }
  showImages();
  return messages;
}

function toMessage({ role, content }: ResponseItem): ModelMessage {
  const parts = contentParts(content);
  // Every provider knows `system`, and those that know `developer` treat it alike.
  if (role === "system" || role === "developer") return { role: "system", content: joinedText(parts) };
  if (role !== "assistant") {
    const isText = parts.length === 1 && parts[0]?.type === "text";
    return { role: "user", content: isText ? joinedText(parts) : parts };
  }
  const refusal = objectsIn(content).map((part) => (part.type === "refusal" ? String(part.refusal) : ""));
  const refused = refusal.join("");
  return { role: "assistant", content: joinedText(parts), ...(refused === "" ? {} : { refusal: refused }) };
}

function toCall({ type, call_id, name, arguments: written, input }: ResponseItem): ModelToolCall {
  const isCustom = type === "custom_tool_call";
  const words = String((isCustom ? input : written) ?? "");
  return newCall(String(name), words, isCustom ? "custom" : "function", String(call_id));
}

/** Text of an output, and its images as parts of Chat Completions. */
export function readOutput({ output }: ResponseItem): { text: string; images: string[] } {
  const parts = contentParts(output);
  const images = parts.flatMap(({ image_url }) => Object(image_url).url ?? []);
  return { text: joinedText(parts), images };
}

function isReadable(content: unknown): boolean {
  if (typeof content === "string" || content == null) return true;
  return (
    Array.isArray(content) &&
    objectsIn(content).length === content.length &&
    objectsIn(content).every(canTell)
  );
}

/** Files and images that are kept at OpenAI, and files by their address, are out of a provider's reach. */
function canTell({ type, text, image_url, file_data, file_id }: Readonly<Record<string, unknown>>): boolean {
  if (type === "input_image") return typeof image_url === "string";
  if (type === "input_file") return typeof file_data === "string" || typeof file_id === "string";
  if (textTypes.has(String(type))) return typeof (text ?? "") === "string";
  return type === "refusal" || type === "input_audio";
}

const textTypes = new Set(["input_text", "output_text", "text", "summary_text", "reasoning_text"]);

function contentParts(content: unknown): ModelContentPart[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return objectsIn(content).flatMap((part): ModelContentPart[] => {
    const { type, text, image_url, detail, filename, file_data, file_id, input_audio } = part;
    if (type === "input_image") {
      const image = { url: image_url, ...(detail == null ? {} : { detail }) };
      return [{ type: "image_url", image_url: image }];
    }
    if (type === "input_file") return [{ type: "file", file: { filename, file_data, file_id } }];
    if (type === "input_audio") return [{ type, input_audio }];
    return type === "refusal" ? [] : [{ type: "text", text: String(text ?? "") }];
  });
}

function joinedText(parts: readonly ModelContentPart[]): string {
  return parts.map(({ type, text }) => (type === "text" ? text : "")).join("");
}

/** What people read of an input, for the list of conversations. */
export function shownText(items: readonly ResponseItem[]): string {
  const said = items
    .filter(({ role }) => role === "user")
    .map(({ content }) => joinedText(contentParts(content)));
  const brought = items.filter(isOutput).map((item) => readOutput(item).text);
  return (said.length > 0 ? said : brought).join("\n\n");
}

/**
 * What an item says, in the same words however a client wrote it: without ids, states and spaces between JSON.
 * Undefined for reasoning and for calls of the rack, which clients may leave out.
 */
export function gist(item: ResponseItem): unknown {
  const { type, role, content, call_id, name, arguments: written, input, output } = item;
  if (isUnsaid(item)) return undefined;
  if (isOutput(item)) return [call_id, contentParts(output)];
  if (isCall(item)) return [call_id, name, input ?? parsedJson(String(written)) ?? written];
  const told = toMessage({ type, role, content });
  return [told.role, told.content, told.refusal];
}

const responseIdForm = /^resp_([0-9a-f]{32})$/;
const itemIdForm = /^(?:msg|rs|fc|ctc|mcp)_([0-9a-f]{32})_\d{1,6}$/;

/** The hexadecimal digits of an id of the store. */
export function digitsOf(id: string): string {
  return id.replaceAll("-", "");
}

/** The digits at the end of an id, such as those of `resp_…` or `chatcmpl-…`. */
export function digitsIn(id: string): string {
  return /[0-9a-f]{32}$/.exec(id)?.[0] ?? "";
}

export function fromDigits(digits: string): string {
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** The id of the stored answer that a response id stands for; undefined for any other text. */
export function messageIdOf(responseId: string): string | undefined {
  const [, digits] = responseIdForm.exec(responseId) ?? [];
  return digits && fromDigits(digits);
}

/** The id of the stored message that an item belongs to; undefined for an id that is not the rack's. */
export function messageIdOfItem(itemId: string): string | undefined {
  const [, digits] = itemIdForm.exec(itemId) ?? [];
  return digits && fromDigits(digits);
}

const prefixes: Readonly<Record<string, string>> = {
  reasoning: "rs",
  function_call: "fc",
  custom_tool_call: "ctc",
  mcp_call: "mcp",
};

/** The id of an item: it says to which message it belongs, and its place there. */
export function newItemId(type: string, digits: string, at: number): string {
  return `${prefixes[type] ?? "msg"}_${digits}_${at}`;
}

import type { FilePart } from "@toolrack/core";
import { type ModelContentPart, type ModelMessage, type ModelToolCall, parsedObject } from "./model.ts";
import { isSettled, isTool, type MessagePart, type ToolPart, textOfParts } from "./turn.ts";

/**
 * A turn as messages for the model: for every round its own message, then one answer per call in the order of the
 * calls. Images are not allowed in such answers, so they follow as a message.
 */
export function toModelMessages(
  parts: readonly MessagePart[],
  takesImages: boolean,
  /** The provider that reads a turn in progress; it gets its own extra members back. */
  provider?: string,
): ModelMessage[] {
  const rounds = Map.groupBy(parts, ({ round }) => round);
  return [...rounds.values()].flatMap((round) => roundMessages(round, takesImages, provider));
}

/** For models without image input: replaces each image by a line of text. */
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
  const answerText = textOfParts(parts);
  const refusal = textOfParts(parts, "refusal");
  if (calls.length === 0) {
    if (answerText === "" && refusal === "") return [];
    return [{ role: "assistant", content: answerText, ...(refusal === "" ? {} : { refusal }) }];
  }
  const asked: ModelMessage = {
    role: "assistant",
    content: answerText === "" ? null : answerText,
    ...echoOf(parts, calls[0], provider),
    tool_calls: calls.map((part) => ({
      ...(part.echo !== undefined && part.echo.provider === provider ? part.echo.call : {}),
      ...toModelCall({ ...part, arguments: soundArguments(part) }),
    })),
  };
  const images = takesImages ? imageMessages(calls) : [];
  // The client sends the answers to its own calls itself.
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
 * Providers refuse a history with arguments that are not JSON. For repaired arguments the history shows those that ran;
 * for any other call, its answer says what was wrong.
 */
function soundArguments({ kind, arguments: written, state }: ToolPart): string {
  if (kind === "custom" || parsedObject(written) !== undefined) return written;
  return JSON.stringify(state.status === "completed" ? state.input : {});
}

import { fileLine, inEnvelope } from "@toolrack/core/internal";
import { parsedJson } from "../helpers/index.ts";
import { type ModelContentPart, type ModelMessage, newCall } from "./model.ts";
import { isSettled, isTool, type MessagePart, type ToolPart, textOfParts } from "./turn.ts";

/**
 * The parts of a turn as messages for the model: for every round the model's own message, then a `tool`
 * message for each call, in the order of the calls. Images are not allowed in `tool` messages, so they follow
 * in user messages. `provider`: given for a turn in progress, the provider that reads the messages; it gets
 * back the extra members that it sent.
 */
export function toModelMessages(
  parts: readonly MessagePart[],
  takesImages: boolean,
  provider?: string,
): ModelMessage[] {
  const rounds = Map.groupBy(parts, ({ round }) => round);
  return [...rounds.values()].flatMap((round) => roundMessages(round, takesImages, provider));
}

function roundMessages(
  parts: readonly MessagePart[],
  takesImages: boolean,
  provider: string | undefined,
): ModelMessage[] {
  const calls = parts.filter(isTool);
  const text = textOfParts(parts);
  const refusal = textOfParts(parts, "refusal");
  if (calls.length === 0) {
    if (text === "" && refusal === "") return [];
    return [{ role: "assistant", content: text, ...(refusal === "" ? {} : { refusal }) }];
  }
  const echoOf = ({ echo }: ToolPart) => (echo?.provider === provider ? echo : undefined);
  const { reasoning, message } = echoOf(calls[0]!) ?? {};
  const asked: ModelMessage = {
    role: "assistant",
    content: text === "" ? null : text,
    ...(reasoning === undefined ? {} : { [reasoning]: textOfParts(parts, "reasoning") }),
    ...message,
    tool_calls: calls.map((part) => ({
      ...echoOf(part)?.call,
      ...newCall(part.name, soundArguments(part), part.kind, part.id),
    })),
  };
  // The client itself sends the results of the tools that it runs.
  const answered = calls.filter((part) => !part.client || isSettled(part));
  const answers = answered.map(({ id, name, state, envelope }): ModelMessage => {
    const { text, files } = answerOf(state);
    const content = envelope
      ? inEnvelope(state.status === "completed", text, { files })
      : [...(text === "" && files.length > 0 ? [] : [text]), ...files].join("\n");
    return { role: "tool", tool_call_id: id, name, content };
  });
  return [asked, ...answers, ...(takesImages ? calls.flatMap(imageMessage) : [])];
}

/**
 * The arguments of a call, as the history shows them. Providers refuse a history with arguments that are not
 * JSON. Such arguments are replaced by the repaired ones with which the tool ran, or by `{}` for a call that
 * failed: its error says what was wrong.
 */
function soundArguments({ kind, arguments: written, state }: ToolPart): string {
  const isObject = typeof (parsedJson(written) ?? 0) === "object";
  if (kind === "custom" || isObject) return written;
  return JSON.stringify(state.status === "completed" ? state.input : {});
}

/** The text that answers a call, and the lines that name its files. */
function answerOf(state: ToolPart["state"]): { readonly text: string; readonly files: readonly string[] } {
  if (state.status === "error") return { text: state.error, files: [] };
  if (state.status === "completed")
    return { text: state.output, files: (state.attachments ?? []).map(fileLine) };
  return { text: "The call was not run: the turn ended before its turn came.", files: [] };
}

function imageMessage({ id, name, state }: ToolPart): ModelMessage[] {
  const files = state.status === "completed" ? (state.attachments ?? []) : [];
  const images = files.filter(({ mime }) => mime.startsWith("image/"));
  if (images.length === 0) return [];
  const text = `The image${images.length === 1 ? "" : "s"} that ${name} returned (call ${id}):`; // See `imageCallOf`.
  const shown = images.map(({ url }) => ({ type: "image_url", image_url: { url } }));
  return [{ role: "user", content: [{ type: "text", text }, ...shown] }];
}

const imageWords = /^The images? that .+ returned \(call (.+)\):$/;

/** The model's id of the call whose images a message shows; undefined for a message of any other kind. */
export function imageCallOf({ role, content }: ModelMessage): string | undefined {
  if (role !== "user" || !Array.isArray(content)) return undefined;
  const [first, ...others] = content;
  const isImages = others.length > 0 && others.every(({ type }) => type === "image_url");
  return isImages ? imageWords.exec(first?.text ?? "")?.[1] : undefined;
}

const imageTypes = new Set(["image_url", "input_image", "image"]);
const imageLine: ModelContentPart = {
  type: "text",
  text: "[An image was left out here: you are set up to take none (images: false). Say so if it matters.]",
};

/** How many images `withoutImages` replaces. */
export function countImages(messages: readonly ModelMessage[]): number {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  return parts.filter(({ type }) => imageTypes.has(type)).length;
}

/** For models without image input: replaces each image by a line of text. */
export function withoutImages(message: ModelMessage): ModelMessage {
  const { content } = message;
  if (!Array.isArray(content)) return message;
  return { ...message, content: content.map((part) => (imageTypes.has(part.type) ? imageLine : part)) };
}

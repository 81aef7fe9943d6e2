import { fromTagArguments, toDefinition, toTagResult } from "@toolrack/core/format";
import { readTagText } from "@toolrack/core/internal";
import { asRecord, parsedJson } from "../helpers/index.ts";
import type { AnswerPiece } from "./answer-chunks.ts";
import { calledIn, type ModelMessage, type ModelTool, nameOf, newCall, textOf } from "./model.ts";
import type { OfferedTools } from "./tools.ts";

/** The parameter in which the model writes the input of a `custom` tool. */
const INPUT = "input";

/** The conversation for a model without native tool calls: definitions, calls and results become text. */
export function toTagMessages(
  messages: readonly ModelMessage[],
  tools: readonly ModelTool[],
): ModelMessage[] {
  const tagMessages = messages.map(toTagMessage);
  if (tools.length === 0) return tagMessages;
  const instructions = howToCall(tools);
  const [first, ...others] = tagMessages;
  // Many of these models read only one system message, so the definitions join it.
  if (first?.role === "system")
    return [{ ...first, content: `${textOf(first)}\n\n${instructions}` }, ...others];
  return [{ role: "system", content: instructions }, ...tagMessages];
}

/**
 * The text and the calls in a model's answer. Arguments are converted to the types of the tools' schemas. If the text
 * breaks off inside a call (`isCut`), that call is the last and has no arguments.
 */
export function readTagAnswer(written: string, offered: OfferedTools, clientTools: readonly ModelTool[]) {
  const { calls, text, unfinished } = readTagText(written);
  const typed = calls.map(({ name, arguments: values }) => {
    const own = clientTools.find((tool) => nameOf(tool) === name);
    if (own?.type === "custom") return newCall(name, String(Object(values)[INPUT] ?? ""), "custom");
    const info = offered.infos.get(name);
    const inputSchema =
      own === undefined ? info && toDefinition(info).inputSchema : Object(own.function?.parameters);
    return newCall(name, JSON.stringify(inputSchema ? fromTagArguments(values, { inputSchema }) : values));
  });
  const isCut = unfinished !== undefined;
  return { calls: isCut ? [...typed, newCall(unfinished, "")] : typed, text, isCut };
}

function toTagMessage(message: ModelMessage): ModelMessage {
  const { role, tool_calls, name } = message;
  if (role === "tool") {
    const result = { type: "text", content: textOf(message) } as const;
    return { role: "user", content: toTagResult(name ?? "tool", result) };
  }
  if (role !== "assistant" || !tool_calls) return message;
  const calls = tool_calls.map((call) => {
    const { name: called, written } = calledIn(call);
    return tagOf(called, call.custom === undefined ? asRecord(parsedJson(written)) : { [INPUT]: written });
  });
  return { role, content: [textOf(message), ...calls].filter((text) => text !== "").join("\n") };
}

function tagOf(name: string, values: Readonly<Record<string, unknown>>): string {
  const encode = (text: string) =>
    text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
  const parameters = Object.entries(values).map(([key, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `<param name="${encode(key)}" value="${encode(text)}"/>`;
  });
  return `<tool_action name="${encode(name)}">${parameters.join("")}</tool_action>`;
}

function howToCall(tools: readonly ModelTool[]): string {
  // A `custom` tool becomes a function with one text parameter.
  const parameters = { type: "object", properties: { [INPUT]: { type: "string" } }, required: [INPUT] };
  const described = tools.map(({ type, function: own, custom }) =>
    JSON.stringify(type === "custom" ? { ...custom, parameters } : (own ?? {})),
  );
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

/**
 * Passes on an answer's text as it streams in, but holds back everything from the first tag that may open a
 * call: only the complete answer shows which tags are calls.
 */
export class TagFilter {
  #pending = "";
  #hasCall = false;
  #shown = 0;

  /** Returns the text that can be shown now. */
  add(text: string): string {
    this.#pending += text;
    if (this.#hasCall) return "";
    const start = opening.exec(this.#pending)?.index;
    this.#hasCall = start !== undefined;
    const held = Math.max(heldBack(this.#pending, "<tool_action"), heldBack(this.#pending, "<action"));
    const shown = this.#pending.slice(0, start ?? this.#pending.length - held);
    this.#pending = this.#pending.slice(shown.length);
    this.#shown += shown.length;
    return shown;
  }

  /** Returns the unshown rest of `text`, which is the answer without its calls. */
  rest(text: string): string {
    const rest = text.slice(this.#shown);
    return rest.trim() === "" ? "" : rest;
  }
}

const THINK = "<think>";
const THOUGHT = "</think>";

/** Separates the reasoning from an answer that begins with it, between `<think>` and `</think>`. */
export class ThinkFilter {
  #state: "start" | "thinking" | "thought" | "text" = "start";
  #hasThought = false;
  /** Text that may be the beginning of a tag. */
  #pending = "";

  separate(piece: AnswerPiece): AnswerPiece {
    if (piece.text === "" || this.#state === "text") return piece;
    const { text, reasoning } = this.#add(piece.text);
    return { ...piece, text, reasoning: piece.reasoning + reasoning };
  }

  /** What was held back at the end of the answer. */
  rest(): Pick<AnswerPiece, "text" | "reasoning"> {
    const isThought = this.#state === "thinking";
    return isThought ? { text: "", reasoning: this.#pending } : { text: this.#pending, reasoning: "" };
  }

  #add(added: string): Pick<AnswerPiece, "text" | "reasoning"> {
    let text = this.#pending + added;
    let reasoning = "";
    this.#pending = "";
    if (this.#state === "start") {
      const begin = text.trimStart();
      if (begin.length < THINK.length && THINK.startsWith(begin)) {
        this.#pending = text;
        return { text: "", reasoning };
      }
      this.#state = begin.startsWith(THINK) ? "thinking" : "text";
      if (this.#state === "thinking") text = begin.slice(THINK.length);
    }
    if (this.#state === "thinking") {
      const end = text.indexOf(THOUGHT);
      const size = end === -1 ? text.length - heldBack(text, THOUGHT) : end;
      reasoning = this.#hasThought ? text.slice(0, size) : text.slice(0, size).trimStart();
      this.#hasThought ||= reasoning !== "";
      this.#pending = end === -1 ? text.slice(size) : "";
      text = end === -1 ? "" : text.slice(end + THOUGHT.length);
      if (end !== -1) this.#state = "thought";
    }
    if (this.#state === "thought") {
      // The answer itself begins behind the empty lines that follow the reasoning.
      text = text.trimStart();
      if (text !== "") this.#state = "text";
    }
    return { text, reasoning };
  }
}

/** How many characters at the end of a text may be the beginning of a tag. */
function heldBack(text: string, tag: string): number {
  let size = Math.min(text.length, tag.length);
  while (!tag.startsWith(text.slice(text.length - size))) size--;
  return size;
}

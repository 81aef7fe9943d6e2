import { fromTagArguments, toDefinition, toTagResult } from "@toolrack/core";
import { readTagText } from "@toolrack/core/internal";
import {
  calledIn,
  type ModelMessage,
  type ModelTool,
  type ModelToolCall,
  nameOf,
  newCallId,
  parsedObject,
  textOf,
} from "./model.ts";
import type { OfferedTools } from "./tools.ts";

/** The conversation for a model without native tool calls: definitions, calls and answers become text. */
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

/** The text and the calls in a model's answer. */
interface TagAnswer {
  /**
   * Arguments are converted to the types of the tools' schemas. If the text breaks off inside a call, that call is the
   * last and has no arguments.
   */
  readonly calls: ModelToolCall[];
  readonly text: string;
  readonly isCut: boolean;
}

export function readTagAnswer(
  written: string,
  offered: OfferedTools,
  clientTools: readonly ModelTool[],
): TagAnswer {
  const { calls, text, unfinished } = readTagText(written);
  const typed = calls.map(({ name, arguments: values }): ModelToolCall => {
    const own = clientTools.find((tool) => nameOf(tool) === name);
    if (own?.type === "custom") {
      return {
        id: newCallId(),
        type: "custom",
        custom: { name, input: String(Object(values)[INPUT] ?? "") },
      };
    }
    const info = offered.infos.get(name);
    const inputSchema =
      own === undefined ? info && toDefinition(info).inputSchema : Object(own.function?.parameters);
    return toCall(name, JSON.stringify(inputSchema ? fromTagArguments(values, { inputSchema }) : values));
  });
  const isCut = unfinished !== undefined;
  return { calls: isCut ? [...typed, toCall(unfinished, "")] : typed, text, isCut };
}

/** The parameter in which the model writes the input of a `custom` tool. */
const INPUT = "input";

function toCall(name: string, written: string): ModelToolCall {
  return { id: newCallId(), type: "function", function: { name, arguments: written } };
}

function toTagMessage(message: ModelMessage): ModelMessage {
  const { role, tool_calls, name } = message;
  if (role === "tool") {
    const result = { type: "text", content: textOf(message) } as const;
    return { role: "user", content: toTagResult(name ?? "tool", result) };
  }
  if (role !== "assistant" || !tool_calls) return message;
  const messageText = textOf(message);
  const calls = tool_calls.map((call) => {
    const { name: called, written } = calledIn(call);
    return tagOf(called, call.custom === undefined ? written : JSON.stringify({ [INPUT]: written }));
  });
  return { role, content: [...(messageText === "" ? [] : [messageText]), ...calls].join("\n") };
}

function tagOf(name: string, written: string): string {
  const parameters = Object.entries(parsedObject(written) ?? {}).map(([key, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `<param name="${encode(key)}" value="${encode(text)}"/>`;
  });
  return `<tool_action name="${encode(name)}">${parameters.join("")}</tool_action>`;
}

function encode(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

/** Describes a tool as a function. A `custom` tool becomes a function with one text parameter. */
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
/** Matches text that may be the start of an opening tag. */
const beginning =
  /<(?:t(?:o(?:o(?:l(?:_(?:a(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?)?)?)?)?|a(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?$/;

/**
 * Passes on the text for people, and holds back everything from the first call on: only the whole text shows what is a
 * call.
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
    const end = start ?? beginning.exec(this.#pending)?.index ?? this.#pending.length;
    const shown = this.#pending.slice(0, end);
    this.#pending = this.#pending.slice(end);
    this.#shown += shown.length;
    return shown;
  }

  /** Returns the unshown rest of `text`, which is the answer without its calls. */
  rest(text: string): string {
    const rest = text.slice(this.#shown);
    return rest.trim() === "" ? "" : rest;
  }
}

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

/** The parameter by which a model in this form gives a `custom` tool its input. */
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
  const said = textOf(message);
  const calls = tool_calls.map((call) => {
    const { name: called, written } = calledIn(call);
    return tagOf(called, call.custom === undefined ? written : JSON.stringify({ [INPUT]: written }));
  });
  return { role, content: [...(said === "" ? [] : [said]), ...calls].join("\n") };
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

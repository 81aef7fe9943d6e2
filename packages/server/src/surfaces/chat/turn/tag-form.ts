import {
  fromTagArguments,
  type JsonSchemaObject,
  readTagText,
  toDefinition,
  toTagResult,
} from "@toolrack/core";
import { v7 as uuid } from "uuid";
import {
  calledIn,
  type ModelMessage,
  type ModelTool,
  type ModelToolCall,
  nameOf,
  textOf,
} from "../model/model-message.ts";
import type { Turn } from "./turn.ts";

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
export interface TagAnswer {
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

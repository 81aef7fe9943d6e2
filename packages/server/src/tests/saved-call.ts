import { type JsonSchemaObject, type ToolErrorCode, type ToolResult, toolErrorCodes } from "@toolrack/core";
import * as s from "../helpers/schema.ts";

const someText = (description: string) => s.text(description, { minLength: 1 });
const errorCode = s.choice(Object.keys(toolErrorCodes) as ToolErrorCode[], "The code of an error."); // The keys of this object are the codes.

/** What a call should give. All that is named must hold. */
const expectation = {
  "status?": s.choice(["completed", "error"], "How the call ends. Default: completed."),
  "code?": errorCode,
  "equals?": s.anything("The value of the result, or its text."),
  "snapshot?": s.anything("Like equals, but `toolrack test --update` rewrites it. Leave it empty at first."),
  "contains?": s.anything("A text that the result contains, or a part of its value."),
  "matches?": s.anything<JsonSchemaObject | boolean>({
    type: ["object", "boolean"],
    description: "A JSON Schema that the value of the result fits.",
  }),
} as const;
export type Expectation = s.Values<typeof expectation>;

/** As whom a call is made. */
const caller = {
  "expert?": someText("Only the tools of this expert are within reach."),
  "tools?": s.texts("Patterns of the tools within reach, as those of a token."),
  "permissions?": s.texts("What the caller holds."),
} as const;
export type SavedCaller = s.Values<typeof caller>;

/** A call that the tested call makes, and its recorded answer: one of `answer`, `result` and `error`. */
const innerCall = {
  tool: someText("The name of the tool that is called."),
  "arguments?": s.anyObject("The arguments that are answered so. Default: any."),
  "answer?": s.anything("A text, or a value that is given as JSON."),
  "result?": s.anything<Omit<ToolResult, "error">>(
    s.closed(
      {
        content: s.text(),
        type: s.choice(["text", "json"]),
        "structured?": s.anything(),
        "blocks?": s.list(s.anyObject()),
        "attachments?": s.list(s.anyObject()),
        "metadata?": s.anyObject(),
      },
      "A whole result, where it is more than a text or a value.",
    ),
  ),
  "error?": s.closed({ "code?": errorCode, message: s.text() }),
} as const;
export type InnerCall = s.Values<typeof innerCall>;

/** One entry of a file of tests: a call, and what should come of it. */
const savedCall = {
  name: someText("What the test shows. No two tests of a file have the same name."),
  tool: someText("The name of the tool that is called."),
  "arguments?": s.anything<Readonly<Record<string, unknown>> | string>({
    type: ["object", "string"],
    description: `The arguments. \`${secretReference("NAME")}\` stands for a value that is not written down.`,
  }),
  "as?": s.closed(caller, "As whom the call is made. Default: as somebody who may do everything."),
  "approve?": s.boolean("Whether questions about the call are answered with yes."),
  "expect?": s.closed(expectation, "What should come of the call. All that is named must hold."),
  "calls?": s.list(
    {
      ...s.closed(innerCall),
      oneOf: [{ required: ["answer"] }, { required: ["result"] }, { required: ["error"] }],
    },
    "What the calls that it makes are answered.",
  ),
  "ignore?": s.list(
    s.text({ pattern: "^(?:ids|times|/.*)$" }),
    "What differs from run to run: `ids`, `times`, or JSON pointers such as /items/*/createdAt.",
  ),
} as const;
export type SavedCall = s.Values<typeof savedCall>;

/** A tool as it was when a call was recorded. `origin`: where it came from, for people. */
const recordedTool = {
  "description?": s.text(),
  inputSchema: s.anyObject(),
  "outputSchema?": s.anyObject(),
  "readOnly?": s.boolean(),
  "origin?": s.text(),
} as const;
export type RecordedTool = s.Values<typeof recordedTool>;

/** What a file of tests holds. */
const testFile = {
  tests: s.list(s.closed(savedCall)),
  "tools?": s.map(s.closed(recordedTool), "The tools as they were when the calls were recorded."),
} as const;
export type TestFileContent = s.Values<typeof testFile>;

/** The JSON Schema of `tests/*.calls.yaml`, for editors and for reading the files. */
export const testFileSchema: JsonSchemaObject = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: "Saved calls of Toolrack",
  ...s.closed(testFile),
};

const reference = /\$?\$\{secret:([^{}]*)\}/g;

/** The text that stands for a value that is not written down. */
export function secretReference(name: string): string {
  return `\${secret:${name}}`;
}

/** Writes texts that look like references so that they mean themselves. */
export function escapeReferences(text: string): string {
  return text.replace(/\$\{secret:[^{}]*\}/g, (found) => `$${found}`);
}

/** Replaces every reference in the texts of a value. */
export function fillReferences<Value>(value: Value, secretOf: (name: string) => string): Value {
  const fill = (text: string) =>
    text.replace(reference, (whole, name: string) =>
      whole.startsWith("$$") ? whole.slice(1) : secretOf(name),
    );
  return mapTexts(value, fill) as Value; // `mapTexts` changes only texts.
}

/** The names of the secrets to which the texts of a value refer. */
export function referencesIn(value: unknown): Set<string> {
  const names = new Set<string>();
  fillReferences(value, (name) => {
    names.add(name);
    return "";
  });
  return names;
}

/**
 * The pieces of a text between its references, which stand for any text; undefined for a text without any. A text that is
 * one reference has two empty pieces.
 */
export function piecesOf(text: string): string[] | undefined {
  if (!text.includes("${secret:")) return undefined;
  const pieces = [""];
  let end = 0;
  for (const match of text.matchAll(reference)) {
    pieces[pieces.length - 1] += text.slice(end, match.index);
    end = match.index + match[0].length;
    if (match[0].startsWith("$$")) pieces[pieces.length - 1] += match[0].slice(1);
    else pieces.push("");
  }
  pieces[pieces.length - 1] += text.slice(end);
  return pieces;
}

/** A copy of a JSON value with every text replaced. Keys stay. */
export function mapTexts(
  value: unknown,
  replace: (text: string, path: string) => unknown,
  path = "",
): unknown {
  if (typeof value === "string") return replace(value, path);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item, index) => mapTexts(item, replace, `${path}/${index}`));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, mapTexts(item, replace, `${path}/${pointerStep(key)}`)]),
  );
}

/** A key as a step of a JSON pointer. */
export function pointerStep(key: string | number): string {
  return String(key).replaceAll("~", "~0").replaceAll("/", "~1");
}

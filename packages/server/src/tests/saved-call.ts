import { type JsonSchemaObject, type ToolErrorCode, type ToolResult, toolErrorCodes } from "@toolrack/core";

/** One entry of a file of tests: a call, and what should come of it. */
export interface SavedCall {
  readonly name: string;
  readonly tool: string;
  /** An object, or the text that a caller sent in place of one. */
  readonly arguments?: Readonly<Record<string, unknown>> | string;
  /** As whom the call is made. Default: as somebody who may do everything. */
  readonly as?: SavedCaller;
  /** Whether questions about the call itself are answered with yes: a dangerous tool asks before it runs. */
  readonly approve?: boolean;
  /** Default: the call completes. */
  readonly expect?: Expectation;
  /** What the calls that it makes are answered. */
  readonly calls?: readonly InnerCall[];
  /** What differs from run to run and is not compared: `ids`, `times`, or JSON pointers, with `*` for any step. */
  readonly ignore?: readonly string[];
}

export interface SavedCaller {
  /** The name of an expert: only its tools are within reach. */
  readonly expert?: string;
  /** Patterns of the tools within reach, as those of a token. */
  readonly tools?: readonly string[];
  /** The permissions that the caller holds. Default: those of the config. */
  readonly permissions?: readonly string[];
}

/** What a call should give. All that is named must hold. */
export interface Expectation {
  /** Default `completed`, and `error` when `code` is given. */
  readonly status?: "completed" | "error";
  readonly code?: ToolErrorCode;
  readonly equals?: unknown;
  /** Like `equals`, but rewritten by `--update`. Null: not written yet. */
  readonly snapshot?: unknown;
  /** A text that the result contains, or a part of its value. */
  readonly contains?: unknown;
  readonly matches?: JsonSchemaObject | boolean;
}

/** A call that the tested call makes, and its recorded answer: one of `answer`, `result` and `error`. */
export interface InnerCall {
  readonly tool: string;
  /** Default: any. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** A text, or a value that is given as JSON. */
  readonly answer?: unknown;
  /** A whole result, where it is more than a text or a value. */
  readonly result?: Omit<ToolResult, "error">;
  readonly error?: { readonly code?: ToolErrorCode; readonly message: string };
}

/** A tool as it was when a call was recorded. */
export interface RecordedTool {
  readonly description?: string;
  readonly inputSchema: JsonSchemaObject;
  readonly outputSchema?: JsonSchemaObject;
  readonly readOnly?: boolean;
  /** Where it came from, for people. */
  readonly origin?: string;
}

/** What a file of tests holds. */
export interface TestFileContent {
  readonly tests: readonly SavedCall[];
  readonly tools?: Readonly<Record<string, RecordedTool>>;
}

const text = (description: string) => ({ type: "string", minLength: 1, description });
const anyObject = { type: "object" };

function closed(properties: Record<string, JsonSchemaObject>, ...required: string[]): JsonSchemaObject {
  return {
    type: "object",
    properties,
    additionalProperties: false,
    ...(required.length > 0 && { required }),
  };
}

const errorCode = { enum: Object.keys(toolErrorCodes), description: "The code of an error." };

const expectation = {
  ...closed({
    status: { enum: ["completed", "error"], description: "How the call ends. Default: completed." },
    code: errorCode,
    equals: { description: "The value of the result, or its text." },
    snapshot: {
      description: "Like equals, but `toolrack test --update` rewrites it. Leave it empty at first.",
    },
    contains: { description: "A text that the result contains, or a part of its value." },
    matches: { type: ["object", "boolean"], description: "A JSON Schema that the value of the result fits." },
  }),
  description: "What should come of the call. All that is named must hold.",
};

const innerCall = {
  ...closed(
    {
      tool: text("The name of the tool that is called."),
      arguments: { ...anyObject, description: "The arguments that are answered so. Default: any." },
      answer: { description: "A text, or a value that is given as JSON." },
      result: {
        ...closed(
          {
            content: { type: "string" },
            type: { enum: ["text", "json"] },
            structured: {},
            blocks: { type: "array", items: anyObject },
            attachments: { type: "array", items: anyObject },
            metadata: anyObject,
          },
          "content",
          "type",
        ),
        description: "A whole result, where it is more than a text or a value.",
      },
      error: closed({ code: errorCode, message: { type: "string" } }, "message"),
    },
    "tool",
  ),
  oneOf: [{ required: ["answer"] }, { required: ["result"] }, { required: ["error"] }],
};

/** The JSON Schema of `tests/*.calls.yaml`, for editors and for reading the files. */
export const testFileSchema: JsonSchemaObject = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: "Saved calls of Toolrack",
  ...closed(
    {
      tests: {
        type: "array",
        items: closed(
          {
            name: text("What the test shows. No two tests of a file have the same name."),
            tool: text("The name of the tool that is called."),
            arguments: {
              type: ["object", "string"],
              description: `The arguments. \`${secretReference("NAME")}\` stands for a value that is not written down.`,
            },
            as: {
              ...closed({
                expert: text("Only the tools of this expert are within reach."),
                tools: {
                  type: "array",
                  items: { type: "string" },
                  description: "Patterns of the tools within reach, as those of a token.",
                },
                permissions: {
                  type: "array",
                  items: { type: "string" },
                  description: "What the caller holds.",
                },
              }),
              description: "As whom the call is made. Default: as somebody who may do everything.",
            },
            approve: {
              type: "boolean",
              description: "Whether questions about the call are answered with yes.",
            },
            expect: expectation,
            calls: {
              type: "array",
              items: innerCall,
              description: "What the calls that it makes are answered.",
            },
            ignore: {
              type: "array",
              items: { type: "string", pattern: "^(?:ids|times|/.*)$" },
              description:
                "What differs from run to run: `ids`, `times`, or JSON pointers such as /items/*/createdAt.",
            },
          },
          "name",
          "tool",
        ),
      },
      tools: {
        type: "object",
        description: "The tools as they were when the calls were recorded.",
        additionalProperties: closed(
          {
            description: { type: "string" },
            inputSchema: anyObject,
            outputSchema: anyObject,
            readOnly: { type: "boolean" },
            origin: { type: "string" },
          },
          "inputSchema",
        ),
      },
    },
    "tests",
  ),
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

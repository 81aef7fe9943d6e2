import { readFile } from "node:fs/promises";
import type { JsonSchemaObject } from "@toolrack/core";
import { readYaml, YamlFileError } from "../helpers/yaml-file.ts";

/** A tool that a prompt should lead to, with the arguments that matter. */
export interface Expectation {
  readonly tool: string;
  /** Each of them must be there with this value; others may be too. */
  readonly arguments?: Readonly<Record<string, unknown>>;
}

export interface EvalCase {
  readonly name: string;
  readonly prompt: string;
  /** All of them must be called. None: the model must call no tool. */
  readonly expect: readonly Expectation[];
  /** Patterns of tools that must not be called. */
  readonly forbid: readonly string[];
  /** What tools answer, by name, so that a conversation goes on. No tool is run. */
  readonly answers: Readonly<Record<string, string>>;
}

export interface EvalFile {
  readonly file: string;
  /** Default: the workspace's. */
  readonly model?: string;
  /** How often a model is asked each prompt. */
  readonly runs: number;
  /** Search must find the expected tools among so many. */
  readonly within: number;
  /** The share of runs that must hit. */
  readonly rate: number;
  /** Patterns of the tools that take part. */
  readonly tools: readonly string[];
  /** Instructions that the model is given before the prompt. */
  readonly system?: string;
  /** Other descriptions to compare with, by the name of the version and of the tool. */
  readonly versions: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly cases: readonly EvalCase[];
  /** The line of the value at a path such as `cases[0].expect`. */
  lineOf(path: string): number;
}

const text: JsonSchemaObject = { type: "string", minLength: 1 };
const texts: JsonSchemaObject = { type: "array", items: text };
const textsByName: JsonSchemaObject = { type: "object", additionalProperties: text };

function closed(
  properties: Readonly<Record<string, JsonSchemaObject>>,
  required: string[],
): JsonSchemaObject {
  return { type: "object", properties, required, additionalProperties: false };
}

const expectation: JsonSchemaObject = {
  anyOf: [text, closed({ tool: text, arguments: { type: "object", additionalProperties: true } }, ["tool"])],
};

/** What stands in `evals/*.yaml`. */
export const evalSchema: JsonSchemaObject = closed(
  {
    model: { ...text, description: "As GET /v1/models lists it. Default: chat.model of the config." },
    runs: {
      type: "integer",
      minimum: 1,
      maximum: 1000,
      description: "How often a model is asked each prompt. Default 5.",
    },
    within: {
      type: "integer",
      minimum: 1,
      maximum: 1000,
      description: "Search must find the tool among so many. Default 5.",
    },
    rate: {
      type: "number",
      minimum: 0,
      maximum: 1,
      description: "The share of runs that must hit. Default 0.8.",
    },
    tools: { ...texts, description: "Patterns of the tools that take part. Default: all." },
    system: { ...text, description: "Instructions that the model is given before the prompt." },
    versions: {
      type: "object",
      description: "Other descriptions of tools to compare with: { NAME: { TOOL: description } }.",
      additionalProperties: textsByName,
    },
    cases: {
      type: "array",
      minItems: 1,
      maxItems: 10_000,
      items: closed(
        {
          name: text,
          prompt: { ...text, description: "What a person says." },
          expect: {
            description: "The tools that must be called; an empty list when none must be.",
            anyOf: [text, { type: "array", items: expectation }],
          },
          forbid: { ...texts, description: "Patterns of tools that must not be called." },
          answers: { ...textsByName, description: "What tools answer, so that the conversation goes on." },
        },
        ["prompt", "expect"],
      ),
    },
  },
  ["cases"],
);

/** How reports call the tools as they are. */
export const CURRENT = "current";

/** The file as it is written. */
type WrittenFile = Partial<Omit<EvalFile, "cases" | "lineOf">> & {
  readonly cases: readonly (Pick<EvalCase, "prompt"> &
    Partial<Omit<EvalCase, "expect">> & { readonly expect: string | readonly (string | Expectation)[] })[];
};

/** `file`: how people know it. Throws `YamlFileError`, and what reading throws. */
export async function readEvalFile(path: string, file: string): Promise<EvalFile> {
  const { value, lineOf } = await readYaml<WrittenFile>(await readFile(path, "utf8"), file, evalSchema);
  const { runs = 5, within = 5, rate = 0.8, tools = ["*"], versions = {}, ...rest } = value;
  if (Object.hasOwn(versions, CURRENT))
    throw new YamlFileError(
      file,
      lineOf(`versions.${CURRENT}`),
      `No version may be called "${CURRENT}": reports call the tools as they are so.`,
    );
  const cases = value.cases.map(({ prompt, expect, name = prompt, forbid = [], answers = {} }) => {
    const expected = (typeof expect === "string" ? [expect] : expect).map((one) =>
      typeof one === "string" ? { tool: one } : one,
    );
    return { name, prompt, expect: expected, forbid, answers };
  });
  return { ...rest, file, runs, within, rate, tools, versions, cases, lineOf };
}

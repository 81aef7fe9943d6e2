import { readFile } from "node:fs/promises";
import type { JsonSchemaObject } from "@toolrack/core";
import * as s from "../helpers/schema.ts";
import { readYaml, YamlFileError } from "../helpers/yaml-file.ts";

const name = s.text({ minLength: 1 });
const texts = (description: string) => s.list(name, description);
const number = { minimum: 1, maximum: 1000 };

/** A tool that a prompt should lead to. Each of the arguments must be there with its value; others may be too. */
const expectation = s.closed({ tool: name, "arguments?": s.anyObject({ additionalProperties: true }) });

const writtenCase = {
  "name?": name,
  prompt: s.text("What a person says.", { minLength: 1 }),
  expect: s.anything<string | readonly (string | Expectation)[]>({
    description: "The tools that must be called; an empty list when none must be.",
    anyOf: [name, s.list({ anyOf: [name, expectation] })],
  }),
  "forbid?": texts("Patterns of tools that must not be called."),
  "answers?": s.map(name, "What tools answer, so that the conversation goes on."),
} as const;

const writtenFile = {
  "model?": s.text("As GET /v1/models lists it. Default: chat.model of the config.", { minLength: 1 }),
  "runs?": s.integer("How often a model is asked each prompt. Default 5.", number),
  "within?": s.integer("Search must find the tool among so many. Default 5.", number),
  "rate?": s.number("The share of runs that must hit. Default 0.8.", { minimum: 0, maximum: 1 }),
  "tools?": texts("Patterns of the tools that take part. Default: all."),
  "system?": s.text("Instructions that the model is given before the prompt.", { minLength: 1 }),
  "versions?": s.map(
    s.map(name),
    "Other descriptions of tools to compare with: { NAME: { TOOL: description } }.",
  ),
  cases: s.list(s.closed(writtenCase), { minItems: 1, maxItems: 10_000 }),
} as const;
type WrittenFile = s.Values<typeof writtenFile>;

/** What stands in `evals/*.yaml`. */
export const evalSchema: JsonSchemaObject = s.closed(writtenFile);

export interface Expectation {
  readonly tool: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

export interface EvalCase extends Required<Omit<s.Values<typeof writtenCase>, "expect">> {
  /** All of them must be called. None: the model must call no tool. */
  readonly expect: readonly Expectation[];
}

export interface EvalFile extends Required<Omit<WrittenFile, "model" | "system" | "cases">> {
  readonly file: string;
  readonly model?: string;
  readonly system?: string;
  readonly cases: readonly EvalCase[];
  /** The line of the value at a path such as `cases[0].expect`. */
  lineOf(path: string): number;
}

/** How reports call the tools as they are. */
export const CURRENT = "current";

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

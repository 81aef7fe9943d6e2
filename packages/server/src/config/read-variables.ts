import { join } from "node:path";
import { compileSchema, type JsonSchemaObject } from "@toolrack/core";
import { LoadError } from "../sources/loader/load-failure.ts";
import { type ConfigVariable, configVariables, formOf } from "./config-variables.ts";
import { environmentFileOf } from "./load-environment.ts";

/** A key of the config that the environment sets. */
export interface SetVariable extends ConfigVariable {
  readonly value: unknown;
  /** The file of the workspace that it comes from, when it does. */
  readonly file?: string;
}

/**
 * The keys of the config that variables set. An empty variable sets nothing. Throws `LoadError`, which names the
 * variable, what came and what was expected.
 */
export async function readVariables(
  workspace: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<SetVariable[]> {
  const found: SetVariable[] = [];
  for (const variable of configVariables) {
    const text = environment[variable.name]?.trim() ?? "";
    if (text === "") continue;
    const file = environmentFileOf(variable.name);
    const outcome = await readValue(variable, text);
    if ("problem" in outcome) {
      throw new LoadError(outcome.problem, `Correct or remove the variable ${variable.name}.`, {
        ...(file === undefined ? {} : { path: join(workspace, file) }),
      });
    }
    found.push({ ...variable, value: outcome.value, ...(file === undefined ? {} : { file }) });
  }
  return found;
}

async function readValue(
  variable: ConfigVariable,
  text: string,
): Promise<{ readonly value: unknown } | { readonly problem: string }> {
  const { name, schema } = variable;
  const value = toValue(schema, text);
  if (value === undefined) {
    // Objects may hold passwords, so what came is not repeated.
    return { problem: `Expected JSON at \`${name}\`, got text that is none. It takes: ${formOf(variable)}.` };
  }
  const wrapped = compileSchema({ type: "object", properties: { [name]: schema } });
  const outcome = await wrapped.validate({ [name]: value });
  if (outcome.ok) return { value };
  return { problem: outcome.issues.map(({ message }) => message).join(" ") };
}

/** The text as the schema's type has it. Undefined for what should be JSON and is not. */
function toValue({ type }: JsonSchemaObject, text: string): unknown {
  switch (type) {
    case "string":
      return text;
    case "boolean":
      return booleans.get(text.toLowerCase()) ?? text;
    case "integer":
    case "number":
      return Number.isNaN(Number(text)) ? text : Number(text);
    case "array":
      if (text.startsWith("[")) return parse(text);
      return text
        .split(",")
        .map((item) => item.trim())
        .filter((item) => item !== "");
    case "object":
      return parse(text);
    default:
      // One of several types, or of some values: a word is a text, anything else is JSON.
      return parse(text) ?? text;
  }
}

const booleans = new Map([
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
]);

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

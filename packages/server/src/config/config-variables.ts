import { compileSchema, type JsonSchemaObject } from "@toolrack/core";
import { parsedJson } from "../helpers/values.ts";
import { configSchema } from "./config.ts";

/** An environment variable for one key of the config. */
export interface ConfigVariable {
  /** `TOOLRACK_LOG_MAX_BYTES` */
  readonly name: string;
  /** `log.maxBytes` */
  readonly key: string;
  readonly path: readonly string[];
  readonly schema: JsonSchemaObject;
}

/** One variable for every key of the schema. */
export const configVariables: readonly ConfigVariable[] = variablesOf(configSchema, []);

function variablesOf(schema: JsonSchemaObject, path: readonly string[]): ConfigVariable[] {
  // Every property of this schema is a schema.
  const properties = (schema.properties ?? {}) as Record<string, JsonSchemaObject>;
  return Object.entries(properties).flatMap(([key, part]) => {
    const place = [...path, key];
    // An object whose keys are known is a group of keys; any other is a value.
    if (part.properties !== undefined) return variablesOf(part, place);
    const words = place.map((word) => word.replaceAll(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter}`));
    const name = ["TOOLRACK", ...words].join("_").toUpperCase();
    return [{ name, key: place.join("."), path: place, schema: part }];
  });
}

/** Describes the variable's values in a form that needs no translation. */
export function formOf({ schema }: ConfigVariable): string {
  const { type, enum: choices, minimum, exclusiveMinimum, maximum } = schema;
  if (Array.isArray(choices)) return choices.map((choice) => `\`${choice}\``).join(", ");
  switch (type) {
    case "boolean":
      return "`true`, `false`";
    case "array":
      return '`a,b` · `["a","b"]`';
    case "object":
      return "`{…}` (JSON)";
    case "integer":
    case "number": {
      const limits = Object.entries({ "≥": minimum, ">": exclusiveMinimum, "≤": maximum });
      const set = limits.filter(([, limit]) => limit !== undefined);
      return [type, ...set.map(([sign, limit]) => `${sign} ${limit}`)].join(" ");
    }
    default:
      return typeof type === "string" ? type : "JSON";
  }
}

/** Reads the variable's text as its schema says. The problem names the variable and what was expected. */
export async function readVariable(
  variable: ConfigVariable,
  text: string,
): Promise<{ readonly value: unknown } | { readonly problem: string }> {
  const { name, schema } = variable;
  const value = toValue(schema, text);
  if (value === undefined) {
    // The value is not repeated: it may hold passwords.
    return { problem: `Expected JSON at \`${name}\`, got text that is none. It takes: ${formOf(variable)}.` };
  }
  const wrapped = compileSchema({ type: "object", properties: { [name]: schema } });
  const outcome = await wrapped.validate({ [name]: value });
  if (outcome.ok) return { value };
  return { problem: outcome.issues.map(({ message }) => message).join(" ") };
}

/** Converts the text to the schema's type. Undefined when it should be JSON and is not. */
function toValue({ type }: JsonSchemaObject, text: string): unknown {
  switch (type) {
    case "string":
      return text;
    case "boolean":
      if (/^(true|1)$/i.test(text)) return true;
      return /^(false|0)$/i.test(text) ? false : text;
    case "integer":
    case "number":
      return Number.isNaN(Number(text)) ? text : Number(text);
    case "array": {
      if (text.startsWith("[")) return parsedJson(text);
      const items = text.split(",").map((item) => item.trim());
      return items.filter((item) => item !== "");
    }
    case "object":
      return parsedJson(text);
    default:
      // The schema has several types or an enum: JSON if it parses, otherwise a text.
      return parsedJson(text) ?? text;
  }
}

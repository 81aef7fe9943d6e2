import type { JsonSchemaObject } from "@toolrack/core";
import { configSchema } from "./config.ts";

/** A variable of the environment that stands for one key of the config. */
export interface ConfigVariable {
  /** `TOOLRACK_LOG_MAX_BYTES` */
  readonly name: string;
  /** `log.maxBytes` */
  readonly key: string;
  readonly path: readonly string[];
  readonly schema: JsonSchemaObject;
}

/** One for every key that the config's schema has. */
export const configVariables: readonly ConfigVariable[] = variablesOf(configSchema, []);

/** What the variable may hold, in a form that reads the same in every language. */
export function formOf({ schema }: ConfigVariable): string {
  const { type, enum: choices } = schema;
  if (Array.isArray(choices)) return choices.map((choice) => `\`${choice}\``).join(", ");
  switch (type) {
    case "boolean":
      return "`true`, `false`";
    case "array":
      return '`a,b` · `["a","b"]`';
    case "object":
      return "`{…}` (JSON)";
    case "integer":
    case "number":
      return [type, ...limitsOf(schema)].join(" ");
    default:
      return typeof type === "string" ? type : "JSON";
  }
}

function variablesOf(schema: JsonSchemaObject, path: readonly string[]): ConfigVariable[] {
  return Object.entries((schema.properties ?? {}) as Record<string, JsonSchemaObject>).flatMap(
    ([key, part]) => {
      const place = [...path, key];
      // An object whose keys are known is a group of keys; any other is a value.
      if (part.properties !== undefined) return variablesOf(part, place);
      return [{ name: variableName(place), key: place.join("."), path: place, schema: part }];
    },
  );
}

function variableName(path: readonly string[]): string {
  const words = path.map((key) => key.replaceAll(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter}`));
  return ["TOOLRACK", ...words].join("_").toUpperCase();
}

function limitsOf({ minimum, exclusiveMinimum, maximum }: JsonSchemaObject): string[] {
  return [
    ...(typeof minimum === "number" ? [`≥ ${minimum}`] : []),
    ...(typeof exclusiveMinimum === "number" ? [`> ${exclusiveMinimum}`] : []),
    ...(typeof maximum === "number" ? [`≤ ${maximum}`] : []),
  ];
}

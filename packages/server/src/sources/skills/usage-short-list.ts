import type { JsonSchemaObject } from "@toolrack/core";
import { UsageError } from "./usage-error.ts";

/** Types as people write them. */
const types: Readonly<Record<string, string>> = {
  str: "string",
  text: "string",
  int: "integer",
  long: "integer",
  float: "number",
  double: "number",
  bool: "boolean",
  list: "array",
  dict: "object",
  map: "object",
};
const known = new Set(["string", "integer", "number", "boolean", "array", "object", "null"]);

/** `[{"name": "query", "type": "string", "required": true, "description": "…"}]`: the short list. */
export function fromShortList(list: readonly unknown[]): JsonSchemaObject {
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  for (const [position, entry] of list.entries()) {
    if (typeof entry !== "object" || entry === null) {
      throw new UsageError(`usage[${position}] must be an object with a "name".`);
    }
    const { name, required: isRequired, type, ...rest } = entry as Record<string, unknown>;
    if (typeof name !== "string" || name.trim() === "") {
      throw new UsageError(`usage[${position}] has no "name".`);
    }
    if (Object.hasOwn(properties, name)) throw new UsageError(`usage names the parameter "${name}" twice.`);
    properties[name] = { ...(type === undefined ? {} : { type: typeOf(type, name) }), ...rest };
    if (isRequired === true || isRequired === "true") required.push(name);
  }
  return objectOf(properties, required);
}

const line = /^\s*[-*]\s+`([^`]+)`\s*(?:[（(]([^()（）]*)[)）])?\s*[:：]?\s*(.*)$/;

/** Whether the text has lines such as "- `query` (string, required): what to search for". */
export function takesParameterLines(text: string): boolean {
  return text.split("\n").some((one) => line.test(one));
}

export function fromParameterLines(text: string): JsonSchemaObject {
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  for (const one of text.split("\n")) {
    const [, name, notes = "", description = ""] = line.exec(one) ?? [];
    if (name === undefined) continue;
    const words = notes
      .split(/[,，、]/)
      .map((word) => word.trim().toLowerCase())
      .filter((word) => word !== "");
    const type = words.map((word) => types[word] ?? word).find((word) => known.has(word)) ?? "string";
    properties[name] = { type, ...(description.trim() === "" ? {} : { description: description.trim() }) };
    if (words.some((word) => word === "required" || word === "必填" || word === "必需")) required.push(name);
  }
  return objectOf(properties, required);
}

function objectOf(properties: Record<string, unknown>, required: readonly string[]): JsonSchemaObject {
  return { type: "object", properties, ...(required.length === 0 ? {} : { required }) };
}

function typeOf(type: unknown, name: string): unknown {
  if (typeof type !== "string") return type;
  const word = types[type.toLowerCase()] ?? type.toLowerCase();
  if (known.has(word)) return word;
  throw new UsageError(`The parameter "${name}" has the type "${type}"; there are ${[...known].join(", ")}.`);
}

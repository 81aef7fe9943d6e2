import { copyPlain } from "./copy-plain.ts";
import type { JsonSchemaObject } from "./types.ts";

export type Copier = (value: unknown) => unknown;

/** A schema this deep or this wide is copied the general way; the code for it would only fill memory. */
const deepest = 8;
const mostNodes = 200;

/**
 * A function that copies values of the shape that the schema describes, several times faster than the general
 * copy, and hands whatever looks different (a missing or unknown key, a class instance, a part that the schema
 * does not spell out) to the general copy. It validates nothing. Answers `copyPlain` itself where there is
 * nothing to gain, or where functions cannot be made from text.
 */
export function compileCopier(schema: JsonSchemaObject): Copier {
  const writer: Writer = { functions: [], nodes: 0 };
  const name = writeNode(schema, writer, 0);
  if (name === undefined) return copyPlain;
  try {
    const source = `"use strict";\n${writer.functions.join("\n")}\nreturn ${name};`;
    const copy = new Function("copyPlain", source)(copyPlain) as Copier; // The text is all ours; keys are quoted.
    return (value) => {
      try {
        return copy(value);
      } catch {
        return copyPlain(value); // It refuses the same value and can say where in the whole of it.
      }
    };
  } catch {
    return copyPlain;
  }
}

interface Writer {
  readonly functions: string[];
  nodes: number;
}

/** Writes the function for one part of the schema and answers its name; nothing when the part is not spelt out. */
function writeNode(schema: unknown, writer: Writer, depth: number): string | undefined {
  if (typeof schema !== "object" || schema === null || depth > deepest || writer.nodes >= mostNodes)
    return undefined;
  writer.nodes++;
  const { properties, items, required } = schema as JsonSchemaObject;
  if (isRecord(properties))
    return writeObject(properties, Array.isArray(required) ? required : [], writer, depth);
  if (isRecord(items)) return writeArray(items, writer, depth);
  return undefined;
}

function writeObject(
  properties: Record<string, unknown>,
  required: readonly unknown[],
  writer: Writer,
  depth: number,
): string | undefined {
  const keys = Object.keys(properties);
  // Every object inherits some names, and reading one of those would find it where the value has none.
  if (keys.length === 0 || keys.some((key) => key in Object.prototype)) return undefined;
  const members = keys.map((key, index) => {
    const copier = writeNode(properties[key], writer, depth + 1);
    return { key: JSON.stringify(key), local: `m${index}`, copier, required: required.includes(key) };
  });
  const name = `copy${writer.functions.length}`;
  const always = members.filter((member) => member.required);
  const sometimes = members.filter((member) => !member.required);
  writer.functions.push(`function ${name}(value) {
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return copyPlain(value);
  ${members.map(({ key, local }) => `const ${local} = value[${key}];`).join(" ")}
  ${always.length === 0 ? "" : `if (${always.map(({ local }) => `${local} === undefined`).join(" || ")}) return copyPlain(value);`}
  let expected = ${always.length};
  const copy = { ${always.map((member) => `${member.key}: ${copied(member)}`).join(", ")} };
  ${sometimes.map((member) => `if (${member.local} !== undefined) { copy[${member.key}] = ${copied(member)}; expected++; }`).join("\n  ")}
  let found = 0;
  for (const key in value) found++;
  return found === expected ? copy : copyPlain(value);
}`);
  return name;
}

function writeArray(items: Record<string, unknown>, writer: Writer, depth: number): string {
  const copier = writeNode(items, writer, depth + 1);
  const name = `copy${writer.functions.length}`;
  writer.functions.push(`function ${name}(value) {
  if (!Array.isArray(value)) return copyPlain(value);
  const copy = value.slice();
  for (let index = 0; index < copy.length; index++) {
    const member = copy[index];
    if (typeof member === "object" && member !== null) copy[index] = ${copier ?? "copyPlain"}(member);
  }
  return copy;
}`);
  return name;
}

/** A member that the schema leaves open may still hold an object, which must be copied as well. */
function copied({ local, copier }: { local: string; copier: string | undefined }): string {
  return copier === undefined
    ? `typeof ${local} === "object" && ${local} !== null ? copyPlain(${local}) : ${local}`
    : `${copier}(${local})`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

import type { JsonSchemaObject } from "../schema/types.ts";
import { pointer, type TakeNote } from "./format-note.ts";
import { isRecord } from "./json-value.ts";
import { keepReferences } from "./keep-references.ts";

/** A schema whose arguments have names the provider takes, and the way back. */
export interface RenamedProperties {
  readonly schema: JsonSchemaObject;
  readonly restore?: (args: unknown) => unknown;
}

/** Renames the arguments (the properties at the root) that the provider does not take. */
export function renameProperties(
  schema: JsonSchemaObject,
  accepts: RegExp,
  note: TakeNote,
): RenamedProperties {
  const properties = isRecord(schema.properties) ? schema.properties : {};
  const refused = Object.keys(properties).filter((key) => !accepts.test(key));
  if (refused.length === 0) return { schema };
  const taken = new Set(Object.keys(properties).filter((key) => accepts.test(key)));
  const toProvider = new Map<string, string>();
  for (const key of refused.sort()) {
    const name = freeKey(key, accepts, taken);
    taken.add(name);
    toProvider.set(key, name);
    note(pointer("", "properties", key), "properties", "rewritten", `The argument is sent as ${name}.`);
  }
  const rename = (key: string) => toProvider.get(key) ?? key;
  const toRack = new Map([...toProvider].map(([key, name]) => [name, key]));
  const renamed = {
    ...schema,
    properties: Object.fromEntries(Object.entries(properties).map(([key, value]) => [rename(key), value])),
    ...(Array.isArray(schema.required) && { required: schema.required.map(rename) }),
  };
  return {
    schema: keepReferences(renamed, schema, note),
    restore: (args) => restoreKeys(args, toRack),
  };
}

function restoreKeys(args: unknown, toRack: ReadonlyMap<string, string>): unknown {
  const parsed = typeof args === "string" ? parseObject(args) : args;
  if (!isRecord(parsed)) return args;
  return Object.fromEntries(Object.entries(parsed).map(([key, value]) => [toRack.get(key) ?? key, value]));
}

/** The object a text holds, or nothing: broken JSON goes to the pipeline as it came. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function freeKey(key: string, accepts: RegExp, taken: ReadonlySet<string>): string {
  const plain =
    key
      .replace(/[^A-Za-z0-9_]+/g, "_")
      .replace(/_+$/, "")
      .slice(0, 56) || "argument";
  const stem = accepts.test(plain) ? plain : `_${plain}`;
  let name = stem;
  for (let next = 2; taken.has(name); next++) name = `${stem}_${next}`;
  return name;
}

import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  mapSchemas,
  pointer,
  resolveReference,
  typesOf,
} from "../schema/visit.ts";
import { toModernSchema } from "./modern-schema.ts";
import { type TakeNote, withRemarks } from "./notes.ts";

/**
 * Repairs the `$ref`s of a rewritten schema: moved targets are put under `$defs`, and references to other documents,
 * which are never fetched, become remarks. `isSafe` tells which references may stay; by default all that resolve.
 */
export function keepReferences(
  schema: JsonSchemaObject,
  original: JsonSchemaObject,
  note: TakeNote,
  isSafe: (reference: string) => boolean = () => true,
): JsonSchemaObject {
  const moved = new Map<string, string>();
  const added: [string, JsonSchema][] = [];
  const taken = new Set(Object.keys(isRecord(schema.$defs) ? schema.$defs : {}));
  const kept = visit(schema, "");
  if (!isRecord(kept) || added.length === 0) return isRecord(kept) ? kept : {};
  return { ...kept, $defs: { ...(isRecord(kept.$defs) ? kept.$defs : {}), ...Object.fromEntries(added) } };

  function visit(node: JsonSchema, path: string): JsonSchema {
    if (!isRecord(node)) return node;
    const copy = mapSchemas(node, (child, steps) => visit(child, pointer(path, ...steps)));
    const reference = node.$ref;
    if (typeof reference !== "string") return copy;
    const home = moved.get(reference);
    if (home !== undefined) return { ...copy, $ref: home };
    const found = resolveReference(schema, reference);
    if (found !== undefined && isSafe(reference)) return copy;
    const target = resolveReference(original, reference);
    if (target !== undefined) return { ...copy, $ref: move(reference, target) };
    note(path, "$ref", "described", `Nothing is found at ${reference}; any value is accepted there.`);
    const { $ref: _gone, ...rest } = copy;
    return { ...rest, description: withRemarks(rest.description, [`schema: ${reference}`]) };
  }

  function move(reference: string, target: JsonSchema): string {
    const stem = reference.replace(/[^A-Za-z0-9]+/g, "_").replace(/^_+|_+$/g, "") || "root";
    let name = stem;
    for (let next = 2; taken.has(name); next++) name = `${stem}_${next}`;
    taken.add(name);
    const home = `#${pointer("", "$defs", name)}`;
    moved.set(reference, home);
    note("", "$ref", "rewritten", `What stood at ${reference} stands at ${home}.`);
    added.push([
      name,
      isRecord(target)
        ? visit(
            toModernSchema(target, () => {}),
            `/$defs/${name}`,
          )
        : target,
    ]);
    return home;
  }
}

/** A schema with renamed arguments, and the function that restores their names. */
interface RenamedProperties {
  readonly schema: JsonSchemaObject;
  readonly restore?: (args: unknown) => unknown;
}

/** Renames the arguments (root properties) whose names the provider refuses. */
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

/** Parses an object; undefined for anything else, which goes to the pipeline unchanged. */
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
      .slice(0, 56)
      .replace(/_+$/, "") || "argument";
  const stem = accepts.test(plain) ? plain : `_${plain}`;
  let name = stem;
  for (let next = 2; taken.has(name); next++) name = `${stem}_${next}`;
  return name;
}

/** Whether the schema accepts `null`. */
export function acceptsNull(
  schema: JsonSchema | undefined,
  root: JsonSchemaObject,
  seen: readonly string[] = [],
): boolean {
  if (!isRecord(schema)) return schema !== false;
  if ("const" in schema && schema.const !== null) return false;
  if (Array.isArray(schema.enum) && !schema.enum.includes(null)) return false;
  if (schema.nullable !== true && typesOf(schema)?.includes("null") === false) return false;
  if (typeof schema.$ref === "string" && !seen.includes(schema.$ref)) {
    if (!acceptsNull(resolveReference(root, schema.$ref), root, [...seen, schema.$ref])) return false;
  }
  const accepts = (branch: JsonSchema) => acceptsNull(branch, root, seen);
  if (Array.isArray(schema.allOf) && !schema.allOf.every(accepts)) return false;
  if (Array.isArray(schema.anyOf) && !schema.anyOf.some(accepts)) return false;
  return !Array.isArray(schema.oneOf) || schema.oneOf.some(accepts);
}

import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { withRemarks } from "./describe-constraint.ts";
import { pointer, type TakeNote } from "./format-note.ts";
import { isRecord } from "./json-value.ts";
import { mapSubschemas } from "./map-subschemas.ts";
import { toModernSchema } from "./modern-schema.ts";
import { resolveReference } from "./resolve-reference.ts";

/**
 * Makes every `$ref` of a rewritten schema point to something again: what moved is put under `$defs`, and a
 * reference out of the document, which nobody may fetch, gives way to a remark. `isSafe` tells which references
 * may stay as they are; by default, all that lead somewhere.
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
    const copy = mapSubschemas(node, path, visit);
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

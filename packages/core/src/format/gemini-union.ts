import type { JsonSchemaObject } from "../schema/types.ts";
import { withRemarks } from "./describe-constraint.ts";
import type { TakeNote } from "./format-note.ts";
import { geminiRemarks, geminiWords } from "./gemini-frame.ts";
import { distinctJson } from "./json-value.ts";

/** Gemini takes no field beside `anyOf`, so what is said of the whole is said of each branch. */
export function geminiUnion(
  branches: readonly JsonSchemaObject[],
  annotations: JsonSchemaObject,
  path: string,
  note: TakeNote,
): JsonSchemaObject {
  const flat = branches.flatMap((branch) => (Array.isArray(branch.anyOf) ? branch.anyOf : [branch]));
  const isNullable = flat.some((branch) => branch.nullable === true);
  const distinct = distinctJson(flat.filter((branch) => !isNull(branch)).map(withoutNullable));
  const all = joinEnums(distinct);
  if (all.length === 0) return geminiNull(annotations);
  if (all.length > 1) {
    const { title: _title, description, ...further } = annotations;
    const outer = withRemarks(description, geminiRemarks(further, ["default"], path, note));
    return {
      anyOf: all.map((branch) => ({
        ...branch,
        ...joinDescriptions(outer, branch.description),
        ...(isNullable && { nullable: true }),
      })),
    };
  }
  const only = all[0]!;
  const own = geminiWords(annotations, path, note);
  return {
    ...only,
    ...own,
    ...joinDescriptions(own.description, only.description),
    ...(isNullable && { nullable: true }),
  };
}

/** Branches that are nothing but strings to choose from become one list. */
function joinEnums(branches: readonly JsonSchemaObject[]): readonly JsonSchemaObject[] {
  const isList = (branch: JsonSchemaObject) =>
    branch.type === "string" && Array.isArray(branch.enum) && Object.keys(branch).length === 2;
  const lists = branches.filter(isList);
  if (lists.length < 2) return branches;
  const values = distinctJson(lists.flatMap((branch) => (Array.isArray(branch.enum) ? branch.enum : [])));
  return [{ type: "string", enum: values }, ...branches.filter((branch) => !isList(branch))];
}

/** Any value at all: Gemini needs a type, so all of them are listed. */
export function geminiAnyValue(node: JsonSchemaObject, path: string, note: TakeNote): JsonSchemaObject {
  note(path, "type", "rewritten", "Any value is accepted; sent as a choice of every type.");
  const scalars = ["string", "number", "boolean", "object"].map((type) => ({ type, nullable: true }));
  const list = { type: "array", items: { type: "string" }, nullable: true };
  return geminiUnion([...scalars, list], node, path, note);
}

/** Gemini has no type for `null` alone. */
const nullOnly: JsonSchemaObject = Object.freeze({
  type: "string",
  nullable: true,
  description: "(always null)",
});

export function geminiNull(node: JsonSchemaObject): JsonSchemaObject {
  return node.description === undefined
    ? nullOnly
    : { ...nullOnly, description: withRemarks(node.description, ["always null"]) };
}

function isNull(schema: JsonSchemaObject): boolean {
  return schema.nullable === true && String(schema.description).endsWith("(always null)");
}

function withoutNullable({ nullable: _nullable, ...schema }: JsonSchemaObject): JsonSchemaObject {
  return schema;
}

function joinDescriptions(outer: unknown, inner: unknown): { description?: string } {
  const parts = [outer, inner].filter((part) => typeof part === "string" && part !== "");
  return parts.length === 0 ? {} : { description: [...new Set(parts)].join(" ") };
}

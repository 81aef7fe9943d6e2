import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  type JsonType,
  pointer,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemaFrom,
  schemasIn,
  typesOf,
} from "../schema/visit.ts";
import { annotationKeywords, mergeSchemas } from "./flatten.ts";
import { geminiFrame, geminiRemarks, geminiWords } from "./gemini.ts";
import { describeConstraint, type TakeNote, withRemarks } from "./modern-schema.ts";
import { distinctJson } from "./tools.ts";

/** How deep references are written out. Where that grows too large, the next smaller depth is taken. */
const referenceDepths = [8, 5, 3, 2, 1];
const maxNodes = 3_000;
/** How often one reference may stand inside itself before it is cut. */
const maxRepeats = 2;

class TooLarge extends Error {}

interface Lowering {
  readonly root: JsonSchemaObject;
  readonly note: TakeNote;
  readonly referenceDepth: number;
  readonly maxNodes: number;
  nodes: number;
}

/**
 * The schema in the subset of OpenAPI that Gemini's `parameters` takes: no references, no `oneOf`, `allOf` or
 * `const`, one type each. Takes a schema in modern form whose root is an object.
 */
export function toGeminiSchema(root: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  for (const referenceDepth of referenceDepths) {
    const taken: Parameters<TakeNote>[] = [];
    const limit = referenceDepth === 1 ? Number.POSITIVE_INFINITY : maxNodes;
    try {
      const take: TakeNote = (...entry) => taken.push(entry);
      const schema = lower(root, "", [], { root, note: take, referenceDepth, maxNodes: limit, nodes: 0 });
      for (const entry of taken) note(...entry);
      return schema;
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
    }
  }
  throw new TooLarge("the schema is too large");
}

function lower(
  node: JsonSchema,
  path: string,
  stack: readonly string[],
  lowering: Lowering,
): JsonSchemaObject {
  if (++lowering.nodes > lowering.maxNodes) throw new TooLarge();
  if (!isRecord(node)) return geminiAnyValue({}, path, lowering.note);
  if (typeof node.$ref === "string") return lowerReference(node, node.$ref, path, stack, lowering);
  if (node.allOf !== undefined) return lower(mergeAllOf(node, path, lowering), path, stack, lowering);
  if (node.anyOf !== undefined || node.oneOf !== undefined) return lowerUnion(node, path, stack, lowering);
  const types = typesOf(node);
  if (types === undefined) return geminiAnyValue(node, path, lowering.note);
  const present = types.filter((type) => type !== "null");
  if (present.length > 1) return lowerTypes(node, types, path, stack, lowering);
  if (present.length === 0) return geminiNull(node);
  const schema = lowerType(node, present[0]!, path, stack, lowering);
  return types.length > present.length ? { ...schema, nullable: true } : schema;
}

function lowerReference(
  node: JsonSchemaObject,
  reference: string,
  path: string,
  stack: readonly string[],
  lowering: Lowering,
): JsonSchemaObject {
  const { $ref: _reference, ...siblings } = node;
  const target = resolveReference(lowering.root, reference) ?? true;
  const repeats = stack.filter((entry) => entry === reference).length;
  // The root stands on no stack, so a reference to it has one repeat more than is counted.
  const allowed = reference === "#" ? maxRepeats - 1 : maxRepeats;
  if (repeats >= allowed || stack.length >= lowering.referenceDepth) {
    lowering.note(path, "$ref", "described", `Cut here: ${reference} goes deeper than Gemini can be told.`);
    return cutReference(siblings, reference, target);
  }
  const inside = [...stack, reference];
  if (Object.keys(siblings).length === 0) return lower(target, path, inside, lowering);
  const merged = mergeSchemas([siblings, target], lowering.root) ?? {
    ...(isRecord(target) && target),
    ...siblings,
  };
  // What is written out still carries the reference's own nesting, so its depth is counted.
  return lower(merged, path, inside, lowering);
}

function cutReference(siblings: JsonSchemaObject, reference: string, target: JsonSchema): JsonSchemaObject {
  const types = isRecord(target) ? typesOf(target) : undefined;
  const type = types?.find((candidate) => candidate !== "null") ?? "object";
  const name = reference === "#" ? "the whole" : (reference.split("/").at(-1) ?? reference);
  const written = typeof siblings.description === "string" ? siblings : isRecord(target) ? target : {};
  return {
    type,
    description: withRemarks(written.description, [`same shape as ${name}`]),
    ...(type === "array" && { items: { type: "object" } }),
    ...(types?.includes("null") && { nullable: true }),
  };
}

function mergeAllOf(node: JsonSchemaObject, path: string, lowering: Lowering): JsonSchemaObject {
  const { allOf, ...rest } = node;
  const remarks: string[] = [];
  let merged: JsonSchemaObject = rest;
  for (const part of schemasIn(allOf)) {
    const both = mergeSchemas([merged, part], lowering.root);
    if (both !== undefined) {
      merged = both;
      continue;
    }
    const remark = describeConstraint("allOf", part);
    if (remark !== undefined) remarks.push(remark);
    lowering.note(path, "allOf", remark ? "described" : "dropped", "A part does not merge with the others.");
  }
  lowering.note(path, "allOf", "rewritten", "Its parts stand as one schema.");
  return remarks.length === 0 ? merged : { ...merged, description: withRemarks(merged.description, remarks) };
}

function lowerUnion(
  node: JsonSchemaObject,
  path: string,
  stack: readonly string[],
  lowering: Lowering,
): JsonSchemaObject {
  const { anyOf, oneOf, ...base } = node;
  const keyword = anyOf !== undefined ? "anyOf" : "oneOf";
  if (keyword === "oneOf") lowering.note(path, "oneOf", "rewritten", "Sent as `anyOf`.");
  if (anyOf !== undefined && oneOf !== undefined) {
    lowering.note(path, "oneOf", "dropped", "It stands beside `anyOf`.");
  }
  const annotations = Object.fromEntries(
    Object.entries(base).filter(([key]) => annotationKeywords.includes(key)),
  );
  const constraints = Object.fromEntries(
    Object.entries(base).filter(([key]) => !annotationKeywords.includes(key)),
  );
  const isBare = Object.keys(constraints).length === 0;
  const branches = schemasIn(anyOf ?? oneOf).map((branch, index) => {
    const whole = isBare ? branch : (mergeSchemas([branch, constraints], lowering.root) ?? branch);
    return lower(whole, pointer(path, keyword, index), stack, lowering);
  });
  return geminiUnion(branches, annotations, path, lowering.note);
}

function lowerTypes(
  node: JsonSchemaObject,
  types: readonly JsonType[],
  path: string,
  stack: readonly string[],
  lowering: Lowering,
): JsonSchemaObject {
  const annotations = Object.fromEntries(
    Object.entries(node).filter(([key]) => annotationKeywords.includes(key)),
  );
  const rest = Object.fromEntries(
    Object.entries(node).filter(([key]) => key !== "type" && !annotationKeywords.includes(key)),
  );
  lowering.note(path, "type", "rewritten", "Each type is a branch of `anyOf`.");
  const branches = types.map((type) => lower({ ...rest, type }, path, stack, lowering));
  return geminiUnion(branches, annotations, path, lowering.note);
}

function lowerType(
  node: JsonSchemaObject,
  type: JsonType,
  path: string,
  stack: readonly string[],
  lowering: Lowering,
): JsonSchemaObject {
  if (type === "object") return lowerObject(node, path, stack, lowering);
  if (type === "array") return lowerArray(node, path, stack, lowering);
  const values = "const" in node ? [node.const] : Array.isArray(node.enum) ? node.enum : undefined;
  if (values === undefined) return geminiFrame(node, type, [], path, lowering.note);
  if ("const" in node) lowering.note(path, "const", "rewritten", "Sent as an `enum` of one value.");
  const present = values.filter((value) => value !== null);
  // Gemini takes a list of choices for strings only, and no empty string among them.
  if (type === "string" && present.every((value) => typeof value === "string" && value !== "")) {
    return { ...geminiFrame(node, type, [], path, lowering.note), enum: present };
  }
  const keyword = values.length === 1 ? "const" : "enum";
  const remark = describeConstraint(keyword, values.length === 1 ? values[0] : values);
  lowering.note(
    path,
    keyword,
    remark ? "described" : "dropped",
    "Gemini lists choices for non-empty strings only.",
  );
  return geminiFrame(node, type, remark === undefined ? [] : [remark], path, lowering.note);
}

function lowerObject(
  node: JsonSchemaObject,
  path: string,
  stack: readonly string[],
  lowering: Lowering,
): JsonSchemaObject {
  const properties = Object.entries(propertiesOf(node));
  const names = properties.map(([key]) => key);
  const listed = requiredOf(node);
  const required = listed.filter((key) => names.includes(key));
  const unlisted = listed.filter((key) => !names.includes(key));
  const remarks: string[] = [];
  if (unlisted.length > 0) {
    remarks.push(`also required: ${unlisted.join(", ")}`);
    lowering.note(path, "required", "described", "Gemini takes only listed properties as required.");
  }
  return {
    ...geminiFrame(node, "object", remarks, path, lowering.note),
    ...(properties.length > 0 && {
      properties: Object.fromEntries(
        properties.map(([key, value]) => [
          key,
          lower(value, pointer(path, "properties", key), stack, lowering),
        ]),
      ),
    }),
    ...(required.length > 0 && { required }),
  };
}

function lowerArray(
  node: JsonSchemaObject,
  path: string,
  stack: readonly string[],
  lowering: Lowering,
): JsonSchemaObject {
  if (!Array.isArray(node.prefixItems)) {
    return {
      ...geminiFrame(node, "array", [], path, lowering.note),
      items: lower(schemaFrom(node.items), pointer(path, "items"), stack, lowering),
    };
  }
  const places = node.prefixItems.map((place, index) =>
    lower(place, pointer(path, "prefixItems", index), stack, lowering),
  );
  const beyond = isRecord(node.items) ? [lower(node.items, pointer(path, "items"), stack, lowering)] : [];
  const order = places.map((place, index) => `${index + 1}. ${labelOf(place)}`).join(", ");
  lowering.note(path, "prefixItems", "described", "Sent as a list; the description gives the order.");
  const isClosed = beyond.length === 0 && node.items !== true;
  return {
    ...(isClosed && { minItems: places.length, maxItems: places.length }),
    ...geminiFrame(node, "array", [`items in this order: ${order}`], path, lowering.note),
    items: geminiUnion([...places, ...beyond], {}, path, lowering.note),
  };
}

function labelOf(schema: JsonSchemaObject): string {
  const name = typeof schema.title === "string" ? schema.title : schema.description;
  const type = typeof schema.type === "string" ? schema.type : "value";
  return typeof name === "string" && name.length <= 60 ? `${type} (${name})` : type;
}

/** Gemini takes no field beside `anyOf`, so what is said of the whole is said of each branch. */
function geminiUnion(
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
function geminiAnyValue(node: JsonSchemaObject, path: string, note: TakeNote): JsonSchemaObject {
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

function geminiNull(node: JsonSchemaObject): JsonSchemaObject {
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

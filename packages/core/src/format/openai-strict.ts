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
import { type TakeNote, withRemarks } from "./modern-schema.ts";
import { acceptsNull } from "./references.ts";
import {
  isOfType,
  NotStrict,
  StrictDefinitions,
  strictFrame,
  strictRemarks,
  strictValues,
  toNullable,
} from "./strict-arguments.ts";
import { distinctJson } from "./tools.ts";

type StrictSchema =
  | { readonly ok: true; readonly schema: JsonSchemaObject }
  | { readonly ok: false; readonly path: string; readonly keyword: string; readonly reason: string };

/** Work beyond this many nodes means that references multiply each other. */
const maxNodes = 20_000;

interface Lowering {
  readonly root: JsonSchemaObject;
  readonly note: TakeNote;
  readonly definitions: StrictDefinitions;
  nodes: number;
}

/**
 * The schema within the rules of OpenAI's strict mode: every object closed, every property required (those that
 * were optional take `null`, which `fromStrictArguments` removes again). Constraints the mode does not know are
 * said in the description. Where the rules would change what the tool accepts, the answer is the reason.
 * Takes a schema in modern form whose root is an object.
 */
export function toStrictSchema(root: JsonSchemaObject, note: TakeNote): StrictSchema {
  const lowering: Lowering = { root, note, definitions: new StrictDefinitions(root), nodes: 0 };
  try {
    const schema = lowerObject(root, "", lowering, true);
    const definitions: [string, JsonSchemaObject][] = [];
    for (const { name, path, target } of lowering.definitions.drain()) {
      definitions.push([name, lower(target, path, lowering)]);
    }
    const whole = { ...schema, ...(definitions.length > 0 && { $defs: Object.fromEntries(definitions) }) };
    const exceeded = checkStrictLimits(whole);
    if (exceeded !== undefined) throw new NotStrict("", "schema", exceeded);
    return { ok: true, schema: whole };
  } catch (error) {
    if (!(error instanceof NotStrict)) throw error;
    return { ok: false, path: error.path, keyword: error.keyword, reason: error.message };
  }
}

function lower(node: JsonSchema, path: string, lowering: Lowering): JsonSchemaObject {
  if (++lowering.nodes > maxNodes) throw new NotStrict(path, "$ref", "the schema is too large");
  if (!isRecord(node))
    throw new NotStrict(path, "type", node ? "any value is accepted" : "no value is accepted");
  if (typeof node.$ref === "string") return lowerReference(node, node.$ref, path, lowering);
  if (node.allOf !== undefined) return lowerAllOf(node, path, lowering);
  if (node.anyOf !== undefined || node.oneOf !== undefined) return lowerUnion(node, path, lowering);
  const types = typesOf(node);
  if (types === undefined) throw new NotStrict(path, "type", "any value is accepted");
  const present = types.filter((type) => type !== "null");
  if (present.length > 1) return lowerTypes(node, types, path, lowering);
  const isNullable = present.length < types.length;
  const schema = lowerType(node, present[0] ?? "null", path, lowering);
  return isNullable && present.length > 0 ? toNullable(schema) : schema;
}

function lowerReference(
  node: JsonSchemaObject,
  reference: string,
  path: string,
  lowering: Lowering,
): JsonSchemaObject {
  const target = resolveReference(lowering.root, reference);
  if (target === undefined) throw new NotStrict(path, "$ref", `nothing is found at ${reference}`);
  const { $ref: _reference, ...siblings } = node;
  const isRecursive = lowering.definitions.isRecursive(reference);
  const named = { $ref: lowering.definitions.refer(reference) };
  if (Object.keys(siblings).length === 0) return named;
  // Strict mode refuses keywords beside `$ref`, so the target is written out where it can be.
  if (isRecord(target) && !isRecursive) {
    lowering.definitions.forget(reference);
    const merged = mergeSchemas([siblings, target], lowering.root);
    if (merged === undefined)
      throw new NotStrict(path, "$ref", "the keywords beside it do not merge with it");
    return lower(merged, path, lowering);
  }
  const constraint = Object.keys(siblings).find((keyword) => !annotationKeywords.includes(keyword));
  if (constraint !== undefined) throw new NotStrict(path, constraint, "it stands beside a recursive `$ref`");
  const remarks = strictRemarks(siblings, [], path, lowering.note);
  const description = withRemarks(siblings.description, remarks);
  return { ...(description !== undefined && { description }), anyOf: [named] };
}

function lowerAllOf(node: JsonSchemaObject, path: string, lowering: Lowering): JsonSchemaObject {
  const { allOf, ...rest } = node;
  const merged = mergeSchemas([rest, ...schemasIn(allOf)], lowering.root);
  if (merged === undefined) throw new NotStrict(path, "allOf", "its parts do not merge into one schema");
  lowering.note(path, "allOf", "rewritten", "Its parts stand as one schema.");
  return lower(merged, path, lowering);
}

function lowerUnion(node: JsonSchemaObject, path: string, lowering: Lowering): JsonSchemaObject {
  const { anyOf, oneOf, ...base } = node;
  if (anyOf !== undefined && oneOf !== undefined) {
    throw new NotStrict(path, "oneOf", "it stands beside `anyOf`");
  }
  const keyword = anyOf !== undefined ? "anyOf" : "oneOf";
  if (keyword === "oneOf") lowering.note(path, keyword, "rewritten", "Sent as `anyOf`.");
  const annotations = Object.entries(base).filter(([key]) => annotationKeywords.includes(key));
  const constraints = Object.fromEntries(
    Object.entries(base).filter(([key]) => !annotationKeywords.includes(key)),
  );
  const isBare = Object.keys(constraints).length === 0;
  const branches = schemasIn(anyOf ?? oneOf).map((branch, index) => {
    const branchPath = pointer(path, keyword, index);
    const whole = isBare ? branch : mergeSchemas([branch, constraints], lowering.root);
    if (whole === undefined)
      throw new NotStrict(branchPath, keyword, "a branch does not merge with its parent");
    return lower(whole, branchPath, lowering);
  });
  const distinct = distinctJson(branches);
  const beside = Object.fromEntries(annotations);
  const { default: _default, examples: _examples, ...only } = distinct[0] ?? {};
  const description = withRemarks(beside.description, strictRemarks(beside, [], path, lowering.note));
  const title = typeof beside.title === "string" ? { title: beside.title } : {};
  const said = { ...title, ...(description !== undefined && { description }) };
  return distinct.length === 1 && !("$ref" in only) ? { ...only, ...said } : { ...said, anyOf: distinct };
}

/** Several types in one schema become one branch each, with the keywords that speak of that type. */
function lowerTypes(
  node: JsonSchemaObject,
  types: readonly JsonType[],
  path: string,
  lowering: Lowering,
): JsonSchemaObject {
  const { type: _type, title, description, default: standard, examples, ...rest } = node;
  const anyOf = types.flatMap((type) => {
    const values = Array.isArray(rest.enum) ? rest.enum.filter((value) => isOfType(value, type)) : undefined;
    if (values?.length === 0) return [];
    return [{ ...rest, type, ...(values && { enum: values }) }];
  });
  const beside = { title, description, default: standard, examples };
  const kept = Object.fromEntries(Object.entries(beside).filter(([, value]) => value !== undefined));
  lowering.note(path, "type", "rewritten", "Each type is a branch of `anyOf`.");
  return lowerUnion({ ...kept, anyOf }, path, lowering);
}

function lowerType(
  node: JsonSchemaObject,
  type: JsonType,
  path: string,
  lowering: Lowering,
): JsonSchemaObject {
  if (type === "object") return lowerObject(node, path, lowering, false);
  if (type === "array") return lowerArray(node, path, lowering);
  return {
    ...strictFrame(node, type, [], path, lowering.note),
    ...strictValues(node, type, path, lowering.note),
  };
}

function lowerObject(
  node: JsonSchemaObject,
  path: string,
  lowering: Lowering,
  isRoot: boolean,
): JsonSchemaObject {
  const properties = propertiesOf(node);
  const names = Object.keys(properties);
  const required = requiredOf(node);
  const further = node.additionalProperties;
  if (further !== undefined && further !== false) {
    throw new NotStrict(path, "additionalProperties", "properties that are not listed are accepted");
  }
  if (isRecord(node.patternProperties) && Object.keys(node.patternProperties).length > 0) {
    throw new NotStrict(path, "patternProperties", "properties that are not listed are accepted");
  }
  if (isRecord(node.unevaluatedProperties) || node.unevaluatedProperties === true) {
    throw new NotStrict(path, "unevaluatedProperties", "properties that are not listed are accepted");
  }
  if (names.length === 0 && further === undefined && !isRoot) {
    throw new NotStrict(path, "properties", "an object with any properties is accepted");
  }
  const unlisted = required.find((key) => !names.includes(key));
  if (unlisted !== undefined) throw new NotStrict(path, "required", `${unlisted} is required but not listed`);
  if (Array.isArray(node.enum) || node.const !== undefined) {
    throw new NotStrict(path, "enum", "a fixed object cannot be listed");
  }
  if (further === undefined) {
    lowering.note(path, "additionalProperties", "rewritten", "Not said, so sent as closed.");
  }
  const lowered = Object.entries(properties).map(([key, property]): [string, JsonSchemaObject] => {
    const propertyPath = pointer(path, "properties", key);
    const schema = lower(property, propertyPath, lowering);
    if (required.includes(key) || acceptsNull(property, lowering.root)) return [key, schema];
    lowering.note(propertyPath, "required", "rewritten", "Optional, so sent as required and nullable.");
    return [key, toNullable(schema)];
  });
  return {
    ...strictFrame(node, "object", ["patternProperties"], path, lowering.note),
    properties: Object.fromEntries(lowered),
    required: names,
    additionalProperties: false,
  };
}

function lowerArray(node: JsonSchemaObject, path: string, lowering: Lowering): JsonSchemaObject {
  if (Array.isArray(node.enum) || node.const !== undefined) {
    throw new NotStrict(path, "enum", "a fixed list cannot be listed");
  }
  if (Array.isArray(node.prefixItems)) return lowerTuple(node, node.prefixItems, path, lowering);
  if (node.items === undefined) throw new NotStrict(path, "items", "items of any kind are accepted");
  return {
    ...strictFrame(node, "array", [], path, lowering.note),
    items: lower(schemaFrom(node.items), pointer(path, "items"), lowering),
  };
}

/** A tuple becomes a list of what its places take; the description says which stands where. */
function lowerTuple(
  node: JsonSchemaObject,
  places: readonly JsonSchema[],
  path: string,
  lowering: Lowering,
): JsonSchemaObject {
  if (node.items === true || isRecord(node.items)) {
    throw new NotStrict(path, "items", "items beyond the listed ones are accepted");
  }
  const lowered = places.map((place, index) => lower(place, pointer(path, "prefixItems", index), lowering));
  const distinct = distinctJson(lowered);
  const order = lowered.map((place, index) => `${index + 1}. ${labelOf(place)}`).join(", ");
  lowering.note(path, "prefixItems", "described", "Sent as a list; the description gives the order.");
  const framed = strictFrame(node, "array", ["minItems", "maxItems"], path, lowering.note);
  return {
    ...framed,
    description: withRemarks(framed.description, [`items in this order: ${order}`]),
    items: distinct.length === 1 ? distinct[0] : { anyOf: distinct },
    minItems: typeof node.minItems === "number" ? node.minItems : places.length,
    maxItems: typeof node.maxItems === "number" ? Math.min(node.maxItems, places.length) : places.length,
  };
}

function labelOf(schema: JsonSchemaObject): string {
  const name = typeof schema.title === "string" ? schema.title : schema.description;
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "value");
  return typeof name === "string" && name.length <= 60 ? `${type} (${name})` : String(type);
}

/** The provider's documented limits of a strict schema. */
const limits = {
  properties: 5_000,
  depth: 10,
  enumValues: 1_000,
  textLength: 120_000,
  largeEnum: 250,
  largeEnumLength: 15_000,
};

/** What a strict schema exceeds, in words, or nothing. */
function checkStrictLimits(root: JsonSchemaObject): string | undefined {
  let properties = 0;
  let enumValues = 0;
  let textLength = 0;
  let problem: string | undefined;
  visit(root, 0, []);
  const definitions = isRecord(root.$defs) ? root.$defs : {};
  for (const [name, definition] of Object.entries(definitions)) {
    textLength += name.length;
    // Depth is counted along the references above; here only the sizes are.
    if (isRecord(definition)) visit(definition, 0, undefined);
  }
  if (properties > limits.properties) problem ??= `more than ${limits.properties} properties`;
  if (enumValues > limits.enumValues) problem ??= `more than ${limits.enumValues} values in enums`;
  if (textLength > limits.textLength)
    problem ??= `more than ${limits.textLength} characters of names and values`;
  return problem;

  /** With `references`, measures depth along `$ref`; without, counts sizes. The root counts for both. */
  function visit(schema: JsonSchemaObject, depth: number, references: readonly string[] | undefined): void {
    if (depth > limits.depth) problem ??= `more than ${limits.depth} levels of nesting`;
    if (problem !== undefined) return;
    const isCounted = references === undefined || references.length === 0;
    if (isCounted && Array.isArray(schema.enum)) countValues(schema.enum);
    if (references !== undefined && typeof schema.$ref === "string" && !references.includes(schema.$ref)) {
      const target = resolveReference(root, schema.$ref);
      if (isRecord(target) && references.length < limits.depth)
        visit(target, depth, [...references, schema.$ref]);
    }
    if (Array.isArray(schema.anyOf)) for (const branch of schema.anyOf) visit(branch, depth, references);
    if (isRecord(schema.items)) visit(schema.items, depth + 1, references);
    for (const [name, property] of Object.entries(isRecord(schema.properties) ? schema.properties : {})) {
      if (isCounted) properties++;
      if (isCounted) textLength += name.length;
      if (isRecord(property)) visit(property, depth + 1, references);
    }
  }

  function countValues(values: readonly unknown[]): void {
    enumValues += values.length;
    const length = values.reduce<number>((sum, value) => sum + String(value).length, 0);
    textLength += length;
    if (values.length > limits.largeEnum && length > limits.largeEnumLength) {
      problem ??= `an enum of more than ${limits.largeEnum} values and ${limits.largeEnumLength} characters`;
    }
  }
}

import { resolvePointer } from "./resolve-pointer.ts";
import type { JsonSchemaObject } from "./types.ts";

const maximumDepth = 3;
const maximumChoices = 12;

/** What a schema wants, in words: `integer ≥ 1`, `one of "a", "b"`, `string in email format`. */
export function describeExpected(schema: unknown, root: JsonSchemaObject, depth = 0): string {
  if (schema === false) return "nothing";
  if (!isRecord(schema) || depth > maximumDepth) return "a value";
  if ("const" in schema) return literal(schema.const);
  if (Array.isArray(schema.enum)) return oneOf(schema.enum);
  const reference = followReference(schema, root);
  if (reference !== undefined) return describeExpected(reference, root, depth + 1);
  const types = typesOf(schema);
  if (types.length > 0) return types.map((type) => describeType(type, schema, root, depth)).join(" or ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices))
    return anyOf(choices.map((choice) => describeExpected(choice, root, depth + 1)));
  if (Array.isArray(schema.allOf))
    return anyOf(
      schema.allOf.map((part) => describeExpected(part, root, depth + 1)),
      " and ",
    );
  if (isRecord(schema.not)) return `anything but ${describeExpected(schema.not, root, depth + 1)}`;
  const implied = impliedType(schema);
  return implied === undefined ? "a value" : describeType(implied, schema, root, depth);
}

/** `one of "a", "b"`, or the literal itself when there is only one. */
export function oneOf(values: readonly unknown[]): string {
  if (values.length === 1) return literal(values[0]);
  const shown = values.slice(0, maximumChoices).map(literal);
  return `one of ${shown.join(", ")}${values.length > maximumChoices ? `, … (${values.length} in all)` : ""}`;
}

export function anyOf(descriptions: readonly string[], conjunction = " or "): string {
  const distinct = [...new Set(descriptions)];
  const shown = distinct.slice(0, 6);
  return shown.join(conjunction) + (distinct.length > shown.length ? `${conjunction}…` : "");
}

/** `string of 1 to 5 characters` and the like: the limits on a size, with the noun counted. */
export function sizeLimits(minimum: unknown, maximum: unknown, noun: string): string {
  const plural = (count: unknown) => (count === 1 ? noun : noun === "property" ? "properties" : `${noun}s`);
  if (typeof minimum === "number" && typeof maximum === "number") {
    if (minimum === maximum) return ` of exactly ${minimum} ${plural(minimum)}`;
    return ` of ${minimum} to ${maximum} ${plural(maximum)}`;
  }
  if (typeof minimum === "number" && minimum > 0) return ` of at least ${minimum} ${plural(minimum)}`;
  return typeof maximum === "number" ? ` of at most ${maximum} ${plural(maximum)}` : "";
}

function describeType(
  type: unknown,
  schema: JsonSchemaObject,
  root: JsonSchemaObject,
  depth: number,
): string {
  switch (type) {
    case "string":
      return describeString(schema);
    case "number":
    case "integer":
      return describeNumber(type, schema);
    case "array":
      return describeArray(schema, root, depth);
    case "object":
      return depth > 0 ? describeForm(schema) : describeObject(schema);
    default:
      return String(type);
  }
}

function describeObject(schema: JsonSchemaObject): string {
  return `object${sizeLimits(schema.minProperties, schema.maxProperties, "property")}`;
}

/** An object among alternatives, told apart by its constants or else by the keys it needs. */
function describeForm(schema: JsonSchemaObject): string {
  const properties = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  const constants = properties.flatMap(([name, property]) =>
    isRecord(property) && "const" in property ? [`${name} ${literal(property.const)}`] : [],
  );
  if (constants.length > 0) return `object with ${constants.join(" and ")}`;
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : [];
  if (required.length === 0) return describeObject(schema);
  return `object with ${required.slice(0, 6).join(", ")}${required.length > 6 ? ", …" : ""}`;
}

function describeString(schema: JsonSchemaObject): string {
  let words = `string${sizeLimits(schema.minLength, schema.maxLength, "character")}`;
  if (typeof schema.format === "string") words += ` in ${schema.format} format`;
  if (typeof schema.pattern === "string") words += ` matching /${clip(schema.pattern)}/`;
  return words;
}

function describeNumber(type: string, schema: JsonSchemaObject): string {
  const limits = [
    limit("≥", schema.minimum),
    limit(">", schema.exclusiveMinimum),
    limit("≤", schema.maximum),
    limit("<", schema.exclusiveMaximum),
  ].filter((words) => words !== undefined);
  const words = limits.length === 0 ? type : `${type} ${limits.join(" and ")}`;
  return schema.multipleOf === undefined ? words : `${words}, a multiple of ${schema.multipleOf}`;
}

function limit(sign: string, bound: unknown): string | undefined {
  return typeof bound === "number" ? `${sign} ${bound}` : undefined;
}

function describeArray(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): string {
  const size = sizeLimits(schema.minItems, schema.maxItems, "item");
  const unique = schema.uniqueItems === true ? " without repetition" : "";
  const items = isRecord(schema.items) ? describeExpected(schema.items, root, depth + 1) : "a value";
  if (items === "a value") return `array${size}${unique}`;
  return size === "" ? `array of ${items}${unique}` : `array${size}${unique}, each ${items}`;
}

function typesOf(schema: JsonSchemaObject): readonly unknown[] {
  const types: readonly unknown[] = Array.isArray(schema.type)
    ? schema.type
    : schema.type
      ? [schema.type]
      : [];
  return schema.nullable === true && types.length > 0 && !types.includes("null") ? [...types, "null"] : types;
}

function impliedType(schema: JsonSchemaObject): string | undefined {
  if (schema.pattern !== undefined || schema.format !== undefined) return "string";
  if (schema.minLength !== undefined || schema.maxLength !== undefined) return "string";
  if (schema.minimum !== undefined || schema.maximum !== undefined || schema.multipleOf !== undefined)
    return "number";
  if (schema.exclusiveMinimum !== undefined || schema.exclusiveMaximum !== undefined) return "number";
  if (schema.items !== undefined || schema.minItems !== undefined || schema.maxItems !== undefined)
    return "array";
  if (schema.uniqueItems === true) return "array";
  if (schema.properties !== undefined || schema.required !== undefined) return "object";
  if (schema.minProperties !== undefined || schema.maxProperties !== undefined) return "object";
  return undefined;
}

function followReference(schema: JsonSchemaObject, root: JsonSchemaObject): unknown {
  if (typeof schema.$ref !== "string") return undefined;
  if (schema.$ref === "#") return root;
  return schema.$ref.startsWith("#/") ? resolvePointer(root, schema.$ref) : undefined;
}

function literal(value: unknown): string {
  return clip(JSON.stringify(value) ?? "nothing");
}

function clip(text: string): string {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

function isRecord(value: unknown): value is JsonSchemaObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

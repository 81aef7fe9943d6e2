import { resolvePointer } from "./references.ts";
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
  if (schema.not !== undefined) return describeAllBut(schema.not, root, depth);
  const implied = Object.keys(subjects).find((keyword) => schema[keyword] !== undefined);
  return implied === undefined ? "a value" : describeType(subjects[implied], schema, root, depth);
}

/**
 * What one keyword of a schema wants, with the others about the same type. A limit may stand beside a reference or
 * alternatives that the value fits; describing those would contradict what came.
 */
export function describeKeyword(
  keyword: string,
  schema: unknown,
  root: JsonSchemaObject,
  value: unknown,
): string {
  if (!isRecord(schema)) return "a value";
  const isAssertion = Object.hasOwn(subjects, keyword);
  const isPlainType = keyword === "type" && !("const" in schema) && !Array.isArray(schema.enum);
  if (!isAssertion && !isPlainType) return describeExpected(schema, root);
  const types = typesOf(schema);
  if (types.length > 0) return types.map((type) => describeType(type, schema, root, 0)).join(" or ");
  return describeType(typeof value === "number" ? "number" : subjects[keyword], schema, root, 0);
}

/** What is left when `not` forbids a schema. Where words would forbid too much, the schema itself is shown. */
export function describeAllBut(forbidden: unknown, root: JsonSchemaObject, depth = 0): string {
  const schema = (isRecord(forbidden) ? followReference(forbidden, root) : undefined) ?? forbidden;
  if (!isRecord(schema) || Object.keys(schema).length === 0) return "nothing";
  const words = describeExpected(schema, root, depth + 1);
  const isVague =
    words === "a value" || Object.values(schema.properties ?? {}).some((part) => !isConstant(part));
  return `anything but ${isVague ? `a value that fits ${literal(schema)}` : words}`;
}

/** The type that a keyword speaks about. It lets all values of other types pass. */
const subjects: Readonly<Record<string, string>> = {
  pattern: "string",
  format: "string",
  minLength: "string",
  maxLength: "string",
  minimum: "number",
  maximum: "number",
  multipleOf: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
  items: "array",
  minItems: "array",
  maxItems: "array",
  uniqueItems: "array",
  properties: "object",
  required: "object",
  minProperties: "object",
  maxProperties: "object",
};

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
    isConstant(property) ? [`${name} ${literal(property.const)}`] : [],
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
  let words = limits.length === 0 ? type : `${type} ${limits.join(" and ")}`;
  if (typeof schema.format === "string") words += ` in ${schema.format} format`;
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

function followReference(schema: JsonSchemaObject, root: JsonSchemaObject): unknown {
  if (typeof schema.$ref !== "string") return undefined;
  if (schema.$ref === "#") return root;
  return schema.$ref.startsWith("#/") ? resolvePointer(root, schema.$ref) : undefined;
}

function isConstant(schema: unknown): schema is { readonly const: unknown } {
  return isRecord(schema) && "const" in schema;
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

const longest = 80;

/** What came, in a few words: `string "abc"`, `number 4`, `array of 3 items`, `nothing`. Never throws. */
export function describeReceived(value: unknown): string {
  switch (typeof value) {
    case "undefined":
      return "nothing";
    case "string":
      return `string ${clipReceived(JSON.stringify(value.length > longest ? value.slice(0, longest) : value))}`;
    case "number":
      return Number.isFinite(value) ? `number ${value}` : `${value}`;
    case "boolean":
      return `boolean ${value}`;
    case "bigint":
      return clipReceived(`bigint ${value}`);
    case "object":
      return value === null ? "null" : describeReceivedObject(value);
    default:
      return typeof value;
  }
}

function describeReceivedObject(value: object): string {
  try {
    if (Array.isArray(value))
      return value.length === 1 ? "array of 1 item" : `array of ${value.length} items`;
    const tag = Object.prototype.toString.call(value).slice(8, -1);
    if (tag !== "Object") return clipReceived(tag);
    const keys = Object.keys(value);
    if (keys.length === 0) return "empty object";
    return clipReceived(`object with ${keys.slice(0, 6).join(", ")}${keys.length > 6 ? ", …" : ""}`);
  } catch {
    // A proxy may refuse to be looked at.
    return "object";
  }
}

function clipReceived(text: string): string {
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}

/** The key that was most likely meant, or `undefined` when none is close. */
export function nearestKey(key: string, known: Iterable<string>): string | undefined {
  const wanted = normalize(key);
  let nearest: string | undefined;
  let best = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of known) {
    const other = normalize(candidate);
    if (Math.abs(other.length - wanted.length) >= best) continue;
    const distance = editDistance(wanted, other);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

/** `filePath`, `file_path` and `file-path` are one word to whoever mixes them up. Clipped to bound the work. */
function normalize(key: string): string {
  return key
    .slice(0, 64)
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();
}

/** Levenshtein distance in which swapping two neighbours costs one. */
function editDistance(left: string, right: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1];
      let cost = Math.min(
        previous[column]! + 1,
        current[column - 1]! + 1,
        previous[column - 1]! + (same ? 0 : 1),
      );
      if (
        row > 1 &&
        column > 1 &&
        left[row - 1] === right[column - 2] &&
        left[row - 2] === right[column - 1]
      ) {
        cost = Math.min(cost, beforePrevious[column - 2]! + 1);
      }
      current.push(cost);
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[right.length]!;
}

import { isRecord, type JsonSchemaObject, listOf, resolveReference, subjectOf, typesOf } from "./visit.ts";

const maximumDepth = 3;
const maximumChoices = 12;

/** Describes what a schema accepts: `integer ≥ 1`, `one of "a", "b"`, `string in email format`. */
export function describeExpected(schema: unknown, root: JsonSchemaObject, depth = 0): string {
  if (schema === false) return "nothing";
  if (!isRecord(schema) || depth > maximumDepth) return "a value";
  if ("const" in schema) return literal(schema.const);
  if (Array.isArray(schema.enum)) return oneOf(schema.enum);
  const reference = followed(schema, root);
  if (reference !== undefined) return describeExpected(reference, root, depth + 1);
  const types = namedTypes(schema);
  if (types.length > 0) return types.map((type) => describeType(type, schema, root, depth)).join(" or ");
  const describeAll = (parts: readonly unknown[]) =>
    parts.map((part) => describeExpected(part, root, depth + 1));
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return anyOf(describeAll(choices));
  if (Array.isArray(schema.allOf)) return anyOf(describeAll(schema.allOf), " and ");
  if (schema.not !== undefined) return describeAllBut(schema.not, root, depth);
  const [implied] = typesOf(schema) ?? [];
  return implied === undefined ? "a value" : describeType(implied, schema, root, depth);
}

/**
 * Describes what a violated keyword demands, together with the other keywords for the same type. References
 * and alternatives beside the keyword are left out: the value may fit them, so describing them would mislead.
 */
export function describeKeyword(
  keyword: string,
  schema: unknown,
  root: JsonSchemaObject,
  value: unknown,
): string {
  if (!isRecord(schema)) return "a value";
  const subject = subjectOf(keyword);
  const isPlainType = keyword === "type" && !("const" in schema) && !Array.isArray(schema.enum);
  if (subject === undefined && !isPlainType) return describeExpected(schema, root);
  const types = namedTypes(schema);
  if (types.length > 0) return types.map((type) => describeType(type, schema, root, 0)).join(" or ");
  return describeType(typeof value === "number" ? "number" : subject, schema, root, 0);
}

/**
 * Describes the values that a `not` allows. Shows the forbidden schema itself where a description in words
 * would forbid more than the schema does.
 */
export function describeAllBut(forbidden: unknown, root: JsonSchemaObject, depth = 0): string {
  const schema = (isRecord(forbidden) ? followed(forbidden, root) : undefined) ?? forbidden;
  if (!isRecord(schema) || Object.keys(schema).length === 0) return "nothing";
  const words = describeExpected(schema, root, depth + 1);
  const isVague =
    words === "a value" || Object.values(schema.properties ?? {}).some((part) => !isConstant(part));
  return `anything but ${isVague ? `a value that fits ${literal(schema)}` : words}`;
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

/** Describes the limits on a size, such as ` of 1 to 5 characters`. */
export function sizeLimits(minimum: unknown, maximum: unknown, noun: string): string {
  const plural = (count: unknown) => (count === 1 ? noun : noun === "property" ? "properties" : `${noun}s`);
  if (typeof minimum === "number" && typeof maximum === "number") {
    if (minimum === maximum) return ` of exactly ${minimum} ${plural(minimum)}`;
    return ` of ${minimum} to ${maximum} ${plural(maximum)}`;
  }
  if (typeof minimum === "number" && minimum > 0) return ` of at least ${minimum} ${plural(minimum)}`;
  return typeof maximum === "number" ? ` of at most ${maximum} ${plural(maximum)}` : "";
}

const numberLimits = Object.entries({
  minimum: "≥",
  exclusiveMinimum: ">",
  maximum: "≤",
  exclusiveMaximum: "<",
});

function describeType(
  type: unknown,
  schema: JsonSchemaObject,
  root: JsonSchemaObject,
  depth: number,
): string {
  const { format, pattern, multipleOf } = schema;
  const inFormat = typeof format === "string" ? ` in ${format} format` : "";
  switch (type) {
    case "string": {
      const size = sizeLimits(schema.minLength, schema.maxLength, "character");
      return `string${size}${inFormat}${typeof pattern === "string" ? ` matching /${clip(pattern)}/` : ""}`;
    }
    case "number":
    case "integer": {
      const limits = numberLimits.flatMap(([keyword, sign]) =>
        typeof schema[keyword] === "number" ? [`${sign} ${schema[keyword]}`] : [],
      );
      const words = [type, limits.join(" and ")].filter(Boolean).join(" ");
      return `${words}${inFormat}${multipleOf === undefined ? "" : `, a multiple of ${multipleOf}`}`;
    }
    case "array": {
      const size = sizeLimits(schema.minItems, schema.maxItems, "item");
      const unique = schema.uniqueItems === true ? " without repetition" : "";
      const items = isRecord(schema.items) ? describeExpected(schema.items, root, depth + 1) : "a value";
      if (items === "a value") return `array${size}${unique}`;
      return size === "" ? `array of ${items}${unique}` : `array${size}${unique}, each ${items}`;
    }
    case "object":
      return describeObject(schema, depth > 0);
    default:
      return String(type);
  }
}

/** Among alternatives, an object is described by its constants or its required keys. */
function describeObject(schema: JsonSchemaObject, isAlternative: boolean): string {
  const constants = Object.entries(isRecord(schema.properties) ? schema.properties : {}).flatMap(
    ([name, property]) => (isConstant(property) ? [`${name} ${literal(property.const)}`] : []),
  );
  if (isAlternative && constants.length > 0) return `object with ${constants.join(" and ")}`;
  const required = listOf(schema.required);
  if (!isAlternative || required.length === 0)
    return `object${sizeLimits(schema.minProperties, schema.maxProperties, "property")}`;
  return `object with ${required.slice(0, 6).join(", ")}${required.length > 6 ? ", …" : ""}`;
}

/** The types of a schema, including OpenAPI's `nullable`. */
function namedTypes(schema: JsonSchemaObject): readonly unknown[] {
  const types = Array.isArray(schema.type) ? schema.type : schema.type ? [schema.type] : [];
  return schema.nullable === true && types.length > 0 && !types.includes("null") ? [...types, "null"] : types;
}

function followed(schema: JsonSchemaObject, root: JsonSchemaObject): unknown {
  return typeof schema.$ref === "string" ? resolveReference(root, schema.$ref) : undefined;
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

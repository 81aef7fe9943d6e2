/** Where schemas sit inside a JSON Schema: below these keywords, in one of three arrangements. */
export const schemaKeywords: Readonly<Record<string, "schema" | "list" | "map" | "schema-or-list">> = {
  additionalItems: "schema",
  additionalProperties: "schema",
  contains: "schema",
  contentSchema: "schema",
  else: "schema",
  if: "schema",
  items: "schema-or-list",
  not: "schema",
  propertyNames: "schema",
  // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema, and this table is never awaited.
  then: "schema",
  unevaluatedItems: "schema",
  unevaluatedProperties: "schema",
  allOf: "list",
  anyOf: "list",
  oneOf: "list",
  prefixItems: "list",
  $defs: "map",
  definitions: "map",
  dependentSchemas: "map",
  patternProperties: "map",
  properties: "map",
};

/** What a keyword's value must be when it is no schema. */
export const plainKeywords: Readonly<
  Record<string, "number" | "count" | "string" | "boolean" | "strings" | "any">
> = {
  minimum: "number",
  maximum: "number",
  multipleOf: "number",
  // Draft 4 wrote a boolean here; it is translated before it is compiled.
  exclusiveMinimum: "any",
  exclusiveMaximum: "any",
  minLength: "count",
  maxLength: "count",
  minItems: "count",
  maxItems: "count",
  minContains: "count",
  maxContains: "count",
  minProperties: "count",
  maxProperties: "count",
  pattern: "string",
  format: "string",
  $ref: "string",
  $id: "string",
  $schema: "string",
  $anchor: "string",
  $dynamicAnchor: "string",
  $dynamicRef: "string",
  $recursiveRef: "string",
  uniqueItems: "boolean",
  required: "strings",
  type: "any",
  enum: "any",
  const: "any",
  default: "any",
  dependencies: "any",
  dependentRequired: "any",
  title: "any",
  description: "any",
  examples: "any",
  example: "any",
  deprecated: "any",
  readOnly: "any",
  writeOnly: "any",
  nullable: "any",
  discriminator: "any",
  contentEncoding: "any",
  contentMediaType: "any",
  $comment: "any",
  $vocabulary: "any",
  $recursiveAnchor: "any",
};

export function isKnownKeyword(key: string): boolean {
  return Object.hasOwn(schemaKeywords, key) || Object.hasOwn(plainKeywords, key);
}

/** Also those that are somebody's own. */
export function isKeyword(key: string): boolean {
  return isKnownKeyword(key) || /^(\$|x-)/.test(key);
}

export const typeNames = ["string", "number", "integer", "boolean", "object", "array", "null"] as const;

/** The dialects that are understood, each with the part of `$schema` that names it. */
export type Dialect = "2020-12" | "2019-09" | "draft-07";

/** 2020-12 unless `$schema` names another; drafts 3 to 6 are read as draft 7. */
export function dialectOf(schema: Readonly<Record<string, unknown>>): Dialect {
  const declared = typeof schema.$schema === "string" ? schema.$schema : "";
  if (declared.includes("2019-09")) return "2019-09";
  return /draft-0[3-7]/.test(declared) ? "draft-07" : "2020-12";
}

/** A schema's own text that ships with every validator, so a reference to it needs no network. */
export function isMetaschema(reference: string): boolean {
  return /^https?:\/\/json-schema\.org\/(draft\/20(19-09|20-12)\/|draft-07\/)?schema\b/.test(reference);
}

/** `pattern` is read with Unicode rules; the many patterns those rules forbid are read without. */
export function toRegExp(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return new RegExp(pattern);
  }
}

/** These are about the same value as the schema that holds them; all others are about a part of it. */
export const sameValueKeywords: readonly string[] = [
  "allOf",
  "anyOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "dependentSchemas",
  "dependencies",
];
export const referenceKeywords: readonly string[] = ["$ref", "$dynamicRef", "$recursiveRef"];

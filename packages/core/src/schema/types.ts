/** A JSON Schema document (2020-12 unless `$schema` says draft-07). */
export type JsonSchema = boolean | JsonSchemaObject;
export interface JsonSchemaObject {
  readonly [keyword: string]: unknown;
}

/** The shapes in which a schema may be written. Recognised by shape, never by `instanceof`. */
export type SchemaKind = "json-schema" | "zod4" | "zod3" | "standard" | "shape";

/** One thing that is wrong with a value. */
export interface SchemaIssue {
  /** Where, as people write it: `items[0].name`; empty for the value itself. */
  readonly path: string;
  readonly expected: string;
  readonly received: string;
  readonly message: string;
}

export type SchemaOutcome =
  | { readonly ok: true; readonly value: unknown; readonly dropped?: readonly string[] }
  | { readonly ok: false; readonly issues: readonly SchemaIssue[] };

export interface ValidateOptions {
  /**
   * Refuse unknown keys, at any depth, instead of dropping or keeping them. A key is unknown where the schema lists
   * the keys of an object without it and says nothing about other keys.
   */
  readonly strict?: boolean;
}

/**
 * One schema, ready to use. Made by `compileSchema`, which caches by identity.
 * `validate` never changes the value it is given and never throws for a bad value; it throws `SchemaError` when
 * the schema turns out to be broken on first use. It answers with a promise when the schema itself is
 * asynchronous, and while the engine for JSON Schemas is being loaded.
 */
export interface CompiledSchema {
  readonly kind: SchemaKind;
  /** The JSON Schema of the input side, made on first use and cached. Throws `SchemaError` when there is none. */
  jsonSchema(): JsonSchemaObject;
  validate(value: unknown, options?: ValidateOptions): SchemaOutcome | Promise<SchemaOutcome>;
}

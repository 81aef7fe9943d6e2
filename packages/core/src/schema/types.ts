import type { SchemaIssue } from "./issue.ts";
import type { JsonSchemaObject } from "./visit.ts";

/** The shapes in which a schema may be written. Recognised by shape, never by `instanceof`. */
export type SchemaKind = "json-schema" | "zod4" | "zod3" | "standard" | "shape";

export type SchemaOutcome =
  | {
      readonly ok: true;
      readonly value: unknown;
      /** Keys that the schema does not know and that were removed from the value. */
      readonly dropped?: readonly string[];
      /** The value is so large that a history should keep only a part of it. */
      readonly isLarge?: boolean;
    }
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

const brand = Symbol.for("toolrack.SchemaError");

/**
 * A schema that cannot be used: not a schema at all, malformed, or without a JSON Schema form. It is the
 * author's mistake; a value that does not fit a schema never causes one.
 */
export class SchemaError extends Error {
  override readonly name = "SchemaError";
  /** Where in a JSON Schema the mistake is, as people write it: `properties.age.type`. */
  readonly path: string | undefined;

  constructor(message: string, options?: { readonly path?: string; readonly cause?: unknown }) {
    super(message, options && "cause" in options ? { cause: options.cause } : undefined);
    this.path = options?.path;
    Object.defineProperty(this, brand, { value: true });
  }

  /** Recognises a `SchemaError` of any copy of this package, which `instanceof` does not. */
  static is(value: unknown): value is SchemaError {
    return typeof value === "object" && value !== null && brand in value;
  }
}

/** Arguments of which the types say nothing. Their schema has been checked when a tool reads them. */
// biome-ignore lint/suspicious/noExplicitAny: authors read `input.city.length` without a cast, as the schema allows.
export type AnyInput = Record<string, any>;

/**
 * The type of the arguments that `execute` gets: the output of the schema. Reads Zod, Standard Schemas, objects of
 * them, and literal JSON Schemas; for anything else `Record<string, any>`.
 */
export type InferInput<Schema> = unknown extends Schema
  ? AnyInput
  : [Schema] extends [LibrarySchema]
    ? KnownRoot<LibraryOutput<Schema>>
    : IsShape<Schema> extends true
      ? ShapeOutput<Schema>
      : KnownRoot<JsonOutput<Schema>>;

/** Zod 4 and zod/mini, any Standard Schema, Zod 3. */
type LibrarySchema =
  | { readonly _zod: unknown }
  | { readonly "~standard": unknown }
  | { readonly _output: unknown };

type LibraryOutput<Schema> = Schema extends { readonly _zod: { readonly output: infer Output } }
  ? Output
  : Schema extends { readonly _output: infer Output }
    ? Output
    : Schema extends { readonly "~standard": { readonly types?: infer Types } }
      ? NonNullable<Types> extends { readonly output: infer Output }
        ? Output
        : AnyInput
      : AnyInput;

/** Whether every member is a schema of a library. An object without members is a JSON Schema. */
type IsShape<Schema> = keyof Schema extends never
  ? false
  : string extends keyof Schema
    ? false
    : [Schema[keyof Schema]] extends [LibrarySchema]
      ? true
      : false;

type ShapeOutput<Schema> = Flatten<
  {
    [Key in keyof Schema as TakesUndefined<Schema[Key]> extends true ? never : Key]: LibraryOutput<
      Schema[Key]
    >;
  } & {
    [Key in keyof Schema as TakesUndefined<Schema[Key]> extends true ? Key : never]?: LibraryOutput<
      Schema[Key]
    >;
  }
>;

type TakesUndefined<Schema> =
  undefined extends LibraryOutput<Schema> ? (unknown extends LibraryOutput<Schema> ? false : true) : false;

/** Arguments are always an object, even if the schema says nothing about them. */
type KnownRoot<Output> = unknown extends Output ? AnyInput : Output;

/** The values a JSON Schema allows, as far as its keywords are literals. */
type JsonOutput<Schema> = Schema extends { readonly const: infer Constant }
  ? Constant
  : Schema extends { readonly enum: readonly (infer Member)[] }
    ? Member
    : Schema extends { readonly anyOf: readonly (infer Branch)[] }
      ? JsonUnion<Branch>
      : Schema extends { readonly oneOf: readonly (infer Branch)[] }
        ? JsonUnion<Branch>
        : Schema extends { readonly type: infer Type }
          ? JsonType<Type extends readonly (infer Member)[] ? Member : Type, Schema> | JsonNull<Schema>
          : Schema extends { readonly properties: object }
            ? JsonObject<Schema>
            : unknown;

type JsonUnion<Branch> = Branch extends unknown ? JsonOutput<Branch> : never;

/** OpenAPI's `nullable`; the validator uses it only beside a `type`. */
type JsonNull<Schema> = Schema extends { readonly nullable: true } ? null : never;

/**
 * The TypeScript type of one or several JSON types. If a literal was widened to `string`, the type is not
 * known.
 */
type JsonType<Type, Schema> = string extends Type
  ? unknown
  : Type extends "object"
    ? JsonObject<Schema>
    : Type extends "array"
      ? JsonArray<Schema>
      : Type extends keyof JsonScalars
        ? JsonScalars[Type]
        : unknown;

interface JsonScalars {
  string: string;
  number: number;
  integer: number;
  boolean: boolean;
  null: null;
}

type JsonArray<Schema> = Schema extends { readonly items: infer Items }
  ? Items extends readonly unknown[]
    ? unknown[]
    : JsonOutput<Items>[]
  : unknown[];

type JsonObject<Schema> = Schema extends { readonly properties: infer Properties }
  ? Flatten<
      { [Key in PresentKeys<Schema, Properties>]: JsonOutput<Properties[Key]> } & {
        [Key in Exclude<keyof Properties, PresentKeys<Schema, Properties>>]?: JsonOutput<Properties[Key]>;
      } & JsonOtherKeys<Schema>
    >
  : Schema extends { readonly additionalProperties: infer Others }
    ? Others extends boolean
      ? AnyInput
      : Record<string, JsonOutput<Others>>
    : AnyInput;

/** Keys that are present after parsing: required ones, and those with a default. */
type PresentKeys<Schema, Properties> =
  | (Schema extends { readonly required: readonly (infer Name)[] } ? Extract<keyof Properties, Name> : never)
  | {
      [Key in keyof Properties]: Properties[Key] extends { readonly default: unknown } ? Key : never;
    }[keyof Properties];

/** Other keys are dropped unless the schema asks for them. */
type JsonOtherKeys<Schema> = Schema extends { readonly additionalProperties: infer Others }
  ? Others extends false
    ? unknown
    : { [key: string]: unknown }
  : unknown;

type Flatten<Type> = { -readonly [Key in keyof Type]: Type[Key] };

/**
 * What `execute` is given: the type that parsing with this schema produces. Zod, Standard Schemas, objects of
 * them, and JSON Schemas written in place are read; for anything else it is `Record<string, unknown>`.
 */
export type InferInput<Schema> = unknown extends Schema
  ? Record<string, unknown>
  : [Schema] extends [LibrarySchema]
    ? LibraryOutput<Schema>
    : IsShape<Schema> extends true
      ? ShapeOutput<Schema>
      : JsonRoot<JsonOutput<Schema>>;

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
        : Record<string, unknown>
      : Record<string, unknown>;

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

/** A schema that says nothing still gets an object. */
type JsonRoot<Output> = unknown extends Output ? Record<string, unknown> : Output;

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

/** OpenAPI's way to allow null; the validator heeds it beside a `type` only. */
type JsonNull<Schema> = Schema extends { readonly nullable: true } ? null : never;

/** Distributes over several types. A widened `string` tells nothing. */
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
    ? Record<string, Others extends boolean ? unknown : JsonOutput<Others>>
    : Record<string, unknown>;

/** Keys that are there after parsing: the required ones, and those whose default is filled in. */
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

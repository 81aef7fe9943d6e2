import type { Keywords } from "./merge-schemas.ts";

/** A schema in the one form that fields are drawn from. Children are made when they are asked for: schemas recurse. */
export type FieldNode = FieldFacts & FieldShape;

export interface FieldFacts {
  readonly title?: string;
  readonly description?: string;
  /** `null` is one of the values. */
  readonly nullable: boolean;
  /** Present, even as `undefined`, only when the schema has one. */
  readonly default?: unknown;
  readonly examples: readonly unknown[];
  readonly deprecated: boolean;
  /** Without `$ref` and `allOf`. */
  readonly schema: Keywords;
}

export type Child = () => FieldNode;

export interface Choice {
  readonly value: unknown;
  readonly label: string;
}

export interface Property {
  readonly key: string;
  readonly required: boolean;
  readonly node: Child;
}

export type FieldShape =
  | { readonly kind: "text"; readonly multiline: boolean; readonly format?: string; readonly secret: boolean }
  | { readonly kind: "file"; readonly as: "base64" | "data-url" }
  | { readonly kind: "number"; readonly integer: boolean }
  | { readonly kind: "boolean" }
  | { readonly kind: "choice"; readonly choices: readonly Choice[] }
  | { readonly kind: "choices"; readonly choices: readonly Choice[] }
  | { readonly kind: "object"; readonly properties: readonly Property[]; readonly extra: Child | undefined }
  | { readonly kind: "map"; readonly value: Child }
  | { readonly kind: "list"; readonly item: Child; readonly maxItems?: number }
  | { readonly kind: "tuple"; readonly items: readonly Child[]; readonly rest: Child | undefined }
  | { readonly kind: "union"; readonly options: readonly UnionOption[] }
  | { readonly kind: "any" };

export interface UnionOption {
  readonly label: string;
  readonly node: Child;
}

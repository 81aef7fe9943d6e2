import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  type JsonType,
  pointer,
  schemasIn,
  typeOfValue,
  typesOf,
} from "../schema/visit.ts";
import { describeConstraint, type TakeNote, withRemarks } from "./format-notes.ts";
import { annotationKeywords, mergeAllOf, mergeSchemas } from "./schema-merge.ts";

/** The parts of JSON Schema that a provider accepts. */
export interface ProviderRules {
  /** Accepted keywords by type; all others go into the description. */
  readonly kept: Readonly<Partial<Record<JsonType, readonly string[]>>>;
  /** Whether the provider accepts this value of an accepted keyword. */
  keeps(keyword: string, value: unknown, type: JsonType): boolean;
  /** Further keywords that the code handles, or that a model need not see. */
  readonly handled: readonly string[];
  /** Whether a keyword is left out without a remark. */
  isSilent(keyword: string, value: unknown): boolean;
  /** The text of the note about a keyword that is not kept. */
  readonly notKept: string;
}

const handledByAll = [
  ..."type title description const enum properties required items prefixItems $defs definitions".split(" "),
  ..."$id $anchor $dynamicAnchor $comment deprecated readOnly writeOnly".split(" "),
];

type Json = Record<string, unknown>;

/**
 * Rewrites ("lowers") a schema for one provider, from the root down. The traversal is the same for all
 * providers: it handles a reference first, then `allOf`, alternatives, several types, and one type.
 * Subclasses decide how each is rewritten. Expects a schema from `prepareSchema`.
 */
export abstract class SchemaLowering {
  protected readonly root: JsonSchemaObject;
  protected readonly note: TakeNote;
  protected abstract readonly rules: ProviderRules;
  readonly #maxNodes: number;
  #nodes = 0;

  constructor(root: JsonSchemaObject, note: TakeNote, maxNodes: number) {
    this.root = root;
    this.note = note;
    this.#maxNodes = maxNodes;
  }

  lower(node: JsonSchema, path: string): JsonSchemaObject {
    if (++this.#nodes > this.#maxNodes) throw this.tooLarge(path);
    if (!isRecord(node)) return this.lowerAnyValue(node, path);
    if (typeof node.$ref === "string") {
      const { $ref, ...siblings } = node;
      return this.lowerReference(String($ref), siblings, path);
    }
    if (node.allOf !== undefined) return this.#lowerParts(node, path);
    if (node.anyOf !== undefined || node.oneOf !== undefined) return this.#lowerUnion(node, path);
    const types = typesOf(node);
    if (types === undefined) return this.lowerAnyValue(node, path);
    const present = types.filter((type) => type !== "null");
    if (present.length > 1) return this.#lowerTypes(node, types, path);
    const schema = this.lowerType(node, present[0] ?? "null", path);
    return present.length > 0 && present.length < types.length ? this.toNullable(schema) : schema;
  }

  protected abstract tooLarge(path: string): Error;
  /**
   * Called where the rewritten schema would accept other values than the tool does. May throw, if the
   * provider must not get such a schema.
   */
  protected abstract widen(path: string, keyword: string, reason: string): void;
  /** For a boolean schema, or one without a type. */
  protected abstract lowerAnyValue(node: JsonSchema, path: string): JsonSchemaObject;
  protected abstract lowerReference(
    reference: string,
    siblings: JsonSchemaObject,
    path: string,
  ): JsonSchemaObject;
  protected abstract lowerType(node: JsonSchemaObject, type: JsonType, path: string): JsonSchemaObject;
  protected abstract toNullable(schema: JsonSchemaObject): JsonSchemaObject;
  /** Joins rewritten alternatives; `annotations` are those of the schema that has the alternatives. */
  protected abstract unite(
    branches: readonly JsonSchemaObject[],
    annotations: JsonSchemaObject,
    path: string,
  ): JsonSchemaObject;

  #lowerParts({ allOf, ...rest }: JsonSchemaObject, path: string): JsonSchemaObject {
    const note: TakeNote = (...entry) => {
      if (entry[2] !== "rewritten") this.widen(path, "allOf", "its parts do not merge into one schema");
      this.note(...entry);
    };
    return this.lower(mergeAllOf(rest, schemasIn(allOf), this.root, path, note), path);
  }

  #lowerUnion({ anyOf, oneOf, ...base }: JsonSchemaObject, path: string): JsonSchemaObject {
    const keyword = anyOf !== undefined ? "anyOf" : "oneOf";
    if (anyOf !== undefined && oneOf !== undefined) {
      this.widen(path, "oneOf", "it stands beside `anyOf`");
      this.note(path, "oneOf", "dropped", "It stands beside `anyOf`.");
    }
    if (keyword === "oneOf") this.note(path, "oneOf", "rewritten", "Sent as `anyOf`.");
    const { annotations, constraints } = separated(base);
    const isBare = Object.keys(constraints).length === 0;
    const branches = schemasIn(anyOf ?? oneOf).map((branch, index) => {
      const at = pointer(path, keyword, index);
      const merged = isBare ? branch : mergeSchemas([branch, constraints], this.root);
      if (merged === undefined) this.widen(at, keyword, "a branch does not merge with its parent");
      return this.lower(merged ?? branch, at);
    });
    return this.unite(branches, annotations, path);
  }

  /** Splits a schema with several types into one branch per type. */
  #lowerTypes(node: JsonSchemaObject, types: readonly JsonType[], path: string): JsonSchemaObject {
    const { annotations, constraints } = separated(node);
    this.note(path, "type", "rewritten", "Each type is a branch of `anyOf`.");
    const branches = types.flatMap((type) => {
      if (!Array.isArray(constraints.enum)) return [this.lower({ ...constraints, type }, path)];
      const values = constraints.enum.filter((value) => isOfType(value, type));
      return values.length === 0 ? [] : [this.lower({ ...constraints, type, enum: values }, path)];
    });
    return this.unite(branches, annotations, path);
  }

  /**
   * Returns type, title, description with remarks, and the keywords that the provider accepts for this type.
   */
  protected frame(
    node: JsonSchemaObject,
    type: JsonType,
    path: string,
    remarks: readonly string[] = [],
    handled: readonly string[] = [],
  ): Json {
    const kept = (this.rules.kept[type] ?? []).filter(
      (keyword) => node[keyword] !== undefined && this.rules.keeps(keyword, node[keyword], type),
    );
    const words = this.words(node, path, [...kept, ...handled], remarks);
    return { type, ...words, ...Object.fromEntries(kept.map((keyword) => [keyword, node[keyword]])) };
  }

  /** Returns the title, and the description with remarks on keywords that the provider does not accept. */
  protected words(
    node: JsonSchemaObject,
    path: string,
    kept: readonly string[] = [],
    first: readonly string[] = [],
  ): Json {
    const description = withRemarks(node.description, [...first, ...this.remarks(node, kept, path)]);
    return {
      ...(typeof node.title === "string" && { title: node.title }),
      ...(description !== undefined && { description }),
    };
  }

  protected remarks(node: JsonSchemaObject, kept: readonly string[], path: string): string[] {
    const remarks: string[] = [];
    const { handled, notKept } = this.rules;
    for (const [keyword, value] of Object.entries(node)) {
      if ([...kept, ...handledByAll, ...handled].includes(keyword)) continue;
      const remark = this.rules.isSilent(keyword, value) ? undefined : describeConstraint(keyword, value);
      const isExpendable = keyword === "default" || keyword === "examples" || value === false;
      if (remark !== undefined) remarks.push(remark);
      else if (!isExpendable)
        this.widen(path, keyword, "strict mode does not know it and it is too long to describe");
      this.note(path, keyword, remark === undefined ? "dropped" : "described", notKept);
    }
    return remarks;
  }

  /** Lowers the items of a tuple, and makes a remark about their order. */
  protected places(prefixItems: readonly unknown[], path: string) {
    const places = schemasIn(prefixItems).map((place, index) =>
      this.lower(place, pointer(path, "prefixItems", index)),
    );
    this.note(path, "prefixItems", "described", "Sent as a list; the description gives the order.");
    const order = places.map((place, index) => `${index + 1}. ${labelOf(place)}`).join(", ");
    return { places, order: `items in this order: ${order}` };
  }
}

function separated(node: JsonSchemaObject): { annotations: Json; constraints: Json } {
  const pick = (isAnnotation: boolean) =>
    Object.entries(node).filter(([keyword]) => annotationKeywords.includes(keyword) === isAnnotation);
  return { annotations: Object.fromEntries(pick(true)), constraints: Object.fromEntries(pick(false)) };
}

function labelOf({ title, description, type }: JsonSchemaObject): string {
  const name = typeof title === "string" ? title : description;
  const label = Array.isArray(type) ? type.join(" or ") : String(type ?? "value");
  return typeof name === "string" && name.length <= 60 ? `${label} (${name})` : label;
}

export function isOfType(value: unknown, type: JsonType): boolean {
  const actual = typeOfValue(value);
  return actual === type || (actual === "integer" && type === "number");
}

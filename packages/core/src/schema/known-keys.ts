import { isPlainObject } from "./copy.ts";
import { maximumIssues } from "./issue.ts";
import { type Pattern, toPattern } from "./pattern.ts";
import {
  isRecord,
  itemSchemas,
  type JsonSchemaObject,
  keysOf,
  listOf,
  mayDescribe,
  memberAt,
  namesIn,
  resolveReference,
  valuesOf,
  walkSchemas,
} from "./visit.ts";

/** The top-level keys a schema knows by name or by pattern. */
export interface KnownKeys {
  readonly names: ReadonlySet<string>;
  readonly patterns: readonly Pattern[];
}

/**
 * The known keys of a schema; validation drops all others. Undefined when the schema lists no properties or
 * has rules for other keys: then validation keeps all keys.
 */
export function knownKeys(root: JsonSchemaObject): KnownKeys | undefined {
  const { isClosed, names, patterns } = readKeyPlace(root, [root], undefined);
  return isClosed ? { names, patterns } : undefined;
}

/** The keys of a value that are not known, if there are any. */
export function unknownKeys(value: object, { names, patterns }: KnownKeys): string[] | undefined {
  let unknown: string[] | undefined;
  for (const key in value) {
    if (names.has(key) || patterns.some((pattern) => pattern.test(key))) continue;
    if (unknown === undefined) unknown = [key];
    else unknown.push(key);
  }
  return unknown;
}

/**
 * Whether a schema without references has `additionalProperties` wherever it lists properties. Then a
 * `KeyGuide` would find no unlisted key in any value.
 */
export function isOpenThroughout(root: JsonSchemaObject): boolean {
  let isOpen = true;
  walkSchemas(root, ({ schema }) => {
    isOpen &&= !isRecord(schema.properties) || schema.additionalProperties !== undefined;
    return isOpen;
  });
  return isOpen;
}

export interface FoundKey {
  /** The path of the object that has the key. */
  readonly parent: readonly (string | number)[];
  readonly key: string;
  readonly value: unknown;
  readonly known?: ReadonlySet<string>;
}

interface FoundKeys {
  /** Keys that no part of the schema lists; at most `maximumIssues`. */
  readonly unlisted: FoundKey[];
  /** Keys that only some of the possible alternatives list. */
  readonly doubtful: FoundKey[];
}

/**
 * Finds the keys of a value, at any depth, that a JSON Schema does not list. Checks an object only if the
 * schema lists its properties without a rule for other keys; if the schema has alternatives, only if this is
 * so in every alternative that fits the object. Reads the schema on demand and caches.
 */
export class KeyGuide {
  readonly #root: JsonSchemaObject;
  readonly #places = new WeakMap<object, KeyPlace>();

  constructor(root: JsonSchemaObject) {
    this.#root = root;
  }

  /** The value must be a finite tree. Instances of classes are not entered. */
  find(value: unknown): FoundKeys {
    const found: FoundKeys = { unlisted: [], doubtful: [] };
    const visit = (schemas: readonly unknown[], part: object, path: readonly (string | number)[]) => {
      if (schemas.length === 0 || !(Array.isArray(part) || isPlainObject(part))) return;
      const place = this.#placeOf(schemas, part);
      // An item that matches `contains` need not match anything else.
      if (Array.isArray(part) && place.parts.some((schema) => schema.contains !== undefined)) return;
      for (const [name, member] of Object.entries(part)) {
        const key = Array.isArray(part) ? Number(name) : name;
        if (typeof key === "string" && place.isClosed && !place.certain.has(key)) {
          if (found.unlisted.length >= maximumIssues) return;
          const isListed = place.names.has(key) || place.patterns.some((pattern) => pattern.test(key));
          const list = isListed ? found.doubtful : found.unlisted;
          list.push({ parent: path, key, value: member, known: place.names });
        }
        if (typeof member !== "object" || member === null) continue;
        const below = place.parts.flatMap((schema) =>
          typeof key === "number" ? itemSchemas(schema, key) : memberSchemas(schema, key),
        );
        visit(below, member, [...path, key]);
      }
    };
    if (typeof value === "object" && value !== null) visit([this.#root], value, []);
    return found;
  }

  #placeOf(schemas: readonly unknown[], value: object): KeyPlace {
    const only = schemas.length === 1 && isRecord(schemas[0]) ? schemas[0] : undefined;
    const known = only && this.#places.get(only);
    if (known !== undefined) return known;
    const place = readKeyPlace(this.#root, schemas, value);
    if (only !== undefined && place.isFixed) this.#places.set(only, place);
    return place;
  }
}

function memberSchemas(part: JsonSchemaObject, key: string): unknown[] {
  const found: unknown[] = [];
  if (isRecord(part.properties) && Object.hasOwn(part.properties, key)) found.push(part.properties[key]);
  for (const pattern of keysOf(part.patternProperties)) {
    if (toPattern(pattern).test(key)) found.push(memberAt(part.patternProperties, [pattern]));
  }
  if (found.length > 0) return found;
  return [part.additionalProperties, part.unevaluatedProperties].filter((other) => other !== undefined);
}

/**
 * What the schemas of one object say about its keys. Of an array, only `parts` is used, to find the schemas
 * of its items.
 */
interface KeyPlace {
  readonly parts: JsonSchemaObject[];
  readonly names: Set<string>;
  /** The names that do not depend on the chosen alternative. */
  readonly certain: Set<string>;
  readonly patterns: Pattern[];
  /** Whether unlisted keys count as unknown. False in doubt. */
  isClosed: boolean;
  /** Whether this description is the same for every value, so that it can be cached. */
  isFixed: boolean;
}

/** Keywords with rules for keys that a list of names cannot express. */
const openingKeywords =
  "additionalProperties unevaluatedProperties propertyNames $dynamicRef $recursiveRef".split(" ");
/** Keywords that look at all keys of an object. Dropping an unknown key could change whether the object is valid. */
const countingKeywords = ["minProperties", "maxProperties", "not"];

/**
 * Reads the key rules of schemas that all apply to a value. Without a value, reads the rules that hold for
 * any value: then a list of properties in an alternative does not count, because another alternative may be
 * meant.
 */
function readKeyPlace(
  root: JsonSchemaObject,
  schemas: readonly unknown[],
  value: object | undefined,
): KeyPlace {
  const place: KeyPlace = {
    parts: [],
    names: new Set(),
    certain: new Set(),
    patterns: [],
    isClosed: false,
    isFixed: true,
  };
  const opening = value === undefined ? [...openingKeywords, ...countingKeywords] : openingKeywords;
  const seen = new Map<unknown, boolean>();
  let isOpen = false;
  const lists = schemas.map((schema) => collect(schema, false));
  place.isClosed = !isOpen && lists.every(Boolean);
  return place;

  /** Returns whether the schema lists properties for every value that it accepts. */
  function collect(schema: unknown, isAlternative: boolean): boolean {
    if (!isRecord(schema)) return false;
    const before = seen.get(schema);
    if (before !== undefined) return before;
    seen.set(schema, false);
    place.parts.push(schema);
    if (opening.some((keyword) => schema[keyword] !== undefined)) isOpen = true;
    for (const name of mentioned(schema)) {
      place.names.add(name);
      if (!isAlternative) place.certain.add(name);
    }
    for (const pattern of keysOf(schema.patternProperties)) place.patterns.push(toPattern(pattern));
    let lists = isRecord(schema.properties);
    if (typeof schema.$ref === "string") {
      const target = resolveReference(root, schema.$ref);
      if (target === undefined) isOpen = true;
      else if (collect(target, isAlternative)) lists = true;
    }
    for (const part of listOf(schema.allOf)) if (collect(part, isAlternative)) lists = true;
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = fittingBranches(listOf(schema[keyword]));
      const doListAll = branches.map((branch) => collect(branch, isAlternative || branches.length > 1));
      if (value !== undefined && branches.length > 0 && doListAll.every(Boolean)) lists = true;
    }
    const dependent = [...valuesOf(schema.dependentSchemas), ...valuesOf(schema.dependencies)];
    for (const part of [schema.then, schema.else, ...dependent]) collect(part, isAlternative);
    // `if` mentions keys, but does not describe their values, so it is not among the parts.
    const described = place.parts.length;
    collect(schema.if, isAlternative);
    place.parts.length = described;
    seen.set(schema, lists);
    return lists;
  }

  function fittingBranches(branches: readonly unknown[]): readonly unknown[] {
    if (branches.length < 2 || value === undefined) return branches;
    place.isFixed = false;
    const fitting = branches.filter((branch) => mayDescribe(branch, value, root));
    return fitting.length === 0 ? branches : fitting;
  }
}

/** All key names that the schema mentions outside of its subschemas. */
function mentioned(schema: JsonSchemaObject): string[] {
  const { properties, required, dependentRequired, dependencies, dependentSchemas } = schema;
  return [
    ...[properties, dependentRequired, dependencies, dependentSchemas].flatMap(keysOf),
    ...[required, ...valuesOf(dependentRequired), ...valuesOf(dependencies)].flatMap(namesIn),
  ];
}

/**
 * The keys of a value, at any depth, that are missing after parsing. Compares only parts that are still an
 * object, or an array of the same length.
 */
export function lostKeys(value: unknown, parsed: unknown): FoundKey[] {
  const lost: FoundKey[] = [];
  compare(value, parsed, []);
  return lost;

  function compare(before: unknown, after: unknown, path: readonly (string | number)[]): void {
    if (Array.isArray(before)) {
      if (!Array.isArray(after) || before.length !== after.length) return;
      before.forEach((item, index) => {
        compare(item, after[index], [...path, index]);
      });
      return;
    }
    if (!isPlainObject(before) || !isPlainObject(after)) return;
    for (const key of Object.keys(before)) {
      if (Object.hasOwn(after, key)) compare(before[key], after[key], [...path, key]);
      else if (before[key] !== undefined) lost.push({ parent: path, key, value: before[key] });
    }
  }
}

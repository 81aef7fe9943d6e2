import { isRecord, keysOf, listOf } from "./json-schema-parts.ts";
import { type KeyPlace, readKeyPlace } from "./key-place.ts";
import { toPattern } from "./pattern.ts";
import { maximumIssues } from "./schema-issue.ts";
import type { JsonSchemaObject } from "./types.ts";

export interface FoundKey {
  /** The path of the object that has the key. */
  readonly parent: readonly (string | number)[];
  readonly key: string;
  readonly value: unknown;
  /** The keys that are listed there, if they can be told. */
  readonly known?: ReadonlySet<string>;
}

export interface FoundKeys {
  /** Keys that no part of the schema lists; at most as many as are worth telling. */
  readonly unlisted: FoundKey[];
  /** Keys that only some of several alternatives list, all of which the value may mean. */
  readonly doubtful: FoundKey[];
}

/**
 * Tells which keys of a value, at any depth, a JSON Schema does not list. An object is looked at where the schema
 * lists its properties and says nothing about other keys; for alternatives, where all that fit do. Reads the
 * schema as it goes, and remembers what it read.
 */
export class KeyGuide {
  readonly #root: JsonSchemaObject;
  readonly #places = new WeakMap<object, KeyPlace>();

  constructor(root: JsonSchemaObject) {
    this.#root = root;
  }

  /** For a value that is a finite tree. Instances of classes are not entered. */
  find(value: unknown): FoundKeys {
    const found: FoundKeys = { unlisted: [], doubtful: [] };
    if (typeof value === "object" && value !== null) this.#visit([this.#root], value, [], found);
    return found;
  }

  #visit(schemas: readonly unknown[], value: object, path: readonly (string | number)[], found: FoundKeys) {
    if (Array.isArray(value)) return this.#visitItems(schemas, value, path, found);
    const prototype = Object.getPrototypeOf(value);
    if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return;
    const place = this.#placeOf(schemas, value);
    for (const key in value) {
      const member = (value as Record<string, unknown>)[key]; // Any object may be read by its own keys.
      if (place.isClosed && !place.certain.has(key)) {
        const list = isListed(place, key) ? found.doubtful : found.unlisted;
        if (found.unlisted.length >= maximumIssues) return;
        list.push({ parent: path, key, value: member, known: place.names });
      }
      if (typeof member !== "object" || member === null) continue;
      const below = schemasOf(place, key);
      if (below.length > 0) this.#visit(below, member, [...path, key], found);
    }
  }

  #visitItems(
    schemas: readonly unknown[],
    value: readonly unknown[],
    path: readonly (string | number)[],
    found: FoundKeys,
  ) {
    const { parts } = this.#placeOf(schemas, value);
    // An item that `contains` describes need not fit any other description.
    if (parts.some((part) => part.contains !== undefined)) return;
    const listed = Math.max(0, ...parts.map((part) => listedItems(part).length));
    const rest = parts.flatMap((part) => itemSchemas(part, listed));
    value.forEach((item, index) => {
      if (typeof item !== "object" || item === null) return;
      const below = index < listed ? parts.flatMap((part) => itemSchemas(part, index)) : rest;
      if (below.length > 0) this.#visit(below, item, [...path, index], found);
    });
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

function isListed(place: KeyPlace, key: string): boolean {
  return place.names.has(key) || place.patterns.some((pattern) => pattern.test(key));
}

/** The schemas of a member. Those of listed keys are remembered; others may have any number of names. */
function schemasOf(place: KeyPlace, key: string): readonly unknown[] {
  const known = place.members.get(key);
  if (known !== undefined) return known;
  const schemas = place.parts.flatMap((part) => memberSchemas(part, key));
  if (place.names.has(key)) place.members.set(key, schemas);
  return schemas;
}

function memberSchemas(part: JsonSchemaObject, key: string): unknown[] {
  const found: unknown[] = [];
  if (isRecord(part.properties) && Object.hasOwn(part.properties, key)) found.push(part.properties[key]);
  for (const pattern of keysOf(part.patternProperties)) {
    if (toPattern(pattern).test(key)) found.push((part.patternProperties as JsonSchemaObject)[pattern]); // It has keys.
  }
  if (found.length > 0) return found;
  return [part.additionalProperties, part.unevaluatedProperties].filter((other) => other !== undefined);
}

function itemSchemas(part: JsonSchemaObject, index: number): unknown[] {
  const listed = listedItems(part);
  if (index < listed.length) return [listed[index]];
  const others = Array.isArray(part.items) ? part.additionalItems : part.items;
  return [others, part.unevaluatedItems].filter((other) => other !== undefined);
}

/** Until 2020-12, `items` could be a list. */
function listedItems(part: JsonSchemaObject): readonly unknown[] {
  return listOf(part.prefixItems ?? part.items);
}

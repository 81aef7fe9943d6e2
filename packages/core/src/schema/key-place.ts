import { followed, isRecord, keysOf, listOf, namesIn, valuesOf } from "./json-schema-parts.ts";
import { type Pattern, toPattern } from "./pattern.ts";
import type { JsonSchemaObject } from "./types.ts";

/** What a schema says about the keys of one object, or where the schemas of one array's items are. */
export interface KeyPlace {
  readonly parts: JsonSchemaObject[];
  readonly names: Set<string>;
  /** Those of the names that do not depend on which alternative was meant. */
  readonly certain: Set<string>;
  readonly patterns: Pattern[];
  /** The schemas of members, filled in as they are asked for. */
  readonly members: Map<string, readonly unknown[]>;
  /** Whether a key that is not listed is unknown. Whatever is in doubt is not. */
  isClosed: boolean;
  /** Whether all this is the same for every value. */
  isFixed: boolean;
}

/** Keywords that speak about keys in ways a list of names cannot answer for. */
const openKeywords = [
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
  "$dynamicRef",
  "$recursiveRef",
];

/** Reads all that the schemas, which hold at once, say about a value. */
export function readKeyPlace(root: JsonSchemaObject, schemas: readonly unknown[], value: object): KeyPlace {
  const place: KeyPlace = {
    parts: [],
    names: new Set(),
    certain: new Set(),
    patterns: [],
    members: new Map(),
    isClosed: false,
    isFixed: true,
  };
  const seen = new Map<unknown, boolean>();
  let isOpen = false;
  const lists = schemas.map((schema) => collect(schema, false));
  place.isClosed = !isOpen && lists.every(Boolean);
  return place;

  /** Returns whether every value of the schema goes through a list of properties. */
  function collect(schema: unknown, isAlternative: boolean): boolean {
    if (!isRecord(schema)) return false;
    const before = seen.get(schema);
    if (before !== undefined) return before;
    seen.set(schema, false);
    place.parts.push(schema);
    if (openKeywords.some((keyword) => schema[keyword] !== undefined)) isOpen = true;
    for (const name of mentioned(schema)) add(name, isAlternative);
    for (const pattern of keysOf(schema.patternProperties)) place.patterns.push(toPattern(pattern));
    let lists = isRecord(schema.properties);
    if (typeof schema.$ref === "string") {
      const target = followed(root, schema.$ref);
      if (target === undefined) isOpen = true;
      else if (collect(target, isAlternative)) lists = true;
    }
    for (const part of listOf(schema.allOf)) if (collect(part, isAlternative)) lists = true;
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = fittingBranches(listOf(schema[keyword]));
      const doListAll = branches.map((branch) => collect(branch, isAlternative || branches.length > 1));
      if (branches.length > 0 && doListAll.every(Boolean)) lists = true;
    }
    const dependent = [...valuesOf(schema.dependentSchemas), ...valuesOf(schema.dependencies)];
    for (const part of [schema.then, schema.else, ...dependent]) collect(part, isAlternative);
    // A condition knows its keys, but describes no member of the value.
    const described = place.parts.length;
    collect(schema.if, isAlternative);
    place.parts.length = described;
    seen.set(schema, lists);
    return lists;
  }

  function add(name: string, isAlternative: boolean): void {
    place.names.add(name);
    if (!isAlternative) place.certain.add(name);
  }

  function fittingBranches(branches: readonly unknown[]): readonly unknown[] {
    if (branches.length < 2) return branches;
    place.isFixed = false;
    const fitting = branches.filter((branch) => mayFit(root, branch, value));
    return fitting.length === 0 ? branches : fitting;
  }
}

/** Whether nothing at the surface of a schema rules the value out: its type, the keys it needs, its constants. */
function mayFit(root: JsonSchemaObject, schema: unknown, value: object): boolean {
  let branch = schema;
  for (let step = 0; step < 10 && isRecord(branch) && typeof branch.$ref === "string"; step++)
    branch = followed(root, branch.$ref);
  if (!isRecord(branch)) return branch !== false;
  const type = Array.isArray(value) ? "array" : "object";
  if (branch.type !== undefined && branch.type !== type && !listOf(branch.type).includes(type)) return false;
  if (Array.isArray(value)) return true;
  if (namesIn(branch.required).some((name) => !Object.hasOwn(value, name))) return false;
  const members = value as Record<string, unknown>; // An object that is no array.
  return Object.entries(branch.properties ?? {}).every(
    ([name, part]) => !Object.hasOwn(members, name) || allowsScalar(part, members[name]),
  );
}

function allowsScalar(schema: unknown, value: unknown): boolean {
  if (!isRecord(schema) || typeof value === "object") return true;
  if ("const" in schema) return schema.const === value;
  return !Array.isArray(schema.enum) || schema.enum.includes(value);
}

/** The names that a schema itself speaks of. */
function mentioned(schema: JsonSchemaObject): string[] {
  return [
    ...keysOf(schema.properties),
    ...namesIn(schema.required),
    ...keysOf(schema.dependentRequired),
    ...valuesOf(schema.dependentRequired).flatMap(namesIn),
    ...keysOf(schema.dependencies),
    ...valuesOf(schema.dependencies).flatMap(namesIn),
    ...keysOf(schema.dependentSchemas),
  ];
}

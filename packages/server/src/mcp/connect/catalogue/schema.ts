import type { JsonSchemaObject } from "@toolrack/core";
import { jsonSchemaFlaws, type SchemaFlaw } from "@toolrack/core/internal";
import { arrangementOf, referenceKeywords, sameValueKeywords } from "@toolrack/core/internal/schema";
import { isRecord } from "../../../helpers/index.ts";

/** A part of a tool's schemas that nothing is checked against here: the server checks what it is given by itself. */
export interface UncheckedItem {
  /** Such as `inputSchema.properties.age.pattern`. */
  readonly part: string;
  readonly reason: string;
}

const MOST_UNCHECKED = 20;

/** A definition never changes, it is followed by another; so each is looked at once. */
const known = new WeakMap<object, LooseSchema>();

/**
 * A schema of a server as it is shown and gone by here: without texts that nobody sees, and without the parts that a
 * validator, that of a client too, cannot use. A client may refuse a whole list of tools for one of them.
 */
export function usableSchema(given: JsonSchemaObject): LooseSchema {
  let usable = known.get(given);
  if (usable === undefined) {
    // It has the form of what it is made from.
    usable = loosenSchema(cleanSchema(given) as JsonSchemaObject);
    known.set(given, usable);
  }
  return usable;
}

export function uncheckedIn(tool: {
  readonly inputSchema: JsonSchemaObject;
  readonly outputSchema?: JsonSchemaObject;
}): UncheckedItem[] {
  const { inputSchema, outputSchema } = tool;
  const items = Object.entries({ inputSchema, outputSchema }).flatMap(([name, schema]) =>
    schema === undefined
      ? []
      : usableSchema(schema).unchecked.map(({ path, problem }) => ({
          part: shortened(path === "" ? name : `${name}.${path}`),
          reason: shortened(`It ${problem}`),
        })),
  );
  return items.slice(0, MOST_UNCHECKED);
}

const LONGEST_MESSAGE = 400;

/** A message may name a place in a schema of a server, which may be as long as the server likes. */
export function shortened(message: string): string {
  if (message.length <= LONGEST_MESSAGE) return message;
  const half = LONGEST_MESSAGE / 2;
  return `${message.slice(0, half)} … ${message.slice(-half)}`;
}

/**
 * Characters that a person does not see and a model reads: controls, blanks without width, direction marks, tags, and
 * the selectors of variants, of which only the one that emoji need is left.
 */
const invisible = /(?![\t\n\r])(?:\p{Cc}|\p{Cf}|[\uFE00-\uFE0E]|[\u{E0100}-\u{E01EF}])/gu;
const comment = /<!--[\s\S]*?(?:-->|$)/g;

/** The text as a person would see it: what is hidden in a description is meant for the model alone. */
export function cleanText(text: string): string {
  let clean = text.replace(invisible, "");
  for (let round = 0; round < MOST_ROUNDS && clean.includes("<!--"); round++) {
    clean = clean.replace(comment, "");
  }
  const rest = clean.indexOf("<!--");
  return (rest === -1 ? clean : clean.slice(0, rest)).trim();
}

/** Keywords whose values are read and not gone by. */
const cleaned: ReadonlySet<string> = new Set([
  "description",
  "title",
  "$comment",
  "default",
  "examples",
  "example",
]);
/** Keywords whose members are named by the author of the schema. */
const named: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "dependentSchemas",
  "$defs",
  "definitions",
]);
/** Deeper ones are refused where tools are taken in. */
const DEEPEST = 200;

/** The same for everything inside a schema that is only said. What validation goes by is left as it is. */
export function cleanSchema(schema: unknown, depth = 0): unknown {
  if (depth > DEEPEST || typeof schema !== "object" || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map((item) => cleanSchema(item, depth + 1));
  return mapped(schema, (key, value) => {
    if (cleaned.has(key)) return cleanValue(value, depth + 1);
    if (!named.has(key) || typeof value !== "object" || value === null) return cleanSchema(value, depth + 1);
    return mapped(value, (_, member) => cleanSchema(member, depth + 2));
  });
}

function cleanValue(value: unknown, depth: number): unknown {
  if (typeof value === "string") return cleanText(value);
  if (depth > DEEPEST || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => cleanValue(item, depth + 1));
  return mapped(value, (_, member) => cleanValue(member, depth + 1));
}

function mapped(record: object, change: (key: string, value: unknown) => unknown): object {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(key, value)]));
}

/** A part of a schema that no value is checked against. */
interface UncheckedPart {
  /** Such as `properties.age.pattern`; empty for the schema itself. */
  readonly path: string;
  /** Goes on where the name of the part ends. */
  readonly problem: string;
}

interface LooseSchema {
  /** The schema itself when nothing had to be taken out of it. */
  readonly schema: JsonSchemaObject;
  readonly unchecked: readonly UncheckedPart[];
}

type Path = readonly (string | number)[];

interface Loosening {
  readonly flaws: ReadonlyMap<object, readonly SchemaFlaw[]>;
  /** Whether a reference makes what stands beside it void. */
  readonly isReferenceAlone: boolean;
  /** Problems by path. */
  readonly unchecked: Map<string, string>;
}

interface Loosened {
  readonly schema: unknown;
  /** It may accept more than was written, by itself or by what it refers to. */
  readonly isLoose: boolean;
  /** What is left out may have spoken of keys that nothing else knows. */
  readonly isOpen: boolean;
}

/** What is taken out may leave other references without a target. */
const MOST_ROUNDS = 8;

/**
 * A schema that somebody else goes by, made such that every validator can use it. What cannot be used is left out at its
 * place, with whatever would then refuse values that the whole schema accepts; all the rest is checked as it is written.
 */
export function loosenSchema(given: JsonSchemaObject): LooseSchema {
  const unchecked = new Map<string, string>();
  const answer = (schema: JsonSchemaObject) => ({
    schema,
    unchecked: Array.from(unchecked, ([path, problem]) => ({ path, problem })),
  });
  let schema = given;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const flaws = jsonSchemaFlaws(schema);
    if (flaws.length === 0) return answer(schema);
    const loosening = {
      flaws: Map.groupBy(flaws, (flaw) => flaw.schema),
      isReferenceAlone: /draft-0[3-7]/.test(String(given.$schema)),
      unchecked,
    };
    // The root is a schema, and so is what is made of it.
    schema = loosen(schema, [], loosening).schema as JsonSchemaObject;
  }
  unchecked.set("", "has too many parts that cannot be used.");
  return answer(said(given));
}

function loosen(schema: JsonSchemaObject, path: Path, loosening: Loosening): Loosened {
  const flaws = loosening.flaws.get(schema) ?? [];
  for (const { steps = [], problem } of flaws) {
    const place = [...path, ...steps].join(".");
    if (!loosening.unchecked.has(place)) loosening.unchecked.set(place, problem);
  }
  const dropped = new Set(flaws.map(({ steps }) => JSON.stringify(steps ?? [])));
  const isDropped = (...steps: Path) => dropped.has(JSON.stringify(steps));
  if (isDropped()) return { schema: path.length === 0 ? said(schema) : true, isLoose: true, isOpen: true };
  if (loosening.isReferenceAlone && isDropped("$ref")) {
    return { schema: said(schema), isLoose: true, isOpen: true };
  }
  const copy: Record<string, unknown> = {};
  const loose = new Set<string>();
  let isOpen = flaws.some(({ steps }) => keyKeywords.has(String(steps?.[0])));
  const member = (part: unknown, keyword: string, ...name: Path): unknown => {
    if (name.length > 0 && isDropped(keyword, ...name)) {
      loose.add(keyword);
      return true;
    }
    if (!isRecord(part)) return part;
    const loosened = loosen(part, [...path, keyword, ...name], loosening);
    if (loosened.isLoose) loose.add(keyword);
    isOpen ||= loosened.isOpen && sameValue.has(keyword);
    return loosened.schema;
  };
  for (const [keyword, value] of Object.entries(schema)) {
    if (!isDropped(keyword)) put(copy, keyword, loosenKeyword(keyword, value, member, isDropped));
  }
  loosenOpposites(copy, loose);
  loosenRest(copy, flaws, isOpen);
  const refers = referenceKeywords.some((keyword) => copy[keyword] !== undefined);
  return { schema: copy, isLoose: flaws.length > 0 || loose.size > 0 || refers, isOpen };
}

function loosenKeyword(
  keyword: string,
  value: unknown,
  member: (part: unknown, keyword: string, ...name: Path) => unknown,
  isDropped: (...steps: Path) => boolean,
): unknown {
  const arrangement = keyword === "dependentRequired" ? "map" : arrangementOf(keyword);
  if (arrangement === undefined) return value;
  if (Array.isArray(value)) return value.map((part, index) => member(part, keyword, index));
  if (arrangement !== "map" || !isRecord(value)) return member(value, keyword);
  const members = Object.entries(value).map(([name, part]) => [name, member(part, keyword, name)] as const);
  // `true` has no meaning among names, and by a pattern that is none nobody knows which keys it is about.
  const isWithout = keyword === "patternProperties" || keyword === "dependentRequired";
  return Object.fromEntries(members.filter(([name]) => !isWithout || !isDropped(keyword, name)));
}

/** Keywords whose schemas are about the same value, or may be referred to by one that is. */
const sameValue: ReadonlySet<string> = new Set([...sameValueKeywords, "$defs", "definitions"]);

/** Keywords that may speak of keys by name. */
const keyKeywords: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "additionalProperties",
  "required",
  "dependentRequired",
  ...referenceKeywords,
  ...sameValue,
]);

/** These refuse more when a part of them accepts more. */
function loosenOpposites(copy: Record<string, unknown>, loose: ReadonlySet<string>): void {
  if (loose.has("not")) delete copy.not;
  if (loose.has("contains")) delete copy.maxContains;
  if (loose.has("if")) for (const keyword of ["if", "then", "else"]) delete copy[keyword];
  if (loose.has("oneOf")) {
    const { oneOf, allOf } = copy;
    delete copy.oneOf;
    if (copy.anyOf === undefined) copy.anyOf = oneOf;
    else copy.allOf = [...(Array.isArray(allOf) ? allOf : []), { anyOf: oneOf }];
  }
}

/** Those that are about what no other keyword speaks of: it is not known any more what that is. */
function loosenRest(copy: Record<string, unknown>, flaws: readonly SchemaFlaw[], isOpen: boolean): void {
  // A member that is left out of a list has left its place to anything.
  const isLost = (keyword: string) =>
    flaws.some(({ steps = [] }) => steps[0] === keyword && steps.length === 1);
  const isAnyPattern = flaws.some(({ steps }) => steps?.[0] === "patternProperties");
  const wasClosed = copy.unevaluatedProperties !== undefined;
  delete copy.unevaluatedProperties;
  delete copy.unevaluatedItems;
  if (isLost("prefixItems") || isLost("items")) {
    delete copy.items;
    delete copy.additionalItems;
  }
  if (isLost("properties") || isAnyPattern) copy.additionalProperties = true;
  // Or else keys that nobody lists would be taken out of a value.
  else if ((isOpen || wasClosed) && isRecord(copy.properties)) copy.additionalProperties ??= true;
}

/** What it tells a reader; nothing of it is checked. */
function said(schema: JsonSchemaObject): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const keyword of ["title", "description"]) {
    if (typeof schema[keyword] === "string") kept[keyword] = schema[keyword];
  }
  return kept;
}

function put(copy: Record<string, unknown>, keyword: string, value: unknown): void {
  // `__proto__` is a key like any other in JSON.
  Object.defineProperty(copy, keyword, { value, enumerable: true, configurable: true, writable: true });
}

import type { JsonSchemaObject } from "@toolrack/core";
import { jsonSchemaFlaws, type SchemaFlaw } from "@toolrack/core/internal";
import { arrangementOf, referenceKeywords, sameValueKeywords } from "@toolrack/core/internal/schema";
import { defined, isRecord } from "../../../helpers/index.ts";

/** A part of a tool's schemas that the rack does not check. The server still checks its input itself. */
export interface UncheckedItem {
  /** The path of the part, such as `inputSchema.properties.age.pattern`. */
  readonly part: string;
  readonly reason: string;
}

const MOST_UNCHECKED = 20;

/** The usable form of each schema. A changed schema is a new object, so each schema is processed once. */
const known = new WeakMap<object, LooseSchema>();

/**
 * A server's schema without hidden text and without parts that validators cannot use. A client may refuse a whole list of
 * tools because of one such part.
 */
export function usableSchema(given: JsonSchemaObject): LooseSchema {
  // `cleanSchema` keeps the shape.
  const usable = known.get(given) ?? loosenSchema(cleanSchema(given) as JsonSchemaObject);
  known.set(given, usable);
  return usable;
}

export function uncheckedIn(tool: {
  readonly inputSchema: JsonSchemaObject;
  readonly outputSchema?: JsonSchemaObject;
}): UncheckedItem[] {
  const { inputSchema, outputSchema } = tool;
  const items = Object.entries(defined({ inputSchema, outputSchema })).flatMap(([name, schema]) =>
    usableSchema(schema).unchecked.map(({ path, problem }) => ({
      part: shortened(path === "" ? name : `${name}.${path}`),
      reason: shortened(`It ${problem}`),
    })),
  );
  return items.slice(0, MOST_UNCHECKED);
}

const LONGEST_MESSAGE = 400;

/** Shortens a message. It may contain a path in a server's schema, which can be very long. */
export function shortened(message: string): string {
  if (message.length <= LONGEST_MESSAGE) return message;
  const half = LONGEST_MESSAGE / 2;
  return `${message.slice(0, half)} … ${message.slice(-half)}`;
}

/**
 * Characters that people do not see but models read: control characters, zero-width spaces, direction marks, tags, and
 * variation selectors except the one that emoji need.
 */
const invisible = /(?![\t\n\r])(?:\p{Cc}|\p{Cf}|[\uFE00-\uFE0E]|[\u{E0100}-\u{E01EF}])/gu;
const comment = /<!--[\s\S]*?(?:-->|$)/g;

/** Removes invisible characters and HTML comments: a server could hide instructions for the model in them. */
export function cleanText(text: string): string {
  let clean = text.replace(invisible, "");
  for (let round = 0; round < MOST_ROUNDS && clean.includes("<!--"); round++) {
    clean = clean.replace(comment, "");
  }
  const rest = clean.indexOf("<!--");
  return (rest === -1 ? clean : clean.slice(0, rest)).trim();
}

/** Keywords whose values people and models read, and validation does not use. */
const textKeywords: ReadonlySet<string> = new Set([
  ...["description", "title", "$comment", "default", "examples", "example"],
]);
/** Keywords whose members have names that the author of the schema chose. */
const mapKeywords: ReadonlySet<string> = new Set([
  ...["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"],
]);
/** Parts of a schema below this many levels are not cleaned. Core refuses schemas long before they are nested so deep. */
const DEEPEST = 1_000;

/**
 * Cleans all texts in a schema that are only read. Keeps everything that validation uses. `role`: what the
 * value is in the schema: a schema itself, an object whose keys the author of the schema chose (`names`), or a
 * value whose texts are all only read (`text`).
 */
export function cleanSchema(
  value: unknown,
  role: "schema" | "names" | "text" = "schema",
  depth = 0,
): unknown {
  if (role === "text" && typeof value === "string") return cleanText(value);
  if (depth > DEEPEST || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => cleanSchema(item, role, depth + 1));
  const roleOf = (key: string) => {
    if (role !== "schema") return role === "names" ? "schema" : role;
    return textKeywords.has(key) ? "text" : mapKeywords.has(key) ? "names" : "schema";
  };
  const members = Object.entries(value).map(([key, inner]) => [
    key,
    cleanSchema(inner, roleOf(key), depth + 1),
  ]);
  return Object.fromEntries(members);
}

/** A part of a schema that is not checked. */
interface UncheckedPart {
  /** The path of the part, such as `properties.age.pattern`; empty for the schema itself. */
  readonly path: string;
  /** Continues a sentence that begins with the name of the part. */
  readonly problem: string;
}

interface LooseSchema {
  /** The given schema itself when nothing had to be removed. */
  readonly schema: JsonSchemaObject;
  readonly unchecked: readonly UncheckedPart[];
}

type Path = readonly (string | number)[];

interface Loosening {
  readonly flaws: ReadonlyMap<object, readonly SchemaFlaw[]>;
  /** Whether `$ref` makes validators ignore the keywords beside it. */
  readonly isReferenceAlone: boolean;
  /** Problems by path. */
  readonly unchecked: Map<string, string>;
}

interface Loosened {
  readonly schema: unknown;
  /** Whether the schema may accept more than the original, itself or through a reference. */
  readonly isLoose: boolean;
  /** Whether a removed part may have named properties that no other part names. */
  readonly isOpen: boolean;
}

/**
 * How often unusable parts are searched for and removed. Removing a part of a schema may leave references
 * without a target, and removing an HTML comment may make another one complete.
 */
const MOST_ROUNDS = 8;

/**
 * Makes a schema usable for every validator. Removes the unusable parts, and also those that would then refuse values
 * which the original accepts. The rest stays as it is.
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
    // The loosened root is an object too.
    schema = loosen(schema, [], loosening).schema as JsonSchemaObject;
  }
  unchecked.set("", "has too many parts that cannot be used.");
  return answer(textOnly(given));
}

function loosen(schema: JsonSchemaObject, path: Path, loosening: Loosening): Loosened {
  const flaws = loosening.flaws.get(schema) ?? [];
  for (const { steps = [], problem } of flaws) {
    const place = [...path, ...steps].join(".");
    if (!loosening.unchecked.has(place)) loosening.unchecked.set(place, problem);
  }
  const dropped = new Set(flaws.map(({ steps }) => JSON.stringify(steps ?? [])));
  const isDropped = (...steps: Path) => dropped.has(JSON.stringify(steps));
  if (isDropped())
    return { schema: path.length === 0 ? textOnly(schema) : true, isLoose: true, isOpen: true };
  if (loosening.isReferenceAlone && isDropped("$ref")) {
    return { schema: textOnly(schema), isLoose: true, isOpen: true };
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
  // In these two keywords a removed member is left out, not replaced by `true`: a list of names cannot be
  // `true`, and nobody knows which keys an invalid pattern means.
  const isWithout = keyword === "patternProperties" || keyword === "dependentRequired";
  return Object.fromEntries(members.filter(([name]) => !isWithout || !isDropped(keyword, name)));
}

/** Keywords whose schemas apply to the same value, or may be referenced by one that does. */
const sameValue: ReadonlySet<string> = new Set([...sameValueKeywords, "$defs", "definitions"]);

/** Keywords that may name properties. */
const keyKeywords: ReadonlySet<string> = new Set([
  ...["properties", "patternProperties", "additionalProperties", "required", "dependentRequired"],
  ...referenceKeywords,
  ...sameValue,
]);

/** Loosens keywords that refuse more when a part of them accepts more. */
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

/**
 * Loosens the keywords that apply to all properties or items that no other keyword mentions, because some of
 * those other keywords were removed.
 */
function loosenRest(copy: Record<string, unknown>, flaws: readonly SchemaFlaw[], isOpen: boolean): void {
  // True only if the whole keyword was removed: a removed list member was replaced by `true`.
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
  // Without this, unlisted keys would be removed from values.
  else if ((isOpen || wasClosed) && isRecord(copy.properties)) copy.additionalProperties ??= true;
}

/** A schema with only the title and description of the given one, which checks nothing. */
function textOnly(schema: JsonSchemaObject): Record<string, unknown> {
  const { title, description } = schema;
  const texts = Object.entries({ title, description }).filter(([, text]) => typeof text === "string");
  return Object.fromEntries(texts);
}

function put(copy: Record<string, unknown>, keyword: string, value: unknown): void {
  // An assignment would not work for the key `__proto__`, which JSON allows.
  Object.defineProperty(copy, keyword, { value, enumerable: true, configurable: true, writable: true });
}

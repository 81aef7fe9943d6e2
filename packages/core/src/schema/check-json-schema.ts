import { describeReceived, issuePath } from "./issue.ts";
import {
  type Dialect,
  dialectOf,
  isKeyword,
  isKnownKeyword,
  isMetaschema,
  plainKeywords,
} from "./keywords.ts";
import { isRiskyPattern, toRegExp } from "./pattern.ts";
import { type AddressedSchema, Addresses, findEndless, isFragment } from "./references.ts";
import { SchemaError } from "./types.ts";
import {
  arrangementOf,
  isJsonType,
  isRecord,
  type JsonSchemaObject,
  jsonTypes,
  keysOf,
  memberAt,
  pointerSteps,
  referenceKeywords,
  type SchemaPlace,
  type SchemaSteps,
  walkSchemas,
} from "./visit.ts";

/** Facts about a schema that compiling needs. */
export interface JsonSchemaFacts {
  readonly dialect: Dialect;
  /** A reference names a metaschema, which must then be loaded. */
  readonly usesMetaschema: boolean;
  /** A property is named like a member of `Object.prototype`, so inherited members must not count as present. */
  readonly usesInheritedNames: boolean;
  /** A pattern could take long by backtracking, so the linear engine must be loaded. */
  readonly usesRiskyPatterns: boolean;
  /** It contains references, so it may expand to far more schemas than it has. */
  readonly usesReferences: boolean;
}

export interface SchemaFlaw {
  readonly schema: object;
  /** The keyword and its member; undefined for the schema as a whole. */
  readonly steps?: readonly (string | number)[] | undefined;
  /** A sentence that continues after the name of the place. */
  readonly problem: string;
}

/** State of one walk through a schema. */
interface Walk {
  readonly root: JsonSchemaObject;
  readonly seen: Map<object, SchemaPlace>;
  readonly references: { readonly target: string; readonly place: SchemaPlace }[];
  readonly anchors: Set<string>;
  /** If set, flaws are reported here without advice, since the reader did not write the schema. */
  readonly onFlaw: ((flaw: SchemaFlaw) => void) | undefined;
  hasReferences: boolean;
  hasNestedIds: boolean;
  usesInheritedNames: boolean;
  usesRiskyPatterns: boolean;
}

const maximumDepth = 200;

/**
 * Refuses an invalid JSON Schema, in linear time and without loading a validator. Subtler flaws show on first use.
 * Throws `SchemaError` for the first flaw, or reports all to `onFlaw`.
 */
export function checkJsonSchema(
  root: JsonSchemaObject,
  onFlaw?: (flaw: SchemaFlaw) => void,
): JsonSchemaFacts {
  const walk: Walk = {
    root,
    seen: new Map(),
    references: [],
    anchors: new Set(),
    onFlaw,
    hasReferences: false,
    hasNestedIds: false,
    usesInheritedNames: false,
    usesRiskyPatterns: false,
  };
  walkSchemas(
    root,
    (place) => isFirstVisit(place, walk) && checkPlace(place, walk),
    (member, steps, place) => checkMember(member, steps, place, walk),
  );
  let usesMetaschema = false;
  for (const { target, place } of walk.references) {
    if (isMetaschema(target)) usesMetaschema = true;
    else checkReference(target, place, walk);
  }
  if (walk.hasReferences) refuseEndless(walk);
  const { usesInheritedNames, usesRiskyPatterns, hasReferences } = walk;
  return {
    dialect: dialectOf(root),
    usesMetaschema,
    usesInheritedNames,
    usesRiskyPatterns,
    usesReferences: hasReferences,
  };
}

function isFirstVisit(place: SchemaPlace, walk: Walk): boolean {
  if (place.depth > maximumDepth) {
    reportFlaw(walk, place, undefined, `nests more than ${maximumDepth} levels; use $ref and $defs instead.`);
    return false;
  }
  if (!walk.seen.has(place.schema)) {
    walk.seen.set(place.schema, place);
    return true;
  }
  for (let above = place.parent; above !== undefined; above = above.parent) {
    if (above.schema !== place.schema) continue;
    const advice = 'write the recursion as { "$ref": "#/$defs/<name>" }';
    reportFlaw(walk, place, undefined, `contains itself as an object; ${advice}.`);
    break;
  }
  return false;
}

/** Checks all keywords of one schema. Always true: go on below it. */
function checkPlace(place: SchemaPlace, walk: Walk): true {
  const { schema } = place;
  for (const keyword in schema) {
    const value = schema[keyword];
    if (value !== undefined) checkKeyword(place, keyword, value, walk);
  }
  return true;
}

/** Checks a value in the place of a schema that is not an object. */
function checkMember(member: unknown, steps: SchemaSteps, place: SchemaPlace, walk: Walk): void {
  const isNames = steps[0] === "dependencies" && Array.isArray(member);
  const isAbsent = member === undefined && typeof steps[1] !== "number";
  if (typeof member === "boolean" || isNames || isAbsent) return;
  reportFlaw(walk, place, steps, `must be a schema (an object, true or false), ${describeGot(member)}.`);
}

function checkKeyword(place: SchemaPlace, keyword: string, value: unknown, walk: Walk): void {
  switch (arrangementOf(keyword)) {
    case "list":
      if (!Array.isArray(value))
        reportFlaw(walk, place, [keyword], `must be an array of schemas, ${describeGot(value)}.`);
      return;
    case "map":
      checkMap(place, keyword, value, walk);
      return;
    case undefined:
      checkPlainKeyword(place, keyword, value, walk);
  }
}

function checkMap(place: SchemaPlace, keyword: string, value: unknown, walk: Walk): void {
  if (!isRecord(value)) {
    const wanted = keyword === "dependencies" ? "an object" : "an object of schemas";
    reportFlaw(walk, place, [keyword], `must be ${wanted}, ${describeGot(value)}.`);
    return;
  }
  for (const name of Object.keys(value)) {
    const isKey = keyword === "properties" || keyword === "dependencies";
    if (isKey && name in Object.prototype) walk.usesInheritedNames = true;
    if (keyword === "patternProperties") checkPattern(place, [keyword, name], name, walk);
    if (keyword === "dependencies" && Array.isArray(value[name]))
      checkNames(place, [keyword, name], value[name], walk);
  }
}

function checkPlainKeyword(place: SchemaPlace, keyword: string, value: unknown, walk: Walk): void {
  const wanted = Object.hasOwn(plainKeywords, keyword) ? plainKeywords[keyword] : undefined;
  if (wanted === undefined) return;
  const form = forms[wanted];
  if (form !== undefined && !form.fits(value)) {
    reportFlaw(walk, place, [keyword], `must be ${form.name}, ${describeGot(value)}.`);
    return;
  }
  if (referenceKeywords.includes(keyword)) walk.hasReferences = true;
  switch (keyword) {
    case "type":
      checkType(place, value, walk);
      break;
    case "enum":
      if (!Array.isArray(value))
        reportFlaw(walk, place, [keyword], `must be an array of the allowed values, ${describeGot(value)}.`);
      break;
    case "required":
      checkNames(place, [keyword], value, walk);
      break;
    case "dependentRequired":
      if (!isRecord(value)) reportFlaw(walk, place, [keyword], `must be an object, ${describeGot(value)}.`);
      for (const name of keysOf(value)) {
        if (name in Object.prototype) walk.usesInheritedNames = true;
        checkNames(place, [keyword, name], memberAt(value, [name]), walk);
      }
      break;
    case "pattern":
      checkPattern(place, [keyword], String(value), walk);
      break;
    case "$ref":
      walk.references.push({ target: String(value), place });
      break;
    case "$anchor":
    case "$dynamicAnchor":
      walk.anchors.add(String(value));
      break;
    case "$id":
      if (place.parent !== undefined) walk.hasNestedIds = true;
  }
}

const forms: Readonly<Record<string, { readonly name: string; readonly fits: (value: unknown) => boolean }>> =
  {
    number: { name: "a number", fits: (value) => typeof value === "number" },
    count: {
      name: "a whole number of 0 or more",
      fits: (value) => Number.isInteger(value) && Number(value) >= 0,
    },
    boolean: { name: "true or false", fits: (value) => typeof value === "boolean" },
    string: { name: "a string", fits: (value) => typeof value === "string" },
  };

function checkType(place: SchemaPlace, value: unknown, walk: Walk): void {
  const odd = (Array.isArray(value) ? value : [value]).filter((name) => !isJsonType(name));
  if (odd.length === 0) return;
  reportFlaw(walk, place, ["type"], `must be one of ${jsonTypes.join(", ")}, ${describeGot(odd[0])}.`);
}

function checkNames(place: SchemaPlace, steps: SchemaSteps, value: unknown, walk: Walk): void {
  if (!Array.isArray(value) || !value.every((name) => typeof name === "string")) {
    reportFlaw(walk, place, steps, `must be an array of property names, ${describeGot(value)}.`);
    return;
  }
  if (value.some((name) => name in Object.prototype)) walk.usesInheritedNames = true;
}

function checkPattern(place: SchemaPlace, steps: SchemaSteps, pattern: string, walk: Walk): void {
  try {
    toRegExp(pattern);
    walk.usesRiskyPatterns ||= isRiskyPattern(pattern);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    reportFlaw(walk, place, steps, `is not a regular expression: ${reason}.`);
  }
}

/** With nested ids, references are left to the validator. */
function checkReference(target: string, place: SchemaPlace, walk: Walk): void {
  const rootId = typeof walk.root.$id === "string" ? walk.root.$id.replace(/#$/, "") : undefined;
  if (walk.hasNestedIds) return;
  const own = rootId !== undefined && target.startsWith(rootId) ? target.slice(rootId.length) : target;
  if (own === "" || own === "#") return;
  const refuse = (problem: string) => reportFlaw(walk, place, ["$ref"], `points to ${problem}.`);
  const shown = JSON.stringify(target);
  if (own.startsWith("#/")) {
    if (memberAt(walk.root, pointerSteps(own)) === undefined) refuse(`${shown}, which is not in this schema`);
  } else if (own.startsWith("#")) {
    if (!walk.anchors.has(own.slice(1))) refuse(`${shown}, but no $anchor has that name`);
  } else if (rootId === undefined || /^[a-z][a-z0-9+.-]*:/i.test(own)) {
    const advice = ": copy the definition into $defs and refer to #/$defs/<name>";
    const rule = `another document, ${shown}. Other documents are never fetched`;
    refuse(`${rule}${walk.onFlaw === undefined ? advice : ""}`);
  }
}

function refuseEndless(walk: Walk): void {
  const found = findEndless(walk.root);
  if (found === undefined) return;
  const place = walk.seen.get(found.schema) ?? walk.seen.get(walk.root)!;
  const advice = walk.onFlaw === undefined ? " Change its $ref." : "";
  reportFlaw(walk, place, undefined, `${found.problem}, so no value could be checked.${advice}`);
}

function reportFlaw(
  { onFlaw }: Walk,
  place: SchemaPlace,
  steps: SchemaSteps | undefined,
  problem: string,
): void {
  if (onFlaw !== undefined) {
    onFlaw({ schema: place.schema, steps: steps?.filter((step) => step !== undefined), problem });
    return;
  }
  const segments: unknown[] = [...(steps ?? [])];
  for (let above: SchemaPlace | undefined = place; above !== undefined; above = above.parent)
    segments.unshift(...above.steps);
  const path = issuePath(segments.filter((step) => step !== undefined));
  throw new SchemaError(`Invalid JSON Schema: ${path === "" ? "the schema" : `\`${path}\``} ${problem}`, {
    path,
  });
}

function describeGot(value: unknown): string {
  return `got ${describeReceived(value)}`;
}

/**
 * Lists all flaws that would keep a validator from using a schema: those of `checkJsonSchema`, and those found only by
 * compiling. Linear time.
 */
export function jsonSchemaFlaws(root: JsonSchemaObject): SchemaFlaw[] {
  const keywords = Object.keys(root);
  if (keywords.length > 0 && !keywords.some(isKeyword)) {
    return [{ schema: root, problem: "has no keyword of JSON Schema." }];
  }
  const flaws: SchemaFlaw[] = [];
  checkJsonSchema(root, (flaw) => flaws.push(flaw));
  const addresses = new Addresses(root);
  const schemas = new Set<unknown>(addresses.schemas.map(({ schema }) => schema));
  const taken = new Set<string>();
  for (const place of addresses.schemas) {
    const { schema } = place;
    const reportFlaw = (keyword: string, problem: string) =>
      flaws.push({ schema, steps: [keyword], problem });
    if (Array.isArray(schema.enum) && schema.enum.length === 0) reportFlaw("enum", "allows no value at all.");
    for (const keyword of ["exclusiveMinimum", "exclusiveMaximum"]) {
      if (!["undefined", "number", "boolean"].includes(typeof schema[keyword]))
        reportFlaw(keyword, "must be a number.");
    }
    for (const keyword of ["nullable", "$recursiveAnchor"]) {
      if (!["undefined", "boolean"].includes(typeof schema[keyword]))
        reportFlaw(keyword, "must be true or false.");
    }
    for (const [keyword, name] of namesOf(place)) {
      if (name === undefined) reportFlaw(keyword, "is not a name that can be referred to.");
      else if (taken.has(name)) reportFlaw(keyword, "is the name of another part of the schema too.");
      else taken.add(name);
    }
    for (const keyword of Object.keys(schema)) {
      if (isKnownKeyword(keyword) || !holdsNames(schema[keyword])) continue;
      reportFlaw(keyword, "names parts of itself, where no schema is.");
    }
    for (const keyword of referenceKeywords) {
      const target = schema[keyword];
      if (typeof target !== "string") continue;
      // `$dynamicRef` and `$recursiveRef` work within a document only.
      const isPossible = keyword === "$ref" || isFragment(target);
      if (isPossible && isThere(target, place, addresses, schemas, dialectOf(root))) continue;
      reportFlaw(keyword, `points to ${JSON.stringify(target)}, where no schema is.`);
    }
  }
  return flaws;
}

/** The names of the schema by keyword; undefined for an invalid name. */
function namesOf({ schema, base }: AddressedSchema): [keyword: string, name: string | undefined][] {
  const names: [string, string | undefined][] = [];
  const { $id, $anchor, $dynamicAnchor } = schema;
  if (isFragment($id)) names.push(["$id", base + $id]);
  else if (typeof $id === "string")
    names.push(["$id", URL.canParse($id, "schema://root/") ? base : undefined]);
  for (const [keyword, anchor] of Object.entries({ $anchor, $dynamicAnchor })) {
    if (typeof anchor !== "string") continue;
    names.push([keyword, /^[a-z_][-a-z0-9._]*$/i.test(anchor) ? `${base}#${anchor}` : undefined]);
  }
  return names;
}

/** Validators look for names in all objects, even where no schema is expected. */
function holdsNames(value: unknown): boolean {
  const waiting = [value];
  while (waiting.length > 0) {
    const part = waiting.pop();
    if (!isRecord(part)) continue;
    if (["$id", "$anchor", "$dynamicAnchor"].some((keyword) => Object.hasOwn(part, keyword))) return true;
    for (const inner of Object.values(part)) waiting.push(inner);
  }
  return false;
}

function isThere(
  target: string,
  { base }: AddressedSchema,
  addresses: Addresses,
  schemas: ReadonlySet<unknown>,
  dialect: Dialect,
): boolean {
  // Each validator knows only the metaschema of its own draft.
  const scheme = dialect === "draft-07" ? "http:" : "https:";
  if (isMetaschema(target))
    return target.startsWith(scheme) && /\/schema#?$/.test(target) && target.includes(dialect);
  const found = addresses.find(target, base);
  return typeof found?.value === "boolean" || schemas.has(found?.value);
}

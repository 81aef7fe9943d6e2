import { describeReceived } from "./describe-expected.ts";
import { issuePath } from "./json-schema-issues.ts";
import {
  type Dialect,
  dialectOf,
  isKeyword,
  isKnownKeyword,
  isMetaschema,
  plainKeywords,
  referenceKeywords,
  schemaKeywords,
  toRegExp,
  typeNames,
} from "./json-schema-keywords.ts";
import { isRiskyPattern } from "./pattern.ts";
import {
  type Addresses,
  addressesIn,
  findEndless,
  isFragment,
  isSchema,
  resolvePointer,
  type SchemaPlace,
} from "./references.ts";
import { type JsonSchemaObject, SchemaError } from "./types.ts";

/** What compiling needs to know of a schema, seen on the way through it. */
export interface JsonSchemaFacts {
  readonly dialect: Dialect;
  /** A reference names a metaschema, which then has to be loaded. */
  readonly usesMetaschema: boolean;
  /** A property is named like a member of `Object.prototype`, so inherited members must not count as present. */
  readonly usesInheritedNames: boolean;
  /** A pattern could take long to match by backtracking, so the engine that does not backtrack has to be loaded. */
  readonly usesRiskyPatterns: boolean;
  /** Schemas in it refer to others, so that it may stand for far more than it says. */
  readonly usesReferences: boolean;
}

/** What is wrong at one place of a schema. */
export interface SchemaFlaw {
  readonly schema: object;
  /** The keyword, and the member of it; nothing when it is the schema as a whole. */
  readonly steps?: readonly (string | number)[] | undefined;
  /** Goes on where the name of the place ends. */
  readonly problem: string;
}

/** One schema on the way from the root. Chains of frames give paths and find circular objects. */
interface Frame {
  readonly schema: Readonly<Record<string, unknown>>;
  readonly parent: Frame | undefined;
  readonly steps: readonly (string | number)[];
  readonly depth: number;
}

interface Walk {
  readonly root: JsonSchemaObject;
  readonly seen: Map<object, Frame>;
  readonly waiting: Frame[];
  readonly references: { readonly target: string; readonly frame: Frame }[];
  readonly anchors: Set<string>;
  /** Whoever is told of flaws did not write the schema, and is given no advice. */
  readonly onFlaw: ((flaw: SchemaFlaw) => void) | undefined;
  hasReferences: boolean;
  hasNestedIds: boolean;
  usesInheritedNames: boolean;
  usesRiskyPatterns: boolean;
}

const maximumDepth = 200;

/**
 * Refuses a JSON Schema that is plainly wrong, in time linear in its size and without loading a validator.
 * What needs a closer look is found when the schema is first used. Throws `SchemaError` for the first flaw, or tells
 * of all of them.
 */
export function checkJsonSchema(
  root: JsonSchemaObject,
  onFlaw?: (flaw: SchemaFlaw) => void,
): JsonSchemaFacts {
  const walk: Walk = {
    root,
    seen: new Map(),
    waiting: [{ schema: root, parent: undefined, steps: [], depth: 0 }],
    references: [],
    anchors: new Set(),
    onFlaw,
    hasReferences: false,
    hasNestedIds: false,
    usesInheritedNames: false,
    usesRiskyPatterns: false,
  };
  for (let frame = walk.waiting.pop(); frame !== undefined; frame = walk.waiting.pop()) visit(frame, walk);
  let usesMetaschema = false;
  for (const { target, frame } of walk.references) {
    if (isMetaschema(target)) usesMetaschema = true;
    else checkReference(target, frame, walk);
  }
  if (walk.hasReferences) refuseEndless(walk);
  const { usesInheritedNames, usesRiskyPatterns } = walk;
  return {
    dialect: dialectOf(root),
    usesMetaschema,
    usesInheritedNames,
    usesRiskyPatterns,
    usesReferences: walk.hasReferences,
  };
}

function visit(frame: Frame, walk: Walk): void {
  if (walk.seen.has(frame.schema)) {
    refuseCircular(frame, walk);
    return;
  }
  if (frame.depth > maximumDepth) {
    blame(walk, frame, undefined, `nests more than ${maximumDepth} levels; use $ref and $defs instead.`);
    return;
  }
  walk.seen.set(frame.schema, frame);
  for (const keyword in frame.schema) {
    const value = frame.schema[keyword];
    if (value === undefined) continue;
    const arrangement = schemaKeywords[keyword];
    if (arrangement !== undefined) visitSchemas(frame, keyword, value, arrangement, walk);
    else checkPlainKeyword(frame, keyword, value, walk);
  }
}

function visitSchemas(frame: Frame, keyword: string, value: unknown, arrangement: string, walk: Walk): void {
  const isList = arrangement === "list" || (arrangement === "schema-or-list" && Array.isArray(value));
  if (isList) {
    if (Array.isArray(value)) {
      for (const [index, schema] of value.entries()) push(frame, [keyword, index], schema, walk);
    } else blame(walk, frame, [keyword], `must be an array of schemas, ${got(value)}.`);
    return;
  }
  if (arrangement !== "map") {
    push(frame, [keyword], value, walk);
    return;
  }
  if (!isRecord(value)) {
    blame(walk, frame, [keyword], `must be an object of schemas, ${got(value)}.`);
    return;
  }
  for (const name of Object.keys(value)) {
    if (keyword === "properties" && name in Object.prototype) walk.usesInheritedNames = true;
    if (keyword === "patternProperties") checkPattern(frame, [keyword, name], name, walk);
    if (value[name] !== undefined) push(frame, [keyword, name], value[name], walk);
  }
}

function push(parent: Frame, steps: readonly (string | number)[], schema: unknown, walk: Walk): void {
  if (typeof schema === "boolean") return;
  if (isRecord(schema)) walk.waiting.push({ schema, parent, steps, depth: parent.depth + 1 });
  else blame(walk, parent, steps, `must be a schema (an object, true or false), ${got(schema)}.`);
}

function checkPlainKeyword(frame: Frame, keyword: string, value: unknown, walk: Walk): void {
  const wanted = plainKeywords[keyword];
  if (wanted === undefined) return;
  const isWanted = forms[wanted];
  if (isWanted !== undefined && !isWanted.fits(value)) {
    blame(walk, frame, [keyword], `must be ${isWanted.name}, ${got(value)}.`);
    return;
  }
  if (wanted === "strings") checkNames(frame, [keyword], value, walk);
  if (/^\$(?:dynamic|recursive)?ref$/i.test(keyword)) walk.hasReferences = true;
  if (keyword === "type") checkType(frame, value, walk);
  else if (keyword === "enum" && !Array.isArray(value)) {
    blame(walk, frame, [keyword], `must be an array of the allowed values, ${got(value)}.`);
  } else if (keyword === "pattern") checkPattern(frame, [keyword], String(value), walk);
  else if (keyword === "$ref") walk.references.push({ target: String(value), frame });
  else if (keyword === "$anchor" || keyword === "$dynamicAnchor") walk.anchors.add(String(value));
  else if (keyword === "$id" && frame.parent !== undefined) walk.hasNestedIds = true;
  else if (keyword === "dependentRequired" || keyword === "dependencies")
    checkDependencies(frame, keyword, value, walk);
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

function checkType(frame: Frame, value: unknown, walk: Walk): void {
  const names: readonly unknown[] = Array.isArray(value) ? value : [value];
  for (const name of names) {
    if (typeNames.some((known) => known === name)) continue;
    blame(walk, frame, ["type"], `must be one of ${typeNames.join(", ")}, ${got(name)}.`);
    return;
  }
}

function checkNames(frame: Frame, steps: readonly string[], value: unknown, walk: Walk): void {
  if (!Array.isArray(value) || !value.every((name) => typeof name === "string")) {
    blame(walk, frame, steps, `must be an array of property names, ${got(value)}.`);
    return;
  }
  if (value.some((name) => name in Object.prototype)) walk.usesInheritedNames = true;
}

function checkDependencies(frame: Frame, keyword: string, value: unknown, walk: Walk): void {
  if (!isRecord(value)) {
    blame(walk, frame, [keyword], `must be an object, ${got(value)}.`);
    return;
  }
  for (const name of Object.keys(value)) {
    if (name in Object.prototype) walk.usesInheritedNames = true;
    const needed = value[name];
    if (keyword === "dependencies" && !Array.isArray(needed)) push(frame, [keyword, name], needed, walk);
    else checkNames(frame, [keyword, name], needed, walk);
  }
}

function checkPattern(frame: Frame, steps: readonly string[], pattern: string, walk: Walk): void {
  try {
    toRegExp(pattern);
    walk.usesRiskyPatterns ||= isRiskyPattern(pattern);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    blame(walk, frame, steps, `is not a regular expression: ${reason}.`);
  }
}

/** References into documents with their own ids are left to the validator, which knows how to resolve them. */
function checkReference(target: string, frame: Frame, walk: Walk): void {
  const rootId = typeof walk.root.$id === "string" ? walk.root.$id.replace(/#$/, "") : undefined;
  if (walk.hasNestedIds) return;
  const own = rootId !== undefined && target.startsWith(rootId) ? target.slice(rootId.length) : target;
  if (own === "" || own === "#") return;
  if (own.startsWith("#/")) {
    if (resolvePointer(walk.root, own) !== undefined) return;
    blame(walk, frame, ["$ref"], `points to ${JSON.stringify(target)}, which is not in this schema.`);
    return;
  }
  if (own.startsWith("#")) {
    if (walk.anchors.has(own.slice(1))) return;
    blame(walk, frame, ["$ref"], `points to ${JSON.stringify(target)}, but no $anchor has that name.`);
    return;
  }
  if (rootId !== undefined && !/^[a-z][a-z0-9+.-]*:/i.test(own)) return;
  const problem = `points to another document, ${JSON.stringify(target)}. Other documents are never fetched`;
  const advice = ": copy the definition into $defs and refer to #/$defs/<name>";
  blame(walk, frame, ["$ref"], `${problem}${walk.onFlaw === undefined ? advice : ""}.`);
}

function refuseEndless(walk: Walk): void {
  const { root, seen } = walk;
  const found = findEndless(root);
  if (found === undefined) return;
  const frame = seen.get(found.schema) ?? seen.get(root)!;
  const advice = walk.onFlaw === undefined ? " Change its $ref." : "";
  blame(walk, frame, undefined, `${found.problem}, so no value could be checked.${advice}`);
}

function refuseCircular(frame: Frame, walk: Walk): void {
  for (let above = frame.parent; above !== undefined; above = above.parent) {
    if (above.schema !== frame.schema) continue;
    blame(
      walk,
      frame,
      undefined,
      'contains itself as an object; write the recursion as { "$ref": "#/$defs/<name>" }.',
    );
    return;
  }
}

function blame(
  { onFlaw }: Walk,
  frame: Frame,
  steps: readonly (string | number)[] | undefined,
  problem: string,
): void {
  if (onFlaw === undefined) throw failure(frame, steps, problem);
  onFlaw({ schema: frame.schema, steps, problem });
}

function failure(
  frame: Frame,
  steps: readonly (string | number)[] | undefined,
  problem: string,
): SchemaError {
  const segments: (string | number)[] = [...(steps ?? [])];
  for (let above: Frame | undefined = frame; above !== undefined; above = above.parent)
    segments.unshift(...above.steps);
  const path = issuePath(segments);
  return new SchemaError(`Invalid JSON Schema: ${path === "" ? "the schema" : `\`${path}\``} ${problem}`, {
    path,
  });
}

function got(value: unknown): string {
  return `got ${describeReceived(value)}`;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * All that would keep a validator from using a JSON Schema: what `checkJsonSchema` refuses, and what a validator only
 * finds when it compiles the schema. Takes time linear in its size.
 */
export function jsonSchemaFlaws(root: JsonSchemaObject): SchemaFlaw[] {
  const keywords = Object.keys(root);
  if (keywords.length > 0 && !keywords.some(isKeyword)) {
    return [{ schema: root, problem: "has no keyword of JSON Schema." }];
  }
  const flaws: SchemaFlaw[] = [];
  checkJsonSchema(root, (flaw) => flaws.push(flaw));
  const addresses = addressesIn(root);
  const schemas = new Set<unknown>(addresses.places.map(({ schema }) => schema));
  const taken = new Set<string>();
  for (const place of addresses.places) {
    const { schema } = place;
    const blame = (keyword: string, problem: string) => flaws.push({ schema, steps: [keyword], problem });
    if (Array.isArray(schema.enum) && schema.enum.length === 0) blame("enum", "allows no value at all.");
    for (const keyword of ["exclusiveMinimum", "exclusiveMaximum"]) {
      if (!["undefined", "number", "boolean"].includes(typeof schema[keyword]))
        blame(keyword, "must be a number.");
    }
    for (const keyword of ["nullable", "$recursiveAnchor"]) {
      if (!["undefined", "boolean"].includes(typeof schema[keyword]))
        blame(keyword, "must be true or false.");
    }
    for (const [keyword, name] of namesOf(place)) {
      if (name === undefined) blame(keyword, "is not a name that can be referred to.");
      else if (taken.has(name)) blame(keyword, "is the name of another part of the schema too.");
      else taken.add(name);
    }
    for (const keyword of Object.keys(schema)) {
      if (isKnownKeyword(keyword) || !holdsNames(schema[keyword])) continue;
      blame(keyword, "names parts of itself, where no schema is.");
    }
    for (const keyword of referenceKeywords) {
      const target = schema[keyword];
      if (typeof target !== "string") continue;
      // The other two are known within a document only.
      const isPossible = keyword === "$ref" || isFragment(target);
      if (isPossible && isThere(target, place, addresses, schemas, dialectOf(root))) continue;
      blame(keyword, `points to ${JSON.stringify(target)}, where no schema is.`);
    }
  }
  return flaws;
}

/** What the schema is called, by the keyword that says so; undefined for what can be no name. */
function namesOf({ schema, base }: SchemaPlace): [keyword: string, name: string | undefined][] {
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

/** Validators look for names inside everything that is an object, also where they look for nothing else. */
function holdsNames(value: unknown): boolean {
  const waiting = [value];
  while (waiting.length > 0) {
    const part = waiting.pop();
    if (!isSchema(part)) continue;
    if (["$id", "$anchor", "$dynamicAnchor"].some((keyword) => Object.hasOwn(part, keyword))) return true;
    for (const inner of Object.values(part)) waiting.push(inner);
  }
  return false;
}

function isThere(
  target: string,
  { base }: SchemaPlace,
  addresses: Addresses,
  schemas: ReadonlySet<unknown>,
  dialect: Dialect,
): boolean {
  // Each validator knows that of its own draft alone, by one address.
  const scheme = dialect === "draft-07" ? "http:" : "https:";
  if (isMetaschema(target))
    return target.startsWith(scheme) && /\/schema#?$/.test(target) && target.includes(dialect);
  const found = addresses.find(target, base);
  return typeof found?.value === "boolean" || schemas.has(found?.value);
}

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
  namesIn,
  pointerSteps,
  reasonOf,
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
  /**
   * The schema contains references, so one value may be checked against far more schemas than are written in
   * it.
   */
  readonly usesReferences: boolean;
}

export interface SchemaFlaw {
  readonly schema: object;
  /**
   * The path below `schema`: a keyword, and a name or index in it; undefined when the schema as a whole is
   * wrong.
   */
  readonly steps?: readonly (string | number)[] | undefined;
  /** The rest of a sentence that begins with the name of the place, such as "must be a number." */
  readonly problem: string;
}

const maximumDepth = 200;

/**
 * Refuses an invalid JSON Schema, in linear time and without loading a validator. Flaws that only compiling
 * finds show on first use. Throws `SchemaError` for the first flaw, or reports all flaws to `onFlaw`.
 */
export function checkJsonSchema(
  root: JsonSchemaObject,
  onFlaw?: (flaw: SchemaFlaw) => void,
): JsonSchemaFacts {
  return new SchemaCheck(root, onFlaw).run();
}

/** One walk through a schema. */
class SchemaCheck {
  readonly #root: JsonSchemaObject;
  /** If set, flaws are reported here without advice, since the reader did not write the schema. */
  readonly #onFlaw: ((flaw: SchemaFlaw) => void) | undefined;
  readonly #seen = new Map<object, SchemaPlace>();
  readonly #references: { readonly target: string; readonly place: SchemaPlace }[] = [];
  readonly #anchors = new Set<unknown>();
  #hasNestedIds = false;
  #usesReferences = false;
  #usesInheritedNames = false;
  #usesRiskyPatterns = false;

  constructor(root: JsonSchemaObject, onFlaw: ((flaw: SchemaFlaw) => void) | undefined) {
    this.#root = root;
    this.#onFlaw = onFlaw;
  }

  run(): JsonSchemaFacts {
    walkSchemas(
      this.#root,
      (place) => this.#checkPlace(place),
      (member, steps, place) => {
        const isNames = steps[0] === "dependencies" && Array.isArray(member);
        const isAbsent = member === undefined && typeof steps[1] !== "number";
        if (typeof member === "boolean" || isNames || isAbsent) return;
        this.#reportForm(place, steps, "a schema (an object, true or false)", member);
      },
    );
    const [metaschemas, others] = [true, false].map((isMeta) =>
      this.#references.filter(({ target }) => isMetaschema(target) === isMeta),
    );
    for (const { target, place } of others!) this.#checkReference(target, place);
    const endless = this.#usesReferences ? findEndless(this.#root) : undefined;
    if (endless !== undefined) {
      const place = this.#seen.get(endless.schema) ?? this.#seen.get(this.#root)!;
      const advice = this.#onFlaw === undefined ? " Change its $ref." : "";
      this.#report(place, undefined, `${endless.problem}, so no value could be checked.${advice}`);
    }
    return {
      dialect: dialectOf(this.#root),
      usesMetaschema: metaschemas!.length > 0,
      usesInheritedNames: this.#usesInheritedNames,
      usesRiskyPatterns: this.#usesRiskyPatterns,
      usesReferences: this.#usesReferences,
    };
  }

  /** Checks all keywords of a schema on its first visit. Returns whether to go on below it. */
  #checkPlace(place: SchemaPlace): boolean {
    const { schema, depth } = place;
    if (depth > maximumDepth) {
      this.#report(place, undefined, `nests more than ${maximumDepth} levels; use $ref and $defs instead.`);
      return false;
    }
    if (this.#seen.has(schema)) {
      let above = place.parent;
      while (above !== undefined && above.schema !== schema) above = above.parent;
      const advice = 'write the recursion as { "$ref": "#/$defs/<name>" }';
      if (above !== undefined) this.#report(place, undefined, `contains itself as an object; ${advice}.`);
      return false;
    }
    this.#seen.set(schema, place);
    for (const keyword in schema) {
      if (schema[keyword] !== undefined) this.#checkKeyword(place, keyword, schema[keyword]);
    }
    return true;
  }

  #checkKeyword(place: SchemaPlace, keyword: string, value: unknown): void {
    const [wanted, fits] = formOf(keyword) ?? [];
    if (fits !== undefined && !fits(value)) {
      const isOdd = (name: unknown) => !isJsonType(name);
      const shown = keyword === "type" && Array.isArray(value) ? value.find(isOdd) : value;
      this.#reportForm(place, [keyword], wanted!, shown);
      return;
    }
    if (referenceKeywords.includes(keyword)) this.#usesReferences = true;
    switch (keyword) {
      case "properties":
        this.#noteNames(keysOf(value));
        break;
      case "required":
        this.#noteNames(namesIn(value));
        break;
      case "dependencies":
      case "dependentRequired":
        this.#noteNames(keysOf(value));
        for (const [name, names] of Object.entries(value ?? {})) {
          if (isNames(names)) this.#noteNames(names);
          else if (keyword === "dependentRequired" || Array.isArray(names))
            this.#reportForm(place, [keyword, name], forms.names![0], names);
        }
        break;
      case "patternProperties":
        for (const pattern of keysOf(value)) this.#checkPattern(place, [keyword, pattern], pattern);
        break;
      case "pattern":
        this.#checkPattern(place, [keyword], String(value));
        break;
      case "$ref":
        this.#references.push({ target: String(value), place });
        break;
      case "$anchor":
      case "$dynamicAnchor":
        this.#anchors.add(value);
        break;
      case "$id":
        this.#hasNestedIds ||= place.parent !== undefined;
    }
  }

  #noteNames(names: readonly string[]): void {
    this.#usesInheritedNames ||= names.some((name) => name in Object.prototype);
  }

  #checkPattern(place: SchemaPlace, steps: SchemaSteps, pattern: string): void {
    try {
      toRegExp(pattern);
      this.#usesRiskyPatterns ||= isRiskyPattern(pattern);
    } catch (error) {
      const reason = reasonOf(error);
      this.#report(place, steps, `is not a regular expression: ${reason}.`);
    }
  }

  /** Checks that a reference has a target. If a subschema has an `$id`, that is left to the validator. */
  #checkReference(target: string, place: SchemaPlace): void {
    if (this.#hasNestedIds) return;
    const { $id } = this.#root;
    const rootId = typeof $id === "string" ? $id.replace(/#$/, "") : undefined;
    const own = rootId !== undefined && target.startsWith(rootId) ? target.slice(rootId.length) : target;
    const refuse = (problem: string) =>
      this.#report(place, ["$ref"], `points to ${problem.replace("…", JSON.stringify(target))}.`);
    if (own === "" || own === "#") return;
    if (own.startsWith("#/")) {
      if (memberAt(this.#root, pointerSteps(own)) === undefined) refuse("…, which is not in this schema");
    } else if (own.startsWith("#")) {
      if (!this.#anchors.has(own.slice(1))) refuse("…, but no $anchor has that name");
    } else if (rootId === undefined || /^[a-z][a-z0-9+.-]*:/i.test(own)) {
      const advice = ": copy the definition into $defs and refer to #/$defs/<name>";
      const rule = "another document, …. Other documents are never fetched";
      refuse(`${rule}${this.#onFlaw === undefined ? advice : ""}`);
    }
  }

  #reportForm(place: SchemaPlace, steps: SchemaSteps, wanted: string, value: unknown): void {
    this.#report(place, steps, `must be ${wanted}, got ${describeReceived(value)}.`);
  }

  #report(place: SchemaPlace, given: SchemaSteps | undefined, problem: string): void {
    const steps = given?.filter((step) => step !== undefined);
    if (this.#onFlaw !== undefined) {
      this.#onFlaw({ schema: place.schema, steps, problem });
      return;
    }
    const segments: unknown[] = [...(steps ?? [])];
    for (let above: SchemaPlace | undefined = place; above !== undefined; above = above.parent)
      segments.unshift(...above.steps.filter((step) => step !== undefined));
    const path = issuePath(segments);
    const where = path === "" ? "the schema" : `\`${path}\``;
    throw new SchemaError(`Invalid JSON Schema: ${where} ${problem}`, { path });
  }
}

type Form = readonly [name: string, fits: (value: unknown) => boolean];

const forms: Readonly<Record<string, Form>> = {
  number: ["a number", (value) => typeof value === "number"],
  count: ["a whole number of 0 or more", (value) => Number.isInteger(value) && Number(value) >= 0],
  boolean: ["true or false", (value) => typeof value === "boolean"],
  string: ["a string", (value) => typeof value === "string"],
  names: ["an array of property names", isNames],
  types: [`one of ${jsonTypes.join(", ")}`, (value) => [value].flat().every(isJsonType)],
  values: ["an array of the allowed values", Array.isArray],
  object: ["an object", isRecord],
  list: ["an array of schemas", Array.isArray],
  map: ["an object of schemas", isRecord],
};

/** The form that the value of a keyword must have; undefined for an unknown keyword. */
function formOf(keyword: string): Form | undefined {
  if (keyword === "dependencies") return forms.object;
  const known = Object.hasOwn(plainKeywords, keyword) ? plainKeywords[keyword] : undefined;
  return forms[arrangementOf(keyword) ?? known ?? ""];
}

function isNames(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((name) => typeof name === "string");
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
  const dialect = dialectOf(root);
  const isThere = (target: string, base: string): boolean => {
    // Each validator knows only the metaschema of its own draft.
    const scheme = dialect === "draft-07" ? "http:" : "https:";
    if (isMetaschema(target))
      return target.startsWith(scheme) && /\/schema#?$/.test(target) && target.includes(dialect);
    const found = addresses.find(target, base)?.value;
    return typeof found === "boolean" || schemas.has(found);
  };
  const taken = new Set<string>();
  for (const place of addresses.schemas) {
    const { schema } = place;
    const reportFlaw = (keyword: string, problem: string) =>
      flaws.push({ schema, steps: [keyword], problem });
    const requireType = (keywords: readonly string[], types: readonly string[], problem: string) => {
      for (const keyword of keywords)
        if (schema[keyword] !== undefined && !types.includes(typeof schema[keyword]))
          reportFlaw(keyword, problem);
    };
    if (Array.isArray(schema.enum) && schema.enum.length === 0) reportFlaw("enum", "allows no value at all.");
    requireType(["exclusiveMinimum", "exclusiveMaximum"], ["number", "boolean"], "must be a number.");
    requireType(["nullable", "$recursiveAnchor"], ["boolean"], "must be true or false.");
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
      if (isPossible && isThere(target, place.base)) continue;
      reportFlaw(keyword, `points to ${JSON.stringify(target)}, where no schema is.`);
    }
  }
  return flaws;
}

/**
 * The names by which references can point to the schema, each with its keyword; undefined for an invalid
 * name.
 */
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

/**
 * Whether an object in the value has an id or an anchor. Validators look for these in all objects, even where
 * no schema is expected.
 */
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

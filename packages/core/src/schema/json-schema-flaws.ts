import { checkJsonSchema, type SchemaFlaw } from "./check-json-schema.ts";
import {
  type Dialect,
  dialectOf,
  isKeyword,
  isKnownKeyword,
  isMetaschema,
  referenceKeywords,
} from "./json-schema-keywords.ts";
import { type Addresses, addressesIn, isFragment, isSchema, type SchemaPlace } from "./schema-addresses.ts";
import type { JsonSchemaObject } from "./types.ts";

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

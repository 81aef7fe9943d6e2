import { isMetaschema, schemaKeywords } from "./json-schema-keywords.ts";
import { resolvePointer } from "./resolve-pointer.ts";

type Schema = Readonly<Record<string, unknown>>;

/** A schema that no value can be checked against in reasonable time. */
export interface EndlessSchema {
  readonly schema: object;
  readonly problem: string;
}

interface Place {
  readonly schema: Schema;
  /** The address that its references are relative to. */
  readonly base: string;
}

interface Open {
  readonly place: Place;
  readonly waiting: Place[];
  total: number;
}

/** How many schemas one value may be checked against. Large unions have some hundred. */
const mostChecks = 10_000;

const noAddress = "schema://root/";

/** These are about the same value as the schema that holds them; all others are about a part of it. */
const sameValue = [
  "allOf",
  "anyOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "dependentSchemas",
  "dependencies",
];
const references = ["$ref", "$dynamicRef", "$recursiveRef"];

/**
 * Finds a schema whose references multiply: thirty definitions of two references each to the next one are three
 * kilobytes, and a thousand million checks of one value. Takes time linear in the size of the schema.
 */
export function findEndless(root: Schema): EndlessSchema | undefined {
  const named = addressesIn(root);
  const totals = new Map<object, number>();
  for (const start of named.places) {
    const found = count(start, named, totals);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Depth first, with a stack of its own: chains of references may be longer than the stack of the program. */
function count(start: Place, named: Addresses, totals: Map<object, number>): EndlessSchema | undefined {
  if (totals.has(start.schema)) return undefined;
  const open = new Set<object>([start.schema]);
  const stack: Open[] = [{ place: start, waiting: checkedWith(start, named), total: 1 }];
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const { schema } = top.place;
    const next = top.waiting.pop();
    if (next === undefined) {
      stack.pop();
      open.delete(schema);
      totals.set(schema, top.total);
      const above = stack.at(-1);
      if (above !== undefined) above.total += top.total;
    } else if (open.has(next.schema)) {
      return { schema: next.schema, problem: "leads back to itself without a step into the value" };
    } else {
      const known = totals.get(next.schema);
      if (known !== undefined) top.total += known;
      else {
        open.add(next.schema);
        stack.push({ place: next, waiting: checkedWith(next, named), total: 1 });
      }
    }
    const last = stack.at(-1);
    if (last !== undefined && last.total > mostChecks) {
      return { schema: last.place.schema, problem: `stands for more than ${mostChecks} checks of one value` };
    }
  }
  return undefined;
}

/** The schemas that the same value is checked against too. */
function checkedWith({ schema, base }: Place, named: Addresses): Place[] {
  const own = sameValue.flatMap((keyword) => schemasBelow(schema, keyword));
  const places = own.map((child) => ({ schema: child, base: baseOf(child, base) }));
  for (const keyword of references) {
    const target = schema[keyword];
    if (typeof target !== "string" || isMetaschema(target)) continue;
    const found = named.resolve(target, base);
    if (found !== undefined) places.push(found);
  }
  return places;
}

class Addresses {
  readonly places: Place[] = [];
  readonly #named = new Map<string, Place>();

  add(place: Place, isRoot: boolean): void {
    const { schema, base } = place;
    this.places.push(place);
    if (isRoot || typeof schema.$id === "string") this.#named.set(base, place);
    for (const anchor of [schema.$anchor, schema.$dynamicAnchor]) {
      if (typeof anchor === "string") this.#named.set(`${base}#${anchor}`, place);
    }
  }

  /** Nothing for what the validator will not find either. */
  resolve(reference: string, base: string): Place | undefined {
    const hash = reference.indexOf("#");
    const address = hash === -1 ? reference : reference.slice(0, hash);
    const fragment = hash === -1 ? "" : reference.slice(hash);
    const document = this.#named.get(address === "" ? base : resolveAddress(address, base));
    if (document === undefined || fragment === "" || fragment === "#") return document;
    if (!fragment.startsWith("#/")) return this.#named.get(document.base + fragment);
    const schema = resolvePointer(document.schema, fragment);
    return isSchema(schema) ? { schema, base: baseOf(schema, document.base) } : undefined;
  }
}

function addressesIn(root: Schema): Addresses {
  const addresses = new Addresses();
  const seen = new Set<object>();
  const waiting: Place[] = [{ schema: root, base: baseOf(root, noAddress) }];
  for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) {
    if (seen.has(place.schema)) continue;
    seen.add(place.schema);
    addresses.add(place, place.schema === root);
    for (const keyword in place.schema) {
      if (schemaKeywords[keyword] === undefined && keyword !== "dependencies") continue;
      for (const schema of schemasBelow(place.schema, keyword)) {
        waiting.push({ schema, base: baseOf(schema, place.base) });
      }
    }
  }
  return addresses;
}

function schemasBelow(schema: Schema, keyword: string): Schema[] {
  const value = schema[keyword];
  if (typeof value !== "object" || value === null) return [];
  const arrangement = schemaKeywords[keyword];
  const isMap = arrangement === "map" || keyword === "dependencies";
  if (Array.isArray(value) || isMap) return Object.values(value).filter(isSchema);
  return isSchema(value) ? [value] : [];
}

function baseOf({ $id }: Schema, base: string): string {
  return typeof $id === "string" && !$id.startsWith("#") ? resolveAddress($id, base) : base;
}

function resolveAddress(address: string, base: string): string {
  try {
    return new URL(address, base).href.replace(/#.*$/, "");
  } catch {
    return address.replace(/#.*$/, "");
  }
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

import { memberAt } from "./json-schema-issues.ts";
import {
  isMetaschema,
  referenceKeywords,
  sameValueKeywords,
  schemaKeywords,
} from "./json-schema-keywords.ts";

type Schema = Readonly<Record<string, unknown>>;

export interface SchemaPlace {
  readonly schema: Schema;
  /** The address that its references are relative to. */
  readonly base: string;
}

const noAddress = "schema://root/";

/** Every schema inside one, and what its references lead to. */
export class Addresses {
  readonly places: SchemaPlace[] = [];
  readonly #named = new Map<string, SchemaPlace>();

  add(place: SchemaPlace, isRoot: boolean): void {
    const { schema, base } = place;
    this.places.push(place);
    // Until draft 7, an id that is a fragment was what an anchor is now.
    if (isFragment(schema.$id)) this.#named.set(base + schema.$id, place);
    if (isRoot || (typeof schema.$id === "string" && !isFragment(schema.$id))) this.#named.set(base, place);
    for (const anchor of [schema.$anchor, schema.$dynamicAnchor]) {
      if (typeof anchor === "string") this.#named.set(`${base}#${anchor}`, place);
    }
  }

  /** Nothing for what the validator will not find either. */
  resolve(reference: string, base: string): SchemaPlace | undefined {
    const found = this.find(reference, base);
    return isSchema(found?.value)
      ? { schema: found.value, base: baseOf(found.value, found.base) }
      : undefined;
  }

  /** Whatever is there, which may be no schema, with the address of its document. */
  find(reference: string, base: string): { readonly value: unknown; readonly base: string } | undefined {
    const hash = reference.indexOf("#");
    const address = hash === -1 ? reference : reference.slice(0, hash);
    const fragment = hash === -1 ? "" : reference.slice(hash);
    const document = this.#named.get(address === "" ? base : resolveAddress(address, base));
    if (document === undefined) return undefined;
    if (fragment.startsWith("#/")) {
      return { value: resolvePointer(document.schema, fragment), base: document.base };
    }
    const named = fragment === "" || fragment === "#" ? document : this.#named.get(document.base + fragment);
    return named && { value: named.schema, base: named.base };
  }
}

export function addressesIn(root: Schema): Addresses {
  const addresses = new Addresses();
  const seen = new Set<object>();
  const waiting: SchemaPlace[] = [{ schema: root, base: baseOf(root, noAddress) }];
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
  return typeof $id === "string" && !isFragment($id) ? resolveAddress($id, base) : base;
}

export function isFragment(id: unknown): id is string {
  return typeof id === "string" && id.startsWith("#");
}

function resolveAddress(address: string, base: string): string {
  try {
    return new URL(address, base).href.replace(/#.*$/, "");
  } catch {
    return address.replace(/#.*$/, "");
  }
}

export function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

type Json = Record<string, unknown>;

/** Deeper than any schema a person writes; a lazy schema that makes a new one each time never ends. */
const maximumDepth = 100;

/**
 * Gives recursive schemas a place in `$defs`. A schema that is met again while it is still being converted
 * becomes a reference; all others are written out where they stand.
 */
export class SchemaDefinitions {
  readonly #active = new Map<object, string | undefined>();
  readonly #root: object;
  readonly #definitions: Json = {};
  #count = 0;

  constructor(root: object) {
    this.#root = root;
  }

  /** Converts one schema by `convert`, or refers to the conversion that is under way. */
  convert(schema: object, convert: () => Json): Json {
    if (this.#active.has(schema)) return { $ref: this.#reference(schema) };
    if (this.#active.size >= maximumDepth) return {};
    this.#active.set(schema, undefined);
    const json = convert();
    const name = this.#active.get(schema);
    this.#active.delete(schema);
    if (name === undefined) return json;
    this.#definitions[name] = json;
    return { $ref: `#/$defs/${name}` };
  }

  /** The root's JSON with the definitions it needs. */
  finish(root: Json): Json {
    return this.#count === 0 ? root : { ...root, $defs: this.#definitions };
  }

  #reference(schema: object): string {
    if (schema === this.#root) return "#";
    let name = this.#active.get(schema);
    if (name === undefined) {
      name = `schema${++this.#count}`;
      this.#active.set(schema, name);
    }
    return `#/$defs/${name}`;
  }
}

/** What a local reference such as `#/$defs/user` points to, or `undefined`. */
export function resolvePointer(root: unknown, reference: string): unknown {
  return memberAt(root, pointerSteps(reference));
}

/** `#/a/0/b~1c` as `["a", "0", "b/c"]`. A URI fragment may also be percent-encoded. */
export function pointerSteps(reference: string): string[] {
  const [, ...steps] = decode(reference.replace(/^#/, "")).split("/");
  return steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function decode(fragment: string): string {
  if (!fragment.includes("%")) return fragment;
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}

/** A schema that no value can be checked against in reasonable time. */
interface EndlessSchema {
  readonly schema: object;
  readonly problem: string;
}

interface Open {
  readonly place: SchemaPlace;
  readonly waiting: SchemaPlace[];
  total: number;
}

/** How many schemas one value may be checked against. Large unions have some hundred. */
const mostChecks = 10_000;

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
function count(start: SchemaPlace, named: Addresses, totals: Map<object, number>): EndlessSchema | undefined {
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
function checkedWith({ schema, base }: SchemaPlace, named: Addresses): SchemaPlace[] {
  const own = sameValueKeywords.flatMap((keyword) => schemasBelow(schema, keyword));
  const places = own.map((child) => ({ schema: child, base: baseOf(child, base) }));
  for (const keyword of referenceKeywords) {
    const target = schema[keyword];
    if (typeof target !== "string" || isMetaschema(target)) continue;
    const found = named.resolve(target, base);
    if (found !== undefined) places.push(found);
  }
  return places;
}

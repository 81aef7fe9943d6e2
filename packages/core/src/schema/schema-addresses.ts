import { schemaKeywords } from "./json-schema-keywords.ts";
import { resolvePointer } from "./resolve-pointer.ts";

export type Schema = Readonly<Record<string, unknown>>;

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

export function schemasBelow(schema: Schema, keyword: string): Schema[] {
  const value = schema[keyword];
  if (typeof value !== "object" || value === null) return [];
  const arrangement = schemaKeywords[keyword];
  const isMap = arrangement === "map" || keyword === "dependencies";
  if (Array.isArray(value) || isMap) return Object.values(value).filter(isSchema);
  return isSchema(value) ? [value] : [];
}

export function baseOf({ $id }: Schema, base: string): string {
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

import { isMetaschema } from "./keywords.ts";
import {
  isRecord,
  type JsonSchemaObject,
  memberAt,
  pointerSteps,
  referenceKeywords,
  sameValueKeywords,
  visitMembers,
  walkSchemas,
} from "./visit.ts";

/** A schema with the address that its references are relative to. */
export interface AddressedSchema {
  readonly schema: JsonSchemaObject;
  readonly base: string;
}

const noAddress = "schema://root/";

/** All schemas inside a schema. Finds the targets of its references: by pointer, by id or by anchor. */
export class Addresses {
  readonly schemas: AddressedSchema[] = [];
  readonly #named = new Map<string, AddressedSchema>();

  constructor(root: JsonSchemaObject) {
    const bases = new Map<object, string>();
    walkSchemas(root, ({ schema, parent }) => {
      if (bases.has(schema)) return false;
      const base = baseOf(schema, parent === undefined ? noAddress : bases.get(parent.schema)!);
      bases.set(schema, base);
      this.#add({ schema, base }, parent === undefined);
      return true;
    });
  }

  #add(addressed: AddressedSchema, isRoot: boolean): void {
    const { schema, base } = addressed;
    this.schemas.push(addressed);
    // Until draft 7, an id that is a fragment was what an anchor is now.
    if (isFragment(schema.$id)) this.#named.set(base + schema.$id, addressed);
    if (isRoot || (typeof schema.$id === "string" && !isFragment(schema.$id)))
      this.#named.set(base, addressed);
    for (const anchor of [schema.$anchor, schema.$dynamicAnchor]) {
      if (typeof anchor === "string") this.#named.set(`${base}#${anchor}`, addressed);
    }
  }

  /** The referenced value, which need not be a schema, and the address of its document. */
  find(reference: string, base: string): { readonly value: unknown; readonly base: string } | undefined {
    const hash = reference.indexOf("#");
    const address = hash === -1 ? reference : reference.slice(0, hash);
    const fragment = hash === -1 ? "" : reference.slice(hash);
    const document = this.#named.get(address === "" ? base : resolveAddress(address, base));
    if (document === undefined) return undefined;
    if (fragment.startsWith("#/")) {
      return { value: memberAt(document.schema, pointerSteps(fragment)), base: document.base };
    }
    const named = fragment === "" || fragment === "#" ? document : this.#named.get(document.base + fragment);
    return named && { value: named.schema, base: named.base };
  }
}

function baseOf({ $id }: JsonSchemaObject, base: string): string {
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

/** How many schemas one value may be checked against. Large unions have some hundred. */
const mostChecks = 10_000;

/**
 * Finds a schema that takes too many checks of one value, or that leads back to itself. References multiply:
 * thirty definitions with two references each to the next definition take three kilobytes, and a thousand
 * million checks of one value. Takes time linear in the size of the schema.
 */
export function findEndless(root: JsonSchemaObject): { schema: object; problem: string } | undefined {
  const addresses = new Addresses(root);
  const totals = new Map<object, number>();
  const open = new Set<object>();
  // Uses its own stack: chains of references may be longer than the call stack.
  const stack: { readonly schema: JsonSchemaObject; readonly waiting: AddressedSchema[]; total: number }[] =
    [];
  const begin = (next: AddressedSchema) => {
    open.add(next.schema);
    stack.push({ schema: next.schema, waiting: checkedWith(next, addresses), total: 1 });
  };
  for (const start of addresses.schemas) {
    if (!totals.has(start.schema)) begin(start);
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      if (top.total > mostChecks) {
        return { schema: top.schema, problem: `stands for more than ${mostChecks} checks of one value` };
      }
      const next = top.waiting.pop();
      if (next === undefined) {
        stack.pop();
        open.delete(top.schema);
        totals.set(top.schema, top.total);
        const above = stack.at(-1);
        if (above !== undefined) above.total += top.total;
      } else if (open.has(next.schema)) {
        return { schema: next.schema, problem: "leads back to itself without a step into the value" };
      } else if (totals.has(next.schema)) top.total += totals.get(next.schema)!;
      else begin(next);
    }
  }
  return undefined;
}

/** The schemas that a value must also be checked against when it is checked against this one. */
function checkedWith({ schema, base }: AddressedSchema, addresses: Addresses): AddressedSchema[] {
  const found: AddressedSchema[] = [];
  const add = (part: unknown, from: string) => {
    if (isRecord(part)) found.push({ schema: part, base: baseOf(part, from) });
  };
  visitMembers(schema, (part, [keyword]) => {
    if (sameValueKeywords.includes(keyword)) add(part, base);
  });
  for (const keyword of referenceKeywords) {
    const target = schema[keyword];
    if (typeof target !== "string" || isMetaschema(target)) continue;
    const there = addresses.find(target, base);
    if (there !== undefined) add(there.value, there.base);
  }
  return found;
}

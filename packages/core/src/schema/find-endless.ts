import { isMetaschema, referenceKeywords, sameValueKeywords } from "./json-schema-keywords.ts";
import {
  type Addresses,
  addressesIn,
  baseOf,
  type SchemaPlace as Place,
  type Schema,
  schemasBelow,
} from "./schema-addresses.ts";

/** A schema that no value can be checked against in reasonable time. */
export interface EndlessSchema {
  readonly schema: object;
  readonly problem: string;
}

interface Open {
  readonly place: Place;
  readonly waiting: Place[];
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

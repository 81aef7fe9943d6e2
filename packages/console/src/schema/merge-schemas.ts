import { isRecord } from "./is-record.ts";
export type Keywords = Readonly<Record<string, unknown>>;

/** One schema that asks for what both ask for, as far as a form needs to know; `second` has the last word. */
export function mergeSchemas(first: Keywords, second: Keywords): Keywords {
  const merged: Record<string, unknown> = { ...first, ...second };
  const properties = [first.properties, second.properties].filter(isRecord);
  if (properties.length === 2) merged.properties = mergeProperties(properties[0]!, properties[1]!);
  const required = [first.required, second.required].filter((list) => Array.isArray(list));
  if (required.length === 2) merged.required = [...new Set(required.flat())];
  if (Array.isArray(first.enum) && Array.isArray(second.enum)) {
    const texts = new Set(second.enum.map((value) => JSON.stringify(value)));
    merged.enum = first.enum.filter((value) => texts.has(JSON.stringify(value)));
  }
  // Both unions hold, and a field can offer only one: the second one is tried, the server knows about the other.
  if ("anyOf" in first && "oneOf" in second) delete merged.anyOf;
  return merged;
}

function mergeProperties(first: Keywords, second: Keywords): Keywords {
  const merged: Record<string, unknown> = { ...first };
  for (const [key, schema] of Object.entries(second)) {
    const before = merged[key];
    define(merged, key, isRecord(before) && isRecord(schema) ? mergeSchemas(before, schema) : schema);
  }
  return merged;
}

/** A property may be called `__proto__`, which an assignment would take for something else. */
function define(target: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

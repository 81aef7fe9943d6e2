export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A deep copy holding nothing but JSON. Throws for what JSON cannot hold, such as a circular object. */
export function cloneJson<T>(value: T): T {
  // JSON in, JSON out: the copy has the shape of the original.
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Deep equality of JSON values; the order of an object's keys does not matter. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => sameJson(item, b[index]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key], b[key]));
}

/** The values without repetitions, in the order of their first appearance. */
export function distinctJson<T>(values: readonly T[]): T[] {
  return values.filter((value, index) => values.findIndex((other) => sameJson(value, other)) === index);
}

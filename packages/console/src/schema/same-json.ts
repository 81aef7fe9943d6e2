/** Whether two JSON values are the same; the order of keys does not matter. */
export function sameJson(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true;
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const keys = Object.keys(left);
  if (keys.length !== Object.keys(right).length) return false;
  return keys.every(
    // Both are objects or both are arrays, and either is read by its keys.
    (key) => Object.hasOwn(right, key) && sameJson((left as Keyed)[key], (right as Keyed)[key]),
  );
}

type Keyed = Readonly<Record<string, unknown>>;

/** The part of a value at a path, or `undefined` where there is none. Inherited members do not count. */
export function memberAt(value: unknown, path: readonly unknown[]): unknown {
  let place = value;
  for (const step of path) {
    if (typeof place !== "object" || place === null) return undefined;
    const key = step as PropertyKey; // Anything else is turned into a string, and then is not found.
    if (!Object.hasOwn(place, key)) return undefined;
    place = (place as Record<PropertyKey, unknown>)[key]; // Arrays and objects are both read by key.
  }
  return place;
}

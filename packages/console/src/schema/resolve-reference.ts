/** What a `$ref` within the same document points at; undefined for anything else, which is never fetched. */
export function resolveReference(root: unknown, reference: string): unknown {
  if (reference === "#" || reference === "") return root;
  if (!reference.startsWith("#")) return undefined;
  if (!reference.startsWith("#/")) return findAnchor(root, reference.slice(1), 0);
  let at: unknown = root;
  for (const step of reference.slice(2).split("/")) {
    const key = decode(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    // The key is known to be there; arrays are reached by their numbers.
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

const DEEPEST = 12;

function findAnchor(schema: unknown, anchor: string, depth: number): unknown {
  if (typeof schema !== "object" || schema === null || depth > DEEPEST) return undefined;
  if ("$anchor" in schema && schema.$anchor === anchor) return schema;
  if ("$dynamicAnchor" in schema && schema.$dynamicAnchor === anchor) return schema;
  for (const part of Object.values(schema)) {
    const found = findAnchor(part, anchor, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

function decode(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

/** A change to one member of a value, at any depth. */
export interface Edit {
  readonly path: readonly unknown[];
  /** `undefined` takes the member out. */
  readonly value: unknown;
}

/**
 * A copy of a value with some members changed. Containers on the way to a change are copied, each once; all else is
 * shared. Every path must lead through plain objects and arrays.
 */
export function editCopy(value: unknown, edits: readonly Edit[]): unknown {
  const root: Record<string, unknown> = { value };
  const copied = new Set<unknown>();
  for (const { path, value: member } of edits) {
    let container = root;
    let key = "value";
    for (const step of path) {
      const original = container[key];
      if (!copied.has(original)) {
        container[key] = Array.isArray(original) ? original.slice() : { ...(original as object) }; // See above.
        copied.add(container[key]);
      }
      container = container[key] as Record<string, unknown>; // Arrays and objects are both written by key.
      key = String(step);
    }
    if (member === undefined) delete container[key];
    else container[key] = member;
  }
  return root.value;
}

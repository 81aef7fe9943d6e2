/** Whether something stands more than so many levels inside the value. With a list of its own: it may be deeper than the stack. */
export function nestsDeeper(value: unknown, levels: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= levels; depth++) {
    level = level.flatMap((part) => (typeof part === "object" && part !== null ? Object.values(part) : []));
    if (level.length === 0) return false;
  }
  return true;
}

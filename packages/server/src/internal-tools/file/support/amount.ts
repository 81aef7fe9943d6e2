/** `1 file`, `3 files`; `amount(2, "entry", "entries")`. */
export function amount(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

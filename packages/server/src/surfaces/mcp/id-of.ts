/** The id by which a message is answered, whatever else is wrong with it; null where it has none. */
export function idOf(message: unknown): string | number | null {
  const { id } = (message ?? {}) as { id?: unknown };
  return isId(id) ? id : null;
}

export function isId(id: unknown): id is string | number {
  return typeof id === "string" || typeof id === "number";
}

/** All scopes of these lists, each once, as OAuth writes them; undefined when there are none. */
export function joinScopes(...lists: readonly (string | undefined)[]): string | undefined {
  const scopes = new Set(lists.flatMap((list) => list?.split(/\s+/) ?? []).filter((scope) => scope !== ""));
  return scopes.size === 0 ? undefined : [...scopes].join(" ");
}

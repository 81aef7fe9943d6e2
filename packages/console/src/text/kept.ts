/** What this browser remembers under a name. A browser that keeps nothing is no reason to fail. */
export function kept(key: string): string | undefined {
  try {
    return localStorage.getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Remembers a text under a name; `undefined` forgets it. */
export function keep(key: string, text: string | undefined): void {
  try {
    if (text === undefined) localStorage.removeItem(key);
    else localStorage.setItem(key, text);
  } catch {
    // It is not remembered, and everything works all the same.
  }
}

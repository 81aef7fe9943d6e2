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

/** Puts a text into the clipboard. The API for it exists only on secure pages; elsewhere a selection is copied. */
export async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    const copied = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    if (copied) return true;
  }
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement : undefined;
  // A dialog takes the focus back from whatever lies outside of it, and with it the selection.
  const host = focused?.closest('[role="dialog"], [role="alertdialog"]') ?? document.body;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  host.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return copied;
}

export function saveFile(name: string, parts: BlobPart[], type: string): void {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The download has begun by the next turn; the data may go.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

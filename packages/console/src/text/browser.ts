/** `local`: stored in this browser; `session`: stored only in this tab. */
type Storage = "local" | "session";

/** Reads a stored text. Browsers may refuse storage, which is no failure. */
export function kept(key: string, where: Storage = "local"): string | undefined {
  try {
    return window[`${where}Storage`].getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Stores a text; `undefined` removes it. */
export function keep(key: string, text: string | undefined, where: Storage = "local"): void {
  try {
    const storage = window[`${where}Storage`];
    if (text === undefined) storage.removeItem(key);
    else storage.setItem(key, text);
  } catch {
    // Everything works without storage.
  }
}

/** Copies a text. The clipboard API exists only on secure pages; elsewhere a selection is copied. */
export async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    const copied = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    if (copied) return true;
  }
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement : undefined;
  // Appended to the dialog, if one is open: a dialog takes focus and selection from elements outside.
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
  // The download has begun by then, so the data can be released.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

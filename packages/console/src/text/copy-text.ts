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

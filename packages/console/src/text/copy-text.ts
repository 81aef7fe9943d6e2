/** Puts a text into the clipboard. The API for it exists only on secure pages; elsewhere a selection is copied. */
export async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    const copied = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    if (copied) return true;
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

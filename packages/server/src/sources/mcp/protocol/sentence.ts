/** The text with a full stop, so that another sentence can follow. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  return trimmed === "" || /[.!?…:]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

const LONGEST = 400;
const LEAD = 100;

/** A long line cut to the part around its match. */
export function clipLine(text: string, match: { readonly start: number } | undefined): string {
  if (text.length <= LONGEST) return text;
  const start = Math.max(0, Math.min((match?.start ?? 0) - LEAD, text.length - LONGEST));
  const end = Math.min(text.length, start + LONGEST);
  return `${start > 0 ? "…" : ""}${text.slice(start, end)}${end < text.length ? "…" : ""}`;
}

export const scopes = ["once", "session", "pattern"] as const;
export type Scope = (typeof scopes)[number];

/**
 * A pattern to begin with: the arguments as they are, with paths opened up to their folder. It is the person's to widen
 * or to narrow; masked secrets are left out, since nothing would ever equal them.
 */
export function suggestedPattern(input: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(input).filter(([, value]) => typeof value !== "object" && !isMasked(value));
  return Object.fromEntries(
    entries
      .filter(([, value]) => typeof value === "string")
      .map(([key, value]) => [key, opened(String(value))]),
  );
}

function opened(text: string): string {
  const slash = text.lastIndexOf("/");
  return slash > 0 && !/\s/.test(text) && !text.includes("://") ? `${text.slice(0, slash)}/*` : text;
}

function isMasked(value: unknown): boolean {
  return typeof value === "string" && /^(\*{3,}|\[redacted)/i.test(value);
}

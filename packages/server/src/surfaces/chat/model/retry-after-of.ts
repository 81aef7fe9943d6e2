/** In seconds: given so, in milliseconds, or as a date. Undefined when nothing of the kind is said. */
export function retryAfterOf(headers: Headers): number | undefined {
  const exact = numberIn(headers.get("retry-after-ms"));
  if (exact !== undefined) return Math.max(0, exact / 1000);
  const text = headers.get("retry-after");
  const seconds = numberIn(text);
  if (seconds !== undefined) return Math.max(0, seconds);
  const date = Date.parse(text ?? "");
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

function numberIn(text: string | null): number | undefined {
  if (text === null || text.trim() === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}

const formats: Readonly<Record<string, string>> = {
  email: "email",
  url: "uri",
  uuid: "uuid",
  guid: "uuid",
  datetime: "date-time",
  date: "date",
  time: "time",
  duration: "duration",
  ip: "ip",
  ipv4: "ipv4",
  ipv6: "ipv6",
  hostname: "hostname",
};

/** Writes one of Zod's string formats into a JSON Schema: as a format where there is one, else as a pattern. */
export function writeStringFormat(json: Record<string, unknown>, format: string, pattern: unknown): void {
  const known = formats[format];
  if (format === "base64" || format === "base64url") json.contentEncoding = format;
  else if (known !== undefined) json.format = known;
  else if (pattern instanceof RegExp) writePattern(json, pattern.source);
}

/** JSON Schema has one `pattern`; further ones go into `allOf`. */
export function writePattern(json: Record<string, unknown>, pattern: string): void {
  if (json.pattern === undefined) json.pattern = pattern;
  else json.allOf = [...(Array.isArray(json.allOf) ? json.allOf : []), { pattern }];
}

/** A text as the pattern that matches exactly it. */
export function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

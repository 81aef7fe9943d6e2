import type { FieldNode } from "./field-node.ts";

const byFormat: Readonly<Record<string, () => string>> = {
  date: () => new Date().toISOString().slice(0, 10),
  "date-time": () => new Date().toISOString(),
  time: () => "12:00:00Z",
  email: () => "name@example.com",
  uri: () => "https://example.com",
  url: () => "https://example.com",
  hostname: () => "example.com",
  ipv4: () => "192.0.2.1",
  ipv6: () => "2001:db8::1",
  uuid: () => "00000000-0000-4000-8000-000000000000",
};

/** A text of the form and length that are asked for. */
export function exampleText({ schema }: FieldNode): string {
  const text = byFormat[String(schema.format)]?.();
  if (text !== undefined) return text;
  const { minLength, maxLength } = schema;
  const least = typeof minLength === "number" ? Math.min(minLength, LONGEST) : 0;
  const most = typeof maxLength === "number" ? maxLength : LONGEST;
  const length = Math.max(least, Math.min(WORD.length, most));
  return WORD.repeat(Math.ceil(length / WORD.length)).slice(0, length);
}

const WORD = "text";
const LONGEST = 10_000;

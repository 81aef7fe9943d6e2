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

/** A text of the form and length that are asked for; empty where nothing is. */
export function exampleText({ schema }: FieldNode): string {
  const text = byFormat[String(schema.format)]?.() ?? "";
  const least = typeof schema.minLength === "number" ? Math.min(schema.minLength, LONGEST) : 0;
  return text === "" ? "text".repeat(Math.ceil(least / 4)).slice(0, least) : text;
}

const LONGEST = 10_000;

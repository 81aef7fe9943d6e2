import { isRecord } from "../../schema/is-record.ts";

export const scopes = ["once", "session", "pattern"] as const;
export type Scope = (typeof scopes)[number];

/**
 * A pattern to begin with, which fits the arguments as they are and nothing else: a star that a model wrote is not taken
 * for one that stands for anything. It is the person's to widen.
 */
export function suggestedPattern(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("*", "[*]");
  if (Array.isArray(value)) return value.map(suggestedPattern);
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, suggestedPattern(part)]));
}

/** Where the pattern has a mask in the place of a secret, which no call would ever equal. */
export function maskedPlaces(pattern: unknown, path = ""): string[] {
  if (typeof pattern === "string") return pattern.includes("[redacted]") ? [path] : [];
  if (typeof pattern !== "object" || pattern === null) return [];
  return Object.entries(pattern).flatMap(([key, part]) =>
    maskedPlaces(part, path === "" ? key : `${path}.${key}`),
  );
}

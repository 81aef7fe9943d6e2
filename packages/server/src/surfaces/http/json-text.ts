import { redact } from "@toolrack/core";

/** JSON of any value. What a tool returned may hold what JSON cannot: then a plain copy is sent instead. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "null";
  } catch {
    return JSON.stringify(redact(value)) ?? "null";
  }
}

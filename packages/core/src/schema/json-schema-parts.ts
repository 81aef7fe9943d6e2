import { resolvePointer } from "./resolve-pointer.ts";
import type { JsonSchemaObject } from "./types.ts";

// Readers for parts of a JSON Schema of which nothing is known yet: what is not of the right shape reads as empty.

/** What a reference inside the same schema points to, or `undefined`. */
export function followed(root: JsonSchemaObject, reference: string): unknown {
  return reference === "#" || reference.startsWith("#/") ? resolvePointer(root, reference) : undefined;
}

export function isRecord(value: unknown): value is JsonSchemaObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function keysOf(value: unknown): string[] {
  return isRecord(value) ? Object.keys(value) : [];
}

export function valuesOf(value: unknown): unknown[] {
  return isRecord(value) ? Object.values(value) : [];
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function namesIn(value: unknown): string[] {
  return listOf(value).filter((name) => typeof name === "string");
}

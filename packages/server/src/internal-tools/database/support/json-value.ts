import type { JsonValue } from "./statement.ts";

/** How many bytes of a binary value are shown. */
const SHOWN_BYTES = 1_024;

/** Any value that a database driver gives, as JSON can carry it. */
export function toJsonValue(value: unknown): JsonValue {
  if (value === null || value === undefined) return null;
  if (typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "bigint") return toSafeInteger(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (ArrayBuffer.isView(value)) return describeBytes(value);
  if (Array.isArray(value)) return value.map(toJsonValue);
  if (typeof value !== "object") return String(value);
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, toJsonValue(one)]));
}

/** A number where it is exact, its digits where it would be rounded. */
export function toSafeInteger(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}

function describeBytes(view: ArrayBufferView): JsonValue {
  const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  const shown = bytes.subarray(0, SHOWN_BYTES);
  return {
    bytes: bytes.length,
    base64: shown.toString("base64"),
    ...(shown.length < bytes.length && { isCut: true }),
  };
}

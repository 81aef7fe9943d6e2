import { redact } from "@toolrack/core";

/** Bytes of the longest JSON that is kept of arguments. */
const LONGEST = 1024 * 1024;
const SHOWN = 4_000;

/** JSON of any value. What JSON cannot hold is replaced, never a reason to lose the record. */
export function toJson(value: unknown): string {
  try {
    // Undefined for a function or a symbol.
    return JSON.stringify(value) ?? "null";
  } catch {
    return JSON.stringify(redact(value)) ?? "null";
  }
}

/** JSON of arguments; very long ones give way to their beginning. */
export function toBoundedJson(value: Readonly<Record<string, unknown>>): string {
  const json = toJson(value);
  return Buffer.byteLength(json) <= LONGEST ? json : toJson(tooLarge(json.length, json.slice(0, SHOWN)));
}

/** Stands where arguments were too large to keep, or to show in a list. */
export function tooLarge(length: number, beginning?: string): Record<string, unknown> {
  return { "[too large]": `${length} characters of JSON${beginning === undefined ? "" : `: ${beginning}…`}` };
}

/** The JSON that this store wrote; undefined for none. */
export function fromJson<Value>(json: string | null): Value | undefined {
  // The columns hold what was written with the same types.
  return json === null ? undefined : (JSON.parse(json) as Value);
}

import { editDistance } from "../tool/name.ts";
import { reasonOf } from "./visit.ts";

/** One thing that is wrong with a value. */
export interface SchemaIssue {
  /** The path of the wrong part, as people write it: `items[0].name`; empty for the value itself. */
  readonly path: string;
  readonly expected: string;
  readonly received: string;
  readonly message: string;
}

/** How many issues of a value are reported at most. */
export const maximumIssues = 20;

/** Makes an issue in the common wording. `message` replaces the standard sentence with the author's. */
export function mismatch(
  segments: readonly unknown[],
  expected: string,
  received: unknown,
  message?: string,
): SchemaIssue {
  const path = issuePath(segments);
  const came = describeReceived(received);
  const own = message === undefined || path === "" ? message : `\`${path}\`: ${message}`;
  return { path, expected, received: came, message: own ?? sentence(path, expected, came) };
}

/** Makes an issue for an unknown key. `known`: the keys that the schema lists, if it lists any. */
export function unknownKey(
  parent: readonly unknown[],
  key: string,
  value: unknown,
  known: Iterable<string> | undefined,
): SchemaIssue {
  const path = issuePath([...parent, key]);
  const names = known && [...known];
  const nearest = nearestKey(key, names ?? []);
  const hint = nearest === undefined ? listKeys(names) : `did you mean \`${nearest}\`?`;
  return {
    path,
    expected: nearest === undefined ? "no such key" : `no such key, perhaps \`${nearest}\``,
    received: describeReceived(value),
    message: `\`${path}\` is not a known key; ${hint}`,
  };
}

function sentence(path: string, expected: string, received: string): string {
  if (path === "") return `Expected ${expected}, got ${received}.`;
  if (received === "nothing") return `\`${path}\` is missing: expected ${expected}.`;
  return `Expected ${expected} at \`${path}\`, got ${received}.`;
}

function listKeys(names: readonly string[] | undefined): string {
  if (names === undefined) return "leave it out.";
  if (names.length === 0) return "no keys are taken here.";
  const shown = names.slice(0, 10).map((name) => `\`${name}\``);
  return `the keys are ${shown.join(", ")}${names.length > 10 ? ", …" : ""}.`;
}

const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/** A path as people write it: `items[0].name`, `headers["x-id"]`; empty for the value itself. */
export function issuePath(segments: readonly unknown[]): string {
  let path = "";
  for (const segment of segments) path += step(segment, path === "");
  return path;
}

function step(segment: unknown, isFirst: boolean): string {
  if (typeof segment === "number") return `[${segment}]`;
  const key = String(segment);
  if (!identifier.test(key)) return `[${JSON.stringify(key)}]`;
  return isFirst ? key : `.${key}`;
}

const longest = 80;

/** Describes a received value: `string "abc"`, `number 4`, `array of 3 items`, `nothing`. Never throws. */
export function describeReceived(value: unknown): string {
  switch (typeof value) {
    case "undefined":
      return "nothing";
    case "string":
      return `string ${clipReceived(JSON.stringify(value.length > longest ? value.slice(0, longest) : value))}`;
    case "number":
      return Number.isFinite(value) ? `number ${value}` : `${value}`;
    case "boolean":
      return `boolean ${value}`;
    case "bigint":
      return clipReceived(`bigint ${value}`);
    case "object":
      return value === null ? "null" : describeReceivedObject(value);
    default:
      return typeof value;
  }
}

function describeReceivedObject(value: object): string {
  try {
    if (Array.isArray(value))
      return value.length === 1 ? "array of 1 item" : `array of ${value.length} items`;
    const tag = Object.prototype.toString.call(value).slice(8, -1);
    if (tag !== "Object") return clipReceived(tag);
    const keys = Object.keys(value);
    if (keys.length === 0) return "empty object";
    return clipReceived(`object with ${keys.slice(0, 6).join(", ")}${keys.length > 6 ? ", …" : ""}`);
  } catch {
    // A proxy may throw.
    return "object";
  }
}

function clipReceived(text: string): string {
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}

/** The key that was most likely meant, or `undefined` when none is close. */
export function nearestKey(key: string, known: Iterable<string>): string | undefined {
  const wanted = normalize(key);
  let nearest: string | undefined;
  let allowed = Math.max(1, Math.floor(wanted.length / 3));
  for (const candidate of known) {
    const distance = editDistance(wanted, normalize(candidate), allowed);
    if (distance > allowed) continue;
    allowed = distance - 1;
    nearest = candidate;
  }
  return nearest;
}

/** Makes `filePath`, `file_path` and `file-path` equal. Clipped to bound the work. */
function normalize(key: string): string {
  return key
    .slice(0, 64)
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();
}

/** Thrown for a value that is circular, too deep or too large; the validators catch it. */
export class UnsafeValue {
  readonly issue: SchemaIssue;
  constructor(issue: SchemaIssue) {
    this.issue = issue;
  }
}

/** Makes an issue of anything thrown while a value was checked. */
export function describeFailure(error: unknown): SchemaIssue {
  if (error instanceof UnsafeValue) return error.issue;
  const frame = { path: "", expected: "a value that can be checked" };
  if (error instanceof RangeError) {
    const received = "a value that is nested too deeply or too large";
    const message = "The value is nested too deeply or too large to be checked; send a smaller one.";
    return { ...frame, received, message };
  }
  const received = "a value on which the check failed";
  return { ...frame, received, message: `The value could not be checked: ${reasonOf(error)}` };
}

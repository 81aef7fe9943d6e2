import { describeThrown, type ThrownData } from "../../remote-error.ts";

/**
 * Messages for what Node's permissions refuse, by the name of the permission. Node's own messages name
 * options that a tool's author cannot set; these say what to do instead.
 */
const explanations: Readonly<Record<string, (what: string) => string>> = {
  // The message begins with ENOENT, like the error for a missing file, so that a tool that handles missing
  // files recognises it.
  FileSystemRead: (what) =>
    `ENOENT: ${what} is not in the sandbox. A tool reads its own folder, its packages, and folders that were opened for it.`,
  FileSystemWrite: (what) =>
    `EACCES: ${what} cannot be written. A tool writes into its own folder, and into folders that were opened for it.`,
  ChildProcess: (what) =>
    `${what} was not started. A tool starts programs with await this.api.execute(command, args).`,
  WorkerThreads: () => "No thread was started: a tool is one thread.",
};

/** Describes an error that the tool or its host threw. Node's permission errors get a better message. */
export function describeFailure(thrown: unknown): ThrownData {
  const described = describeThrown(thrown);
  if (described.code !== "ERR_ACCESS_DENIED") return described;
  const { permission, resource } = thrown as Record<string, unknown>; // It is an object, because it has a code.
  const what = typeof resource === "string" && resource !== "" ? JSON.stringify(resource) : "This";
  return { ...described, message: explanations[String(permission)]?.(what) ?? described.message };
}

const DEEPEST = 100;

/**
 * Turns a value into JSON data: dates as ISO text, maps as objects, sets as lists, big integers as text, bytes as
 * base64, cycles as `[circular]`. Functions and symbols are left out, as in JSON.
 */
export function encodeJson(value: unknown, parents: readonly object[] = []): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "bigint":
      return String(value);
    case "object":
      return value === null ? null : encodeObject(value, parents);
    default:
      return undefined;
  }
}

function encodeObject(value: object, parents: readonly object[]): unknown {
  if (parents.includes(value)) return "[circular]";
  if (parents.length >= DEEPEST) return "[too deep]";
  const inside = [...parents, value];
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof RegExp || value instanceof URL) return String(value);
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return bytesOf(value).toString("base64");
  if (value instanceof Map) return encodeEntries([...value], inside);
  if (value instanceof Set || Array.isArray(value))
    return [...value].map((item) => encodeJson(item, inside) ?? null);
  if (isStream(value)) {
    // JSON would silently turn such a value into `{}`.
    throw new TypeError(
      "The tool returned a stream, a response or a generator, which is not a result. Read it, and return what it gave.",
    );
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return encodeJson(value.toJSON(), inside);
  return encodeEntries(Object.entries(value), inside);
}

export function bytesOf(value: ArrayBuffer | ArrayBufferView): Buffer {
  if (value instanceof ArrayBuffer) return Buffer.from(value);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

function encodeEntries(entries: readonly [unknown, unknown][], inside: readonly object[]): unknown {
  const encoded: Record<string, unknown> = Object.create(null);
  for (const [key, item] of entries) {
    const plain = encodeJson(item, inside);
    if (plain !== undefined) encoded[String(key)] = plain;
  }
  return encoded;
}

function isStream(value: object): boolean {
  return (
    Symbol.asyncIterator in value ||
    ("getReader" in value && typeof value.getReader === "function") ||
    ("next" in value && typeof value.next === "function" && Symbol.iterator in value) ||
    value instanceof Response
  );
}

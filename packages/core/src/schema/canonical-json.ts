/** Deeper than any argument a tool takes, and shallow enough for every stack. */
const maximumDepth = 500;

/**
 * One text for equal JSON values, whatever the order of their keys (RFC 8785). It never throws: what JSON cannot
 * hold is dropped as `JSON.stringify` does, a BigInt becomes its digits, and a part that is circular, too deep
 * or unreadable becomes a marker, so that equal values still give equal texts.
 */
export function canonicalJson(value: unknown): string {
  return write(value, []) ?? "null";
}

/** Returns `undefined` for what JSON leaves out. */
function write(value: unknown, ancestors: object[]): string | undefined {
  switch (typeof value) {
    case "string":
      return quote(value);
    case "number":
      return Number.isFinite(value) ? `${value}` : "null";
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      return `"${value}"`;
    case "object":
      return value === null ? "null" : writeContainer(value, ancestors);
    default:
      return undefined;
  }
}

function writeContainer(value: object, ancestors: object[]): string | undefined {
  if (ancestors.length >= maximumDepth) return '"[too deep]"';
  if (ancestors.includes(value)) return '"[circular]"';
  ancestors.push(value);
  const text = writeReadable(value, ancestors);
  ancestors.pop();
  return text;
}

function writeReadable(value: object, ancestors: object[]): string | undefined {
  const depth = ancestors.length;
  try {
    if (Array.isArray(value)) return writeArray(value, ancestors);
    if ("toJSON" in value && typeof value.toJSON === "function") return write(value.toJSON(), ancestors);
    return writeObject(value as Record<string, unknown>, ancestors); // Any object may be read by its own keys.
  } catch {
    // A getter, proxy or toJSON of the value threw, perhaps below this level.
    ancestors.length = depth;
    return '"[unreadable]"';
  }
}

function writeArray(value: readonly unknown[], ancestors: object[]): string {
  let text = "[";
  for (let index = 0; index < value.length; index++) {
    if (index > 0) text += ",";
    text += write(value[index], ancestors) ?? "null";
  }
  return `${text}]`;
}

function writeObject(value: Record<string, unknown>, ancestors: object[]): string {
  const keys = sortedKeys(value);
  let text = "";
  for (const key of keys) {
    const member = write(value[key], ancestors);
    if (member === undefined) continue;
    text += `${text === "" ? "{" : ","}${quote(key)}:${member}`;
  }
  return text === "" ? "{}" : `${text}}`;
}

/** By UTF-16 code units, as RFC 8785 asks. For a handful of keys, inserting beats the built-in sort. */
function sortedKeys(value: object): string[] {
  const keys = Object.keys(value);
  if (keys.length > 16) return keys.sort();
  for (let index = 1; index < keys.length; index++) {
    const key = keys[index]!;
    let place = index;
    for (; place > 0 && keys[place - 1]! > key; place--) keys[place] = keys[place - 1]!;
    keys[place] = key;
  }
  return keys;
}

/** Most strings of arguments are short and need no escape; looking is cheaper than the call to `JSON`. */
function quote(text: string): string {
  if (text.length > 40) return JSON.stringify(text);
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 32 || code === 34 || code === 92 || (code >= 0xd800 && code <= 0xdfff))
      return JSON.stringify(text);
  }
  return `"${text}"`;
}

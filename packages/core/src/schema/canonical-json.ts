/** Deeper than any argument a tool takes, and shallow enough for every stack. */
const maximumDepth = 500;

/** Nearly every value is shallower than this, and a shallow one cannot be circular. */
const maximumHastyDepth = 50;

/**
 * One text for equal JSON values, whatever the order of their keys (RFC 8785). It never throws: what JSON cannot
 * hold is dropped as `JSON.stringify` does, a BigInt becomes its digits, a set or map a list, and a part that is
 * circular, too deep or unreadable becomes a marker, so that equal values still give equal texts.
 */
export function canonicalJson(value: unknown): string {
  try {
    return write(value, 0, undefined) ?? "null";
  } catch {
    // Something in it is deep, circular or throws: once more, watching every step.
    return write(value, 0, []) ?? "null";
  }
}

/** Returns `undefined` for what JSON leaves out. Throws only when no ancestors are kept. */
function write(value: unknown, depth: number, ancestors: object[] | undefined): string | undefined {
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
      if (value === null) return "null";
      return ancestors === undefined ? writeHastily(value, depth) : writeCarefully(value, depth, ancestors);
    default:
      return undefined;
  }
}

function writeHastily(value: object, depth: number): string | undefined {
  if (depth > maximumHastyDepth) throw new RangeError("deeper than haste allows");
  return writeMembers(value, depth + 1, undefined);
}

function writeCarefully(value: object, depth: number, ancestors: object[]): string | undefined {
  if (depth >= maximumDepth) return '"[too deep]"';
  if (ancestors.includes(value)) return '"[circular]"';
  ancestors.push(value);
  try {
    return writeMembers(value, depth + 1, ancestors);
  } catch {
    // A getter, proxy or toJSON threw.
    return '"[unreadable]"';
  } finally {
    ancestors.length = depth;
  }
}

function writeMembers(value: object, depth: number, ancestors: object[] | undefined): string | undefined {
  if (Array.isArray(value)) return writeArray(value, depth, ancestors);
  if ("toJSON" in value && typeof value.toJSON === "function") return write(value.toJSON(), depth, ancestors);
  return writeObject(value as Record<string, unknown>, depth, ancestors); // Any object may be read by its own keys.
}

function writeArray(value: readonly unknown[], depth: number, ancestors: object[] | undefined): string {
  let text = "[";
  for (let index = 0; index < value.length; index++) {
    const member = write(value[index], depth, ancestors) ?? "null";
    text += index === 0 ? member : `,${member}`;
  }
  return `${text}]`;
}

function writeObject(value: Record<string, unknown>, depth: number, ancestors: object[] | undefined): string {
  const keys = sortedKeys(value);
  if (keys.length === 0 && (value instanceof Set || value instanceof Map))
    return writeArray([...value], depth, ancestors);
  let text = "";
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index]!;
    const member = write(value[key], depth, ancestors);
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

const longest = 80;

/** What came, in a few words: `string "abc"`, `number 4`, `array of 3 items`, `nothing`. Never throws. */
export function describeReceived(value: unknown): string {
  switch (typeof value) {
    case "undefined":
      return "nothing";
    case "string":
      return `string ${clip(JSON.stringify(value.length > longest ? value.slice(0, longest) : value))}`;
    case "number":
      return Number.isFinite(value) ? `number ${value}` : `${value}`;
    case "boolean":
      return `boolean ${value}`;
    case "bigint":
      return clip(`bigint ${value}`);
    case "object":
      return value === null ? "null" : describeObject(value);
    default:
      return typeof value;
  }
}

function describeObject(value: object): string {
  try {
    if (Array.isArray(value))
      return value.length === 1 ? "array of 1 item" : `array of ${value.length} items`;
    const tag = Object.prototype.toString.call(value).slice(8, -1);
    if (tag !== "Object") return clip(tag);
    const keys = Object.keys(value);
    if (keys.length === 0) return "empty object";
    return clip(`object with ${keys.slice(0, 6).join(", ")}${keys.length > 6 ? ", …" : ""}`);
  } catch {
    // A proxy may refuse to be looked at.
    return "object";
  }
}

function clip(text: string): string {
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}

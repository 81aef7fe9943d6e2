const LONGEST = 60;

/** A value in a few words, for errors: `the text "abc"`, `a list of 3`, `nothing`. */
export function kindOf(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : `a list of ${value.length}`;
  switch (typeof value) {
    case "string":
      return `the text ${JSON.stringify(value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value)}`;
    case "number":
    case "boolean":
      return `the ${typeof value} ${value}`;
    case "object":
      return "an object";
    default:
      return `a ${typeof value}`;
  }
}

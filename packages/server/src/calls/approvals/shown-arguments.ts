/** How many characters every value gets at least, however little room there is. */
const LEAST = 24;

/**
 * Arguments as text for the approver, in about `room` characters. Long values are shortened, with a note by
 * how much, so that a long argument cannot hide the others. Arguments are left out only when there are too
 * many to name; then a note says how many are missing.
 */
export function shownArguments(input: Readonly<Record<string, unknown>>, room: number): string {
  const whole = JSON.stringify(input, null, 2);
  return whole.length <= room ? whole : shortened(input, room, "");
}

function shortened(value: unknown, room: number, indent: string): string {
  if (typeof value === "string") return shortenedText(value, room);
  if (Array.isArray(value)) {
    const parts = value.map((item): Part => ({ label: "", value: item }));
    return shortenedParts(parts, room, indent, "[]", "items");
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const parts = Object.entries(value).map(([key, item]): Part => ({ label: labelOf(key), value: item }));
  return shortenedParts(parts, room, indent, "{}", "keys");
}

interface Part {
  /** The key, as it is written before the value. */
  readonly label: string;
  readonly value: unknown;
}

function shortenedParts(
  parts: readonly Part[],
  room: number,
  indent: string,
  [open, close]: string,
  what: string,
): string {
  const inner = `${indent}  `;
  const frame = inner.length + 2;
  const shown: (Part & { readonly whole: string })[] = [];
  let left = room - 2 - indent.length;
  let kept = 0;
  for (const part of parts) {
    const whole = (JSON.stringify(part.value, null, 2) ?? "null").replaceAll("\n", `\n${inner}`);
    const least = leastFor(whole.length);
    const taken = frame + part.label.length + least;
    if (left < taken) break;
    left -= taken;
    kept += least;
    shown.push({ ...part, whole });
  }
  if (shown.length === 0)
    return parts.length === 0 ? `${open}${close}` : `${open}… ${parts.length} ${what}${close}`;
  const rooms = shares(
    shown.map(({ whole }) => whole.length),
    left + kept,
  );
  const lines = shown.map(({ label, value, whole }, at) => {
    return `${inner}${label}${whole.length <= rooms[at]! ? whole : shortened(value, rooms[at]!, inner)}`;
  });
  const missing = parts.length - shown.length;
  if (missing > 0) lines.push(`${inner}… ${missing} more ${what} are not shown here`);
  return `${open}\n${lines.join(",\n")}\n${indent}${close}`;
}

function leastFor(length: number): number {
  return Math.min(LEAST, length);
}

/**
 * Divides the room among the values. A value that needs less than its share leaves the rest to the others.
 */
function shares(needs: readonly number[], room: number): number[] {
  let left = room;
  let others = needs.length;
  const given = new Array<number>(needs.length).fill(0);
  for (const [at, need] of [...needs.entries()].sort(([, one], [, other]) => one - other)) {
    given[at] = Math.max(leastFor(need), Math.min(need, Math.floor(left / others)));
    left -= given[at]!;
    others--;
  }
  return given;
}

function shortenedText(text: string, room: number): string {
  const most = Math.max(0, room - LEAST);
  // A character that JSON escapes takes more room than one character.
  const size = JSON.stringify(text.slice(0, most)).length - 2;
  const length = size <= most ? most : Math.floor((most * most) / size);
  const shown = text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");
  return `${JSON.stringify(shown).slice(0, -1)}…" (${text.length - shown.length} more characters)`;
}

/** A long key must not hide its value. */
function labelOf(key: string): string {
  const shown = key.length <= LONGEST_KEY ? JSON.stringify(key) : shortenedText(key, LONGEST_KEY);
  return `${shown}: `;
}

const LONGEST_KEY = 100;

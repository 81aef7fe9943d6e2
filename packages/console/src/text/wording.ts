export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function shellWords(words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}

/** A command for this workspace that works in any folder, if the server tells program and folder. */
export function programLine(
  server: { readonly program?: readonly string[]; readonly workspace?: string } | undefined,
  ...words: readonly string[]
): string {
  const { program = ["toolrack"], workspace } = server ?? {};
  return shellWords([...program, ...words, ...(workspace === undefined ? [] : ["--dir", workspace])]);
}

/** A moment of RFC 3339 as a date-time picker takes it, in local time; empty for any other text. */
export function localMoment(text: string): string {
  const at = /^\d{4}-\d\d-\d\dT\d\d:\d\d/i.test(text) ? new Date(text) : undefined;
  if (at === undefined || Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** What a date-time picker gives, as a moment of RFC 3339 with the offset of the local time. */
export function withOffset(local: string): string {
  const minutes = -new Date(local).getTimezoneOffset();
  const two = (part: number) => String(Math.floor(Math.abs(part))).padStart(2, "0");
  const offset = minutes === 0 ? "Z" : `${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
  return `${local.length === 16 ? `${local}:00` : local}${offset}`;
}

export interface DiffLine {
  readonly kind: "same" | "added" | "removed";
  readonly text: string;
}

/** If more lines differ, all are shown as replaced: the table for comparing grows with the square. */
const MOST_LINES = 1_500;

/** The removed, added and common lines of two texts in one list. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const left = before.split("\n");
  const right = after.split("\n");
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start++;
  let end = 0;
  while (end < left.length - start && end < right.length - start && left.at(-1 - end) === right.at(-1 - end))
    end++;
  return [
    ...left.slice(0, start).map(same),
    ...middle(left.slice(start, left.length - end), right.slice(start, right.length - end)),
    ...left.slice(left.length - end).map(same),
  ];
}

function middle(left: readonly string[], right: readonly string[]): DiffLine[] {
  if (left.length > MOST_LINES || right.length > MOST_LINES)
    return [...left.map(removed), ...right.map(added)];
  // lengths[i][j]: length of the longest common subsequence of the lines from i and from j on.
  const lengths = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      lengths[i]![j] =
        left[i] === right[j]
          ? lengths[i + 1]![j + 1]! + 1
          : Math.max(lengths[i + 1]![j]!, lengths[i]![j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) {
      lines.push(same(left[i++]!));
      j++;
    } else if (lengths[i + 1]![j]! >= lengths[i]![j + 1]!) lines.push(removed(left[i++]!));
    else lines.push(added(right[j++]!));
  }
  return [...lines, ...left.slice(i).map(removed), ...right.slice(j).map(added)];
}

const same = (text: string): DiffLine => ({ kind: "same", text });
const added = (text: string): DiffLine => ({ kind: "added", text });
const removed = (text: string): DiffLine => ({ kind: "removed", text });

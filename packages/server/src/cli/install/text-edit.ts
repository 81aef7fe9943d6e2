/** What stands from `start` up to `end` becomes `text`. */
export interface TextEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The edits must not overlap. */
export function applyEdits(text: string, edits: readonly TextEdit[]): string {
  const lastFirst = edits.toSorted((one, other) => other.start - one.start);
  return lastFirst.reduce(
    (edited, { start, end, text: put }) => edited.slice(0, start) + put + edited.slice(end),
    text,
  );
}

/**
 * What the edits put there, line by line, and how many lines they take away. Nothing else of the text is shown: it is
 * somebody else's, and may hold their secrets. Where what is put there holds one of these texts, it is left out.
 */
export function describeEdits(
  text: string,
  edits: readonly TextEdit[],
  secrets: readonly string[] = [],
): string[] {
  return edits
    .toSorted((one, other) => one.start - other.start)
    .flatMap((edit) => {
      const count = linesOf(text.slice(edit.start, edit.end)).length;
      const removed = count === 0 ? [] : [`- (${count} ${count === 1 ? "line" : "lines"})`];
      const added = linesOf(without(secrets, edit.text)).map((line) => `+ ${line}`);
      if (count + added.length === 0) return [];
      // Text that begins with a line end belongs to the next line.
      const at = edit.start + (/^\r?\n/.exec(text.slice(edit.start, edit.end) || edit.text)?.[0].length ?? 0);
      const line = text.slice(0, Math.min(at, text.length)).split("\n").length;
      return [`@@ line ${line} @@`, ...removed, ...added];
    });
}

/** In JSON and TOML alike, what we put there is quoted as JSON. */
function without(secrets: readonly string[], text: string): string {
  return secrets.reduce((rest, secret) => rest.replaceAll(JSON.stringify(secret), '"…"'), text);
}

/** A comma that a neighbour needs is no change to tell of. */
function linesOf(text: string): string[] {
  return text.split(/\r?\n/).filter((line) => !/^[\s,]*$/.test(line));
}

/** As most of the text has them. */
export function lineEndOf(text: string): string {
  const all = text.split("\n").length - 1;
  return text.split("\r\n").length - 1 > all / 2 ? "\r\n" : "\n";
}

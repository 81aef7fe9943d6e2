export interface LineCounts {
  readonly lines: number;
  readonly code: number;
  readonly comments: number;
  readonly blank: number;
}

/** A piece of the text that is a comment. */
export interface CommentRange {
  readonly start: number;
  readonly end: number;
}

/** Every line counts once: as code when it holds any, as comment when it holds nothing else, or as blank. */
export function countLines(text: string, comments: readonly CommentRange[]): LineCounts {
  const lines = splitLines(text);
  const bare = splitLines(withoutComments(text, comments));
  let code = 0;
  let blank = 0;
  for (const [index, line] of lines.entries()) {
    if (line.trim() === "") blank += 1;
    else if (bare[index]?.trim() !== "") code += 1;
  }
  return { lines: lines.length, code, comments: lines.length - code - blank, blank };
}

/** The comments that an expression finds, for languages that are not parsed. */
export function findComments(text: string, comments: RegExp | undefined): CommentRange[] {
  if (comments === undefined) return [];
  return [...text.matchAll(comments)].map((match) => ({
    start: match.index,
    end: match.index + match[0].length,
  }));
}

function withoutComments(text: string, comments: readonly CommentRange[]): string {
  let bare = "";
  let from = 0;
  for (const { start, end } of comments) {
    bare += text.slice(from, start) + text.slice(start, end).replace(/[^\n]+/g, "");
    from = end;
  }
  return bare + text.slice(from);
}

/** A newline at the end closes the last line; it does not begin another. */
function splitLines(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

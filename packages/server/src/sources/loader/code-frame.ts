/** Lines that are shown before and after the one at fault. */
const AROUND = 2;
const LONGEST_LINE = 160;

/**
 * The lines around a place in a source text, with the place marked:
 *
 *       3 | const a = 1;
 *     > 4 | const b = ;
 *         |           ^
 *
 * `line` counts from 1, `column` from 0. Undefined when the text has no such line.
 */
export function codeFrame(source: string, line: number, column?: number): string | undefined {
  const lines = source.split(/\r\n|[\n\r\u2028\u2029]/);
  if (lines[line - 1] === undefined) return undefined;
  const first = Math.max(1, line - AROUND);
  const last = Math.min(lines.length, line + AROUND);
  const width = String(last).length;
  const rows: string[] = [];
  for (let number = first; number <= last; number++) {
    const text = lines[number - 1]!;
    const mark = number === line ? ">" : " ";
    rows.push(`${mark} ${String(number).padStart(width)} | ${clip(text)}`.trimEnd());
    if (number !== line || column === undefined || column > Math.min(text.length, LONGEST_LINE)) continue;
    // Tabs stay tabs, so that the caret stands below its character whatever their width.
    rows.push(`${" ".repeat(width + 3)}| ${text.slice(0, column).replace(/[^\t]/g, " ")}^`);
  }
  return rows.join("\n");
}

function clip(line: string): string {
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}

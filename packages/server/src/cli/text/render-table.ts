import { clipDisplay, displayWidth, padDisplay } from "./display-width.ts";

export interface TableOptions {
  readonly head?: readonly string[];
  /** Columns of the terminal; without it nothing is clipped. */
  readonly columns?: number | undefined;
  /** The column that gives way when there is too little room. */
  readonly flexible?: number;
  /** Makes the head look like one. */
  readonly styleHead?: (text: string) => string;
}

const GAP = "  ";
const LEAST_ROOM = 12;
/** Off a terminal nothing is clipped, and one long cell does not push what follows far to the right in all rows. */
const WIDEST_PADDING = 80;

/** Lines of text in columns that are aligned on the screen, Chinese included. */
export function renderTable(rows: readonly (readonly string[])[], options: TableOptions = {}): string[] {
  const { head, columns, flexible, styleHead = (text: string) => text } = options;
  const all = head === undefined ? rows : [head, ...rows];
  const count = Math.max(0, ...all.map((row) => row.length));
  const widths = Array.from({ length: count }, (_, index) =>
    Math.max(0, ...all.map((row) => displayWidth(row[index] ?? ""))),
  );
  if (columns === undefined && flexible !== undefined) {
    widths[flexible] = Math.min(widths[flexible] ?? 0, WIDEST_PADDING);
  } else if (columns !== undefined && flexible !== undefined) {
    const others = widths.reduce((sum, width, index) => (index === flexible ? sum : sum + width), 0);
    const room = Math.max(LEAST_ROOM, columns - others - GAP.length * (count - 1));
    widths[flexible] = Math.min(widths[flexible] ?? 0, room);
  }
  const line = (row: readonly string[]) =>
    row
      .map((cell, index) =>
        padDisplay(
          index === flexible && columns !== undefined ? clipDisplay(cell, widths[index]!) : cell,
          widths[index]!,
        ),
      )
      .join(GAP)
      .trimEnd();
  return all.map((row) => (row === head ? styleHead(line(row)) : line(row)));
}

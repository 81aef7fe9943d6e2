export interface Table {
  readonly title: string;
  /** The first column is left-aligned, the others hold figures. */
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The table as Markdown that lines up in a terminal. */
export function renderTable({ title, columns, rows }: Table): string {
  const widths = columns.map((column, index) =>
    Math.max(...[column, ...rows.map((row) => row[index] ?? "")].map(width)),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, index) => pad(cell, widths[index]!, index)).join(" | ")} |`;
  const rule = widths.map((size, index) => (index === 0 ? "-".repeat(size) : `${"-".repeat(size - 1)}:`));
  return [`**${title}**`, "", line(columns), line(rule), ...rows.map(line), ""].join("\n");
}

/** Three significant digits, thousands separated: `36.3`, `460`, `15,526`. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function formatRatio(value: number): string {
  return `${value >= 10 ? formatNumber(Math.round(value)).replace(/\.0$/, "") : value.toFixed(1)}×`;
}

export function formatPercent(value: number): string {
  return `${Math.round(value * 100)}%`;
}

function pad(cell: string, size: number, index: number): string {
  const gap = " ".repeat(size - width(cell));
  return index === 0 ? cell + gap : gap + cell;
}

function width(cell: string): number {
  return [...cell].length;
}

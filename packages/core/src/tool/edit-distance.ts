/** One row serves every comparison: they never overlap. It grows with the longest text so far. */
let row = new Uint16Array(129);

/**
 * Levenshtein distance of two texts; `allowed + 1` when it is more than `allowed`. What the texts have in common at
 * both ends is skipped, and of the rest only a band of `allowed` edits is computed. `tally` counts that work.
 */
export function editDistance(a: string, b: string, allowed: number, tally?: { cells: number }): number {
  let start = 0;
  let aEnd = a.length;
  let bEnd = b.length;
  while (start < aEnd && start < bEnd && a.charCodeAt(start) === b.charCodeAt(start)) start++;
  while (aEnd > start && bEnd > start && a.charCodeAt(aEnd - 1) === b.charCodeAt(bEnd - 1)) {
    aEnd--;
    bEnd--;
  }
  const height = aEnd - start;
  const width = bEnd - start;
  if (Math.abs(height - width) > allowed) return allowed + 1;
  if (height === 0 || width === 0) return Math.max(height, width);
  if (row.length <= width) row = new Uint16Array(width + 1);
  for (let column = 0; column <= width; column++) row[column] = column;
  for (let i = 1; i <= height; i++) {
    const from = Math.max(1, i - allowed);
    const to = Math.min(width, i + allowed);
    if (tally !== undefined) tally.cells += to - from + 1;
    const letter = a.charCodeAt(start + i - 1);
    let diagonal = row[from - 1]!;
    row[from - 1] = from === 1 ? i : allowed + 1;
    let least = row[from - 1]!;
    for (let j = from; j <= to; j++) {
      const above = j === i + allowed ? allowed + 1 : row[j]!;
      const substituted = diagonal + (letter === b.charCodeAt(start + j - 1) ? 0 : 1);
      diagonal = row[j]!;
      const cost = Math.min(substituted, above + 1, row[j - 1]! + 1);
      row[j] = cost;
      if (cost < least) least = cost;
    }
    if (least > allowed) return allowed + 1;
  }
  return Math.min(row[width]!, allowed + 1);
}

/** The key that was most likely meant, or `undefined` when none is close. */
export function nearestKey(key: string, known: Iterable<string>): string | undefined {
  const wanted = normalize(key);
  let nearest: string | undefined;
  let best = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of known) {
    const other = normalize(candidate);
    if (Math.abs(other.length - wanted.length) >= best) continue;
    const distance = editDistance(wanted, other);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

/** `filePath`, `file_path` and `file-path` are one word to whoever mixes them up. Clipped to bound the work. */
function normalize(key: string): string {
  return key
    .slice(0, 64)
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();
}

/** Levenshtein distance in which swapping two neighbours costs one. */
function editDistance(left: string, right: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1];
      let cost = Math.min(
        previous[column]! + 1,
        current[column - 1]! + 1,
        previous[column - 1]! + (same ? 0 : 1),
      );
      if (
        row > 1 &&
        column > 1 &&
        left[row - 1] === right[column - 2] &&
        left[row - 2] === right[column - 1]
      ) {
        cost = Math.min(cost, beforePrevious[column - 2]! + 1);
      }
      current.push(cost);
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[right.length]!;
}

import { hashText } from "../schema/hash.ts";

const canonical = /^[A-Za-z0-9_-]{1,64}$/;
// 48 bits: among 100,000 names with the same readable part, the odds of one collision are about 1 in 50,000.
const hashLength = 12;

/** Whether all supported providers accept the name unchanged. */
export function isCanonicalName(name: string): boolean {
  return canonical.test(name);
}

/**
 * Makes the name under which a tool is registered. A canonical name is returned unchanged. Any other name
 * keeps its readable start and end and gets a hash of the whole original name, so that different names stay
 * different. The result depends only on the given name, not on the machine or the order of loading.
 */
export function canonicalName(name: string, limit = 64): string {
  // On a command line, a name with a leading hyphen would be taken for an option.
  if (isCanonicalName(name) && name.length <= limit && !name.startsWith("-")) return name;
  const hash = hashText(name).slice(0, hashLength);
  const readable = name.replace(/[^A-Za-z0-9_-]+/g, "_").replace(/^[_-]+|[_-]+$/g, "") || "tool";
  const room = limit - hash.length - 1;
  if (room < 1) return hash.slice(0, limit);
  if (readable.length <= room) return `${readable}_${hash}`;
  if (room < 3) return `${readable.slice(0, room)}_${hash}`;
  const head = Math.ceil((room - 1) / 2);
  return `${readable.slice(0, head)}_${hash}_${readable.slice(readable.length - (room - 1 - head))}`;
}

/** A name without the hash that the rack has put into it; any other name as it is. */
export function withoutHash(name: string): string {
  return name.replace(hashPart, "$1");
}

/** Hexadecimal digits of both kinds: twelve as `canonicalName` makes them, eight where two servers have one name. */
const hashPart = /_(?=[a-f]*\d)(?=\d*[a-f])(?:[0-9a-f]{12}(_|$)|[0-9a-f]{8}$)/;

/** A larger edit distance is not a typing error. */
const maxEdits = 4;
const maxNameLength = 128;

/**
 * The candidates a caller most likely meant, best first: near in spelling, or sharing words. The work per
 * candidate is bounded, so a rack of 100,000 tools is searched in well under a second.
 */
export function nearestNames(name: string, candidates: Iterable<string>, limit = 3): string[] {
  if (limit < 1) return [];
  const wanted = name.slice(0, maxNameLength).toLowerCase();
  const words = wordsOf(name.slice(0, maxNameLength));
  const best: { name: string; score: number }[] = [];
  let needed = 0;
  for (const candidate of candidates) {
    const score = similarity(wanted, words, candidate.slice(0, maxNameLength).toLowerCase(), needed);
    if (score <= 0 || score < needed) continue;
    const at = best.findIndex(
      (other) => score > other.score || (score === other.score && candidate < other.name),
    );
    best.splice(at < 0 ? best.length : at, 0, { name: candidate, score });
    if (best.length > limit) best.pop();
    if (best.length === limit) needed = best[limit - 1]!.score;
  }
  return best.map((entry) => entry.name);
}

/**
 * How similar the candidate is to the wanted name, at most 1. A score below `needed` may be returned as 0,
 * which saves most of the work.
 */
function similarity(wanted: string, words: readonly string[], candidate: string, needed: number): number {
  if (wanted !== "" && candidate.startsWith(`${wanted}_`)) return completion(wanted, candidate);
  return Math.max(spelling(wanted, candidate, needed), overlap(wanted, words, candidate, needed));
}

/**
 * The score of a candidate that is the wanted name with `_` and more after it. It is higher than the score of
 * a misspelling, because two tools that claim the same name are registered with a hash after it.
 */
function completion(wanted: string, candidate: string): number {
  const extra = candidate.length - wanted.length;
  return 1 - extra / (extra + 1) / (wanted.length + 3);
}

function spelling(wanted: string, candidate: string, needed: number): number {
  const longest = Math.max(wanted.length, candidate.length);
  // One edit more than computed, so that rounding down never rejects a good candidate.
  const useful = Math.floor((1 - needed) * (longest + 1)) + 1;
  const allowed = Math.min(maxEdits, Math.floor(longest / 3), useful);
  const edits = editDistance(wanted, candidate, allowed);
  return edits > allowed ? 0 : 1 - edits / (longest + 1);
}

/** The share of the wanted name's words that occur in the candidate; lower for longer candidates. */
function overlap(wanted: string, words: readonly string[], candidate: string, needed: number): number {
  const extra = Math.max(0, candidate.length - wanted.length);
  const most = 0.6 + 0.3 / (1 + extra / wanted.length);
  if (most < needed) return 0;
  let asked = 0;
  let found = 0;
  for (const word of words) {
    asked += word.length;
    if (candidate.includes(word)) found += word.length;
  }
  return asked === 0 || found * 2 < asked ? 0 : (found / asked) * most;
}

function wordsOf(name: string): string[] {
  const parts = name
    .replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
  return [...new Set(parts.filter((part) => part.length >= 3 || /[^\p{ASCII}]/u.test(part)))].slice(0, 12);
}

/**
 * The last three rows of the table in `editDistance`, reused by every call. A longer text replaces them with
 * longer rows.
 */
let rows = [new Uint16Array(129), new Uint16Array(129), new Uint16Array(129)] as const;

/**
 * Levenshtein distance of two texts, where swapping two neighbours counts once; `allowed + 1` when it is more
 * than `allowed`. The common start and end of the texts are skipped. Of the remaining table, only the cells
 * at most `allowed` away from the diagonal are computed; `tally` counts them.
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
  if (rows[0].length <= width)
    rows = [new Uint16Array(width + 1), new Uint16Array(width + 1), new Uint16Array(width + 1)];
  let [earlier, above, row] = rows;
  for (let column = 0; column <= width; column++) above[column] = column;
  for (let i = 1; i <= height; i++) {
    const from = Math.max(1, i - allowed);
    const to = Math.min(width, i + allowed);
    if (tally !== undefined) tally.cells += to - from + 1;
    const letter = a.charCodeAt(start + i - 1);
    row[from - 1] = from === 1 ? i : allowed + 1;
    let least = row[from - 1]!;
    for (let j = from; j <= to; j++) {
      const other = b.charCodeAt(start + j - 1);
      const deleted = j === i + allowed ? allowed + 1 : above[j]! + 1;
      let cost = Math.min(above[j - 1]! + (letter === other ? 0 : 1), deleted, row[j - 1]! + 1);
      const isSwapped =
        i > 1 && j > 1 && other === a.charCodeAt(start + i - 2) && letter === b.charCodeAt(start + j - 2);
      if (isSwapped) cost = Math.min(cost, earlier[j - 2]! + 1);
      row[j] = cost;
      if (cost < least) least = cost;
    }
    if (least > allowed) return allowed + 1;
    [earlier, above, row] = [above, row, earlier];
  }
  return Math.min(above[width]!, allowed + 1);
}

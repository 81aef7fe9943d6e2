/**
 * What somebody may have meant by a term that no tool contains. The last word of a request may be unfinished,
 * so it stands for the terms it begins; any word stands for the terms one slip away (a letter missing, added,
 * changed, or two swapped); and an unfinished word for the stem it has already outgrown (`calculat` for
 * `calcul`). Reads the whole vocabulary once, so it is meant for short requests.
 */
export function similarTerms(term: string, vocabulary: Iterable<string>, unfinished: boolean): string[] {
  const continued: string[] = [];
  const misspelt: string[] = [];
  let outgrown = "";
  for (const candidate of vocabulary) {
    if (term.length >= MIN_LENGTH && isOneSlipAway(term, candidate)) misspelt.push(candidate);
    if (!unfinished) continue;
    if (candidate.startsWith(term)) continued.push(candidate);
    const isLonger = candidate.length >= MIN_LENGTH && candidate.length > outgrown.length;
    if (isLonger && term.startsWith(candidate)) outgrown = candidate;
  }
  if (continued.length > 0) return nearest(continued);
  if (misspelt.length > 0) return nearest(misspelt);
  return outgrown === "" ? [] : [outgrown];
}

function isOneSlipAway(left: string, right: string): boolean {
  const difference = right.length - left.length;
  if (difference < -1 || difference > 1) return false;
  let start = 0;
  while (start < left.length && left.charCodeAt(start) === right.charCodeAt(start)) start++;
  if (difference === 1) return left.slice(start) === right.slice(start + 1);
  if (difference === -1) return left.slice(start + 1) === right.slice(start);
  if (left.slice(start + 1) === right.slice(start + 1)) return true;
  const swapped = left.charAt(start + 1) + left.charAt(start);
  return swapped === right.slice(start, start + 2) && left.slice(start + 2) === right.slice(start + 2);
}

/** The shortest first; equal lengths in alphabetical order, so that the answer never varies. */
function nearest(found: string[]): string[] {
  return found
    .sort((left, right) => left.length - right.length || (left < right ? -1 : 1))
    .slice(0, MAX_SIMILAR_TERMS);
}

const MIN_LENGTH = 4;
const MAX_SIMILAR_TERMS = 8;

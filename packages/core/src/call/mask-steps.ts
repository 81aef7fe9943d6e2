export const REDACTED = "[redacted]";
/** `[redacted]` as a JSON text. */
export const HIDDEN_JSON = JSON.stringify(REDACTED);
/** `[redacted]` in base64. */
const REDACTED_BYTES = "W3JlZGFjdGVkXQ==";

/** Characters that are read in one step: a few milliseconds. */
const SLICE = 1024 * 1024;

/** What the steps have to know of a `Mask`, which says what each of these is. */
interface HiddenValues {
  readonly isEmpty: boolean;
  readonly longest: number;
  readonly withEscapes: HiddenValues;
  finds(text: string): boolean;
  covered(text: string): Uint8Array;
  hidesNumber(value: number): boolean;
  inText(text: string): string;
}

/** Work that comes in steps, done at once. */
export function atOnce<Value>(steps: Generator<void, Value>): Value {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Whether any value of the mask is in the text. */
function* findSteps(mask: HiddenValues, text: string): Generator<void, boolean> {
  const overlap = mask.longest - 1;
  for (let from = 0; from < text.length; from += SLICE) {
    if (from > 0) yield;
    if (mask.finds(text.slice(from, from + SLICE + overlap))) return true;
  }
  return false;
}

/**
 * The text with every value masked; the same text when it contains none. `isJson`: the text is JSON, in which a value may
 * also be written with escapes. `isFound`: it is known that a value is in it.
 */
export function* maskSteps(
  mask: HiddenValues,
  text: string,
  isJson: boolean,
  isFound = false,
): Generator<void, string> {
  if (mask.isEmpty) return text;
  if (!isFound && !(yield* findSteps(isJson ? mask.withEscapes : mask, text))) return text;
  const shown = isJson || /^\s*[{[]/.test(text) ? yield* jsonSteps(mask, text) : undefined;
  if (shown === undefined) return yield* plainSteps(mask, text);
  if (!(yield* findSteps(mask, shown))) return shown;
  return isJson ? HIDDEN_JSON : yield* plainSteps(mask, text);
}

/** Masks values that overlap or stand side by side as one, so that no part of a value is left. */
export function* plainSteps(mask: HiddenValues, text: string): Generator<void, string> {
  const overlap = mask.longest - 1;
  const pieces: string[] = [];
  let isHiding = false;
  for (let from = 0; from < text.length; from += SLICE) {
    if (from > 0) yield;
    // Every value that reaches into the slice is whole in what is looked at.
    const begin = Math.max(0, from - overlap);
    const end = Math.min(text.length, from + SLICE) - begin;
    const near = text.slice(begin, begin + end + overlap);
    const covered = mask.finds(near) ? mask.covered(near) : new Uint8Array(near.length);
    for (let at = from - begin; at < end; ) {
      const isHidden = covered[at] === 1;
      const next = covered.indexOf(isHidden ? 0 : 1, at);
      const until = next === -1 ? end : Math.min(next, end);
      if (!isHidden) pieces.push(near.slice(at, until));
      else if (!isHiding) pieces.push(REDACTED);
      isHiding = isHidden;
      at = until;
    }
  }
  return pieces.join("");
}

/** A text with the colon behind it when it is a key, a number, or the beginning of an object or a list. */
const jsonParts = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d[\d.eE+-]*|[{[]/g;

/**
 * Masks the texts, keys and numbers in a JSON text, and keeps how it is laid out. Returns undefined when one of them is no
 * JSON.
 */
export function* jsonSteps(mask: HiddenValues, json: string): Generator<void, string | undefined> {
  const parts = new RegExp(jsonParts);
  const pieces: string[] = [];
  let key = "";
  let shownTo = 0;
  let turnAt = SLICE;
  for (let found = parts.exec(json); found !== null; found = parts.exec(json)) {
    if (found.index > turnAt) {
      yield;
      turnAt = found.index + SLICE;
    }
    const [part, colon = ""] = found;
    const held = key;
    key = "";
    if (part === "{" || part === "[") continue;
    let shown = part;
    if (!part.startsWith('"')) {
      if (mask.hidesNumber(Number(part)) || mask.finds(part)) shown = HIDDEN_JSON;
    } else {
      const text = textOf(part.slice(0, part.length - colon.length));
      if (text === undefined) return undefined;
      if (colon !== "") key = text;
      const isLong = text.length > SLICE;
      if (isLong ? yield* findSteps(mask, text) : mask.finds(text)) {
        const hidden =
          hiddenBytes(text, held) ?? (isLong ? yield* plainSteps(mask, text) : mask.inText(text));
        shown = JSON.stringify(hidden) + colon;
      }
    }
    if (shown === part) continue;
    pieces.push(json.slice(shownTo, found.index), shown);
    shownTo = parts.lastIndex;
  }
  pieces.push(json.slice(shownTo));
  return pieces.join("");
}

function textOf(part: string): string | undefined {
  if (!part.includes("\\")) return part.slice(1, -1);
  try {
    return String(JSON.parse(part));
  } catch {
    return undefined;
  }
}

/**
 * What stands for base64 that contains a secret: with a part replaced it would be invalid, so it is replaced as a whole.
 * Undefined for any other text.
 */
export function hiddenBytes(text: string, key: string): string | undefined {
  if (key === "data" || key === "blob") return /^[\w+/-]+={0,2}$/.test(text) ? REDACTED_BYTES : undefined;
  return /^data:[^,]{0,200};base64,/i.test(text) ? `data:text/plain;base64,${REDACTED_BYTES}` : undefined;
}

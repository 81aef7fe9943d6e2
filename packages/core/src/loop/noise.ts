import { DIGITS, firstDigit, NAMES, signsOf } from "./text-signs.ts";

/*
 * Finds the parts in which two results differ although they say the same: times of now, measured durations, ids that nobody
 * chose, and the numbers that shells and prompts count up. Each may also be the point of a result, so it is left out only
 * where that is unlikely: a time near the time of the call, a duration after words such as "took", a number in the place where
 * a shell puts its counter, and nothing in a text without other words.
 *
 * Nearly everything here has a digit. So one loop looks for digits, a few comparisons of the characters around them rule
 * out nearly all, and patterns are tried only at the rest.
 */

/** Parts of a text that are left out, in order. */
export interface Noise {
  readonly spans: readonly NoiseSpan[];
  /** Whether the rest still says something: in `took 3 ms` or `{"now": …}` what would be left out is the message. */
  readonly isAside: boolean;
}

export interface NoiseSpan {
  readonly from: number;
  readonly to: number;
  /** It looks like an id. If the arguments of the call name it, it is data. */
  readonly isId: boolean;
}

/** What may be left out of a part of a text that a call returned at a time, in milliseconds since the epoch. */
export function noiseIn(
  text: string,
  at: number,
  from = 0,
  to = text.length,
  signs = signsOf(text),
): Noise | undefined {
  const spans: NoiseSpan[] = [];
  if (signs & DIGITS) addNumbers(spans, text, at, from, to, firstDigit(signs));
  const numbers = spans.length;
  if (signs & NAMES) addNames(spans, text, at, from, to);
  if (spans.length === 0) return undefined;
  return {
    spans: spans.length === numbers ? spans : inOrder(spans),
    isAside: isAside(text, spans, from, to),
  };
}

/** Of spans that overlap, the first. */
function inOrder(spans: NoiseSpan[]): NoiseSpan[] {
  spans.sort((one, other) => one.from - other.from || other.to - one.to);
  let end = -1;
  return spans.filter((span) => {
    if (span.from < end) return false;
    end = span.to;
    return true;
  });
}

/** Characters. A longer text certainly has other content than times. */
const LONG_ENOUGH = 400;
const TELLING_WORD =
  /(?<![\p{L}\p{N}])(?!(?:took|elapsed|duration|time|at|in|after)\b)[\p{L}\p{N}]+(?![\p{L}\p{N}]|["']?\s*[:=])/iu;

function isAside(text: string, spans: readonly NoiseSpan[], from: number, to: number): boolean {
  let left = to - from;
  for (const span of spans) left -= span.to - span.from;
  if (left > LONG_ENOUGH) return true;
  let rest = "";
  let kept = from;
  for (const span of spans) {
    rest += `${text.slice(kept, span.from)}\u0000`;
    kept = span.to;
  }
  return TELLING_WORD.test(rest + text.slice(kept, to));
}

/** request id: a1b2   REQ_ID=…   "traceId":"…"   correlation-id: …   Ray ID: … */
const LABELLED_ID = /(?:q|quest|race|elation|ay)[-_ ]?id["']?(?: ?[:=] ?| )["']?[\w.:-]*\d[\w.:-]*/gi;
/** Names that programs make up for temporary files: /tmp/tmpab12cd34, /tmp/ccQ3x8Zz.o, /tmp/pytest-of-me/pytest-12 */
const TEMPORARY_NAME =
  /(?<=\/tmp\/(?:[a-z]+-of-[^/\s]{1,40}\/)?)[\w.-]*[\dA-Z][\w.-]*(?:\/[\w-]*\d[\w.-]*)?/g;
/** How long things have been there, in a table with such a column: 3m40s */
const AGE = /(?<=\s|\\n)(?:\d+[dhms]){1,3}(?=\s|\\n|"|$)/g;
/** How many requests a service still grants: x-ratelimit-remaining: 4999 */
const REQUESTS_LEFT = /(?<=rate-?limit-(?:remaining|used|reset)["']?: ?["']?)\d+/gi;

/** What need not begin with a digit. Each is looked for only where a text has its mark; most texts have none. */
function addNames(spans: NoiseSpan[], text: string, at: number, from: number, to: number): void {
  const { month, anyMark, writtenDate } = calendarOf(at);
  const part = from === 0 && to === text.length ? text : text.slice(from, to);
  if (!anyMark.test(part)) return;
  const add = (pattern: RegExp, isId: boolean) => {
    for (const { 0: match, index } of part.matchAll(pattern))
      spans.push({ from: from + index, to: from + index + match.length, isId });
  };
  add(LABELLED_ID, true);
  if (part.includes("/tmp/")) add(TEMPORARY_NAME, true);
  if (part.includes("imit-")) add(REQUESTS_LEFT, false);
  if (/AGE|Age /.test(part)) add(AGE, false);
  if (part.includes(month) || part.includes("年")) add(writtenDate, false);
}

/** There are no digits before `first`. */
function addNumbers(
  spans: NoiseSpan[],
  text: string,
  at: number,
  from: number,
  to: number,
  first: number,
): void {
  let before = first > from ? text.charCodeAt(first - 1) : 0;
  for (let index = Math.max(from, first); index < to; index++) {
    const code = text.charCodeAt(index);
    if (code < 48 || code > 57) {
      before = code;
      continue;
    }
    let end = index + 1;
    while (end < to && isDigit(text.charCodeAt(end))) end++;
    const next = end < text.length ? text.charCodeAt(end) : 0;
    let after = noiseEnd(text, index, end, before, next, at);
    if (after > 0 && after <= to) {
      spans.push({ from: index, to: after, isId: false });
      end = after;
    } else if (isLetter(before) || isLetter(next) || next === MINUS) {
      const start = isLetter(before)
        ? startOfWord(text, index, Math.max(from, spans.at(-1)?.to ?? 0))
        : index;
      after = idEnd(text, start, end);
      if (after > 0 && after <= to) {
        spans.push({ from: start, to: after, isId: true });
        end = after;
      }
    }
    before = 48;
    index = end - 1;
  }
}

/** The end of the noise that begins with the digits from `start` to `end`, or 0. `before`, `next`: the characters around. */
function noiseEnd(
  text: string,
  start: number,
  end: number,
  before: number,
  next: number,
  at: number,
): number {
  const length = end - start;
  let found = 0;
  if (next === MINUS || next === SLASH) {
    if (length === 4) found = dateTimeEnd(text, start, at);
  } else if (next === COLON) {
    if (length === 2 && (text.charCodeAt(end + 3) === COLON || before === OPEN_SQUARE))
      found = matchAt(TIME_OF_DAY, text, start);
  } else if (next === SMALL_X) {
    if (length === 1) found = matchAt(ADDRESS, text, start);
  } else if (next === SPACE) {
    if (isUnit(text.charCodeAt(end + 1))) found = durationEnd(text, start, before);
  } else if (next === DOT || isUnit(next)) {
    found = durationEnd(text, start, before);
  }
  if (found === 0 && length >= 10) found = epochEnd(text, start, end, at);
  if (found === 0 && isLabelledTime(text, start)) found = matchAt(NUMBER, text, start);
  return found === 0 && mayBeCounter(text, start, end, before, next) ? matchAt(COUNTER, text, start) : found;
}

const SPACE = 32;
const DOLLAR = 36;
const OPEN = 40;
const CLOSE = 41;
const MINUS = 45;
const DOT = 46;
const SLASH = 47;
const COLON = 58;
const EQUALS = 61;
const GREATER = 62;
const OPEN_SQUARE = 91;
const CLOSE_SQUARE = 93;
const UNDERSCORE = 95;
const SMALL_D = 100;
const SMALL_E = 101;
const SMALL_T = 116;
const SMALL_X = 120;
const WIDE_COLON = 0xff1a;

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

function isLetter(code: number): boolean {
  return (code | 32) >= 97 && (code | 32) <= 122;
}

function matchAt(pattern: RegExp, text: string, index: number): number {
  pattern.lastIndex = index;
  return pattern.test(text) ? pattern.lastIndex : 0;
}

/** Whether no word runs into the digits. In JSON a line break is written with a letter. */
function isSeparate(text: string, start: number): boolean {
  const before = text.charCodeAt(start - 1);
  if (!isLetter(before) && !isDigit(before) && before !== UNDERSCORE) return true;
  return text[start - 2] === "\\" && (text[start - 1] === "n" || text[start - 1] === "t");
}

const ADDRESS = /0x[0-9a-fA-F]{6,16}\b/y;
const TIME_OF_DAY =
  /(?<=^|\\n|[[(]|\b(?:at|clock:|time:|now:|updated:) {1,3})\d\d:\d\d:\d\d(?:[.,]\d+)?\b(?! ?(?:left|remaining|to go))|(?<=\[)\d\d:\d\d<[^\]\n]{0,40}(?=\])/imy;

const LONGEST_WORD = 64;
const SHORTEST_ID = 8;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/iy;

function startOfWord(text: string, index: number, least: number): number {
  let start = index;
  const first = Math.max(least, index - LONGEST_WORD);
  while (start > first && (isLetter(text.charCodeAt(start - 1)) || isDigit(text.charCodeAt(start - 1))))
    start--;
  // In JSON a line break is written with a letter.
  return text[start - 1] === "\\" ? start + 1 : start;
}

/**
 * The end of a word that nobody chose, or 0: a UUID, or eight or more letters and digits that are hexadecimal or change at
 * least three times between the two.
 */
function idEnd(text: string, start: number, from: number): number {
  if (text.charCodeAt(start + 8) === MINUS && text.charCodeAt(start + 13) === MINUS)
    return matchAt(UUID, text, start);
  // Longer ones than those of memory name something, such as an account of a chain.
  if (text.charCodeAt(start + 1) === SMALL_X) return 0;
  let [end, switches, digits, isHexadecimal] = [start, 0, 0, true];
  let wasDigit = isDigit(text.charCodeAt(start));
  for (; ; end++) {
    const code = text.charCodeAt(end);
    const is = isDigit(code);
    if (!is && !isLetter(code)) break;
    if (is) digits++;
    else if ((code | 32) > 102) isHexadecimal = false;
    if (is !== wasDigit) switches++;
    wasDigit = is;
    if (end - start > 2 * LONGEST_WORD) return 0;
  }
  if (end - start < SHORTEST_ID || end < from || digits === end - start) return 0;
  return switches > 2 || (isHexadecimal && digits > 1) ? end : 0;
}

const DAY = 86_400_000;

/** Seconds, milliseconds, microseconds or nanoseconds since the epoch, within about a day of the call. */
function epochEnd(text: string, start: number, end: number, at: number): number {
  const digits = end - start;
  if (digits !== 10 && digits !== 13 && digits !== 16 && digits !== 19) return 0;
  if (!isSeparate(text, start) || isLetter(text.charCodeAt(end))) return 0;
  const seconds = Number(text.slice(start, start + 10));
  if (Math.abs(seconds * 1_000 - at) > 1.5 * DAY) return 0;
  if (digits !== 10 || text[end] !== "." || !isDigit(text.charCodeAt(end + 1))) return end;
  let after = end + 1;
  while (isDigit(text.charCodeAt(after))) after++;
  return after;
}

interface Calendar {
  /** Today, yesterday and tomorrow as `2026-11-18` and as `2026/11/18`. */
  readonly dates: readonly string[];
  /** The name of the month, and such dates with a time as mail, HTTP, logs and `date` write them. */
  readonly month: string;
  /** What a text has that holds any of the names of `addNames`. */
  readonly anyMark: RegExp;
  readonly writtenDate: RegExp;
}

let calendarDay = Number.NaN;
let calendar: Calendar = { dates: [], month: "", anyMark: /$^/, writtenDate: /$^/g };

function calendarOf(at: number): Calendar {
  const day = Math.floor(at / DAY);
  if (day === calendarDay) return calendar;
  const near = [day, day - 1, day + 1].map((one) => new Date(one * DAY));
  const clock = String.raw`\d\d:\d\d:\d\d(?:[.,]\d+)?`;
  const written = near.map((date) => {
    const [name, number, year] = [MONTHS[date.getUTCMonth()]!, date.getUTCDate(), date.getUTCFullYear()];
    return String.raw`0?${number}[ /]${name}[ /]${year}[ :]${clock}(?: ?(?:GMT|UTC|[+-]\d{4}))?|${name} {1,2}0?${number} ${clock}(?: (?:[A-Z]{3,4} )?${year})?|${year}年0?${date.getUTCMonth() + 1}月0?${number}日 ?${clock}`;
  });
  const month = MONTHS[near[0]!.getUTCMonth()]!;
  calendar = {
    dates: near.flatMap((date) => {
      const iso = date.toISOString().slice(0, 10);
      return [iso, iso.replaceAll("-", "/")];
    }),
    month,
    anyMark: new RegExp(`[iI][dD]|/tmp/|imit-|AGE|Age |年|${month}`),
    writtenDate: new RegExp(String.raw`\b(?:${written.join("|")})`, "g"),
  };
  calendarDay = day;
  return calendar;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** The end of a date of these days with a time: npm writes the time into the name of its log with underscores. */
function dateTimeEnd(text: string, start: number, at: number): number {
  const { dates } = calendarOf(at);
  if (!dates.some((date) => text.startsWith(date, start)) || !isSeparate(text, start)) return 0;
  // Most times have this form, which is read faster without a pattern.
  const isPlain = text.charCodeAt(start + 13) === COLON && text.charCodeAt(start + 16) === COLON;
  let end = isPlain ? start + 19 : matchAt(TIME_AFTER_DATE, text, start + 10);
  if (end === 0) return 0;
  const mark = text[end];
  if ((mark === "." || mark === "," || mark === "_") && isDigit(text.charCodeAt(end + 1)))
    for (end += 2; isDigit(text.charCodeAt(end)); ) end++;
  return text[end] === "Z" ? end + 1 : matchAt(ZONE, text, end) || end;
}

const TIME_AFTER_DATE = /[T _]\d\d[:_]\d\d(?:[:_]\d\d)?/y;
const ZONE = / ?(?:Z|[+-]\d\d:?\d\d)/y;

/** The letters that a unit of time begins with: s m n u h µ μ, and those of a speed: k M G. */
function isUnit(code: number): boolean {
  if (code > 127) return code === 181 || code === 956;
  return UNITS[code] === 1;
}

const UNITS = new Uint8Array(128);
for (const letter of "smnuhkMG") UNITS[letter.charCodeAt(0)] = 1;
const DURATION =
  /(?:\d+ ?h ?)?(?:\d+ ?m ?)?\d+(?:\.\d+)?(?: \([\d.]+\))? ?(?:[nuµμm]?s|m?secs?|(?:milli)?seconds?|min(?:ute)?s?)\b|(?<= at )[\d.]+ [kMG]?B\/s|[\d.]+ (?:run|assertion)s\/s/iy;
/** What a text says before a measured duration. What is still to come is data: "ready in 3s", "retry after 3s". */
const MEASURED =
  /\b(?:took|elapsed|duration|spent|estimated|real|user|sys|(?<!left |remaining )time)["')]?[\s:=]*["']?$|\b(?:pass|fail)ed {2,}$|(?<!\b(?:again|try|retry|ready|expires?|available|starts?|begins?|due|next|resets?|wait|back|(?:schedul|expect|plann|estimat|need|delay)ed) )\b(?:in|after) $| at $/i;
const AFTER_DURATION = / (?:elapsed|ago|a?sync)\b/y;
const NUMBER = /\d+(?:\.\d+)?/y;
/** What stands before a number of milliseconds: "took": 5   duration_ms 12.5   latencyMs=9 */
const LABELLED_TIME = /\btook$|(?:duration|elapsed|latency|time)_?(?:in_?)?(?:ms|millis(?:econds)?)$/i;
const PART_OF_SUMMARY = /\((?:[a-z]+ [\d.]+ ?m?s, )*[a-z]+ $/;
/** Marks of test runners at the beginning of a line. */
const TEST_LINE = /[ \t]*(?:✓|✔|√|✗|✘|×|✕|❯|ok\b|not ok\b|pass\b|fail\b)/iy;
const LONGEST_LINE = 300;

/** In JSON a line begins after an escape or a quote. */
function startOfLine(text: string, index: number): number {
  let start = index;
  for (; start > 0 && start > index - LONGEST_LINE; start--) {
    const code = text.charCodeAt(start - 1);
    if (code === 10 || code === 34 || (code === 110 && text.charCodeAt(start - 2) === 92)) break;
  }
  return start;
}

/** Whether a word, or a mark behind one, stands before an index and spaces. */
function mayEndLabel(text: string, index: number): boolean {
  const code = text.charCodeAt(index);
  if (code === SPACE) return mayEndLabel(text, index - 1);
  return (
    isLetter(code) ||
    code === COLON ||
    code === EQUALS ||
    code === 34 ||
    code === 39 ||
    code === 9 ||
    code === 10
  );
}

function isLabelledTime(text: string, start: number): boolean {
  let end = start;
  while (end > start - 4 && isBetweenLabelAndValue(text.charCodeAt(end - 1))) end--;
  if (end === start) return false;
  const last = text[end - 1];
  return (last === "s" || last === "k") && LABELLED_TIME.test(text.slice(Math.max(0, end - 24), end));
}

function isBetweenLabelAndValue(code: number): boolean {
  return code === SPACE || code === COLON || code === EQUALS || code === 34;
}

/** The end of a measured duration, or 0. Known by what the text says before it, by brackets, or by the line of a test. */
function durationEnd(text: string, start: number, before: number): number {
  const end = matchAt(DURATION, text, start);
  if (end === 0) return 0;
  // An age grows by itself: 5 seconds ago. Runs of tests say how many they did: 12.5 runs/s
  if (matchAt(AFTER_DURATION, text, end) > 0 || text.startsWith("ns/s", end - 4)) return end;
  const next = text[end];
  if (before === OPEN || before === OPEN_SQUARE) return next === ")" || next === "]" ? end : 0;
  // Parts of what a summary took: (transform 45ms, tests 3ms)
  if (
    (next === ")" || next === ",") &&
    PART_OF_SUMMARY.test(text.slice(Math.max(0, start - LONGEST_LINE), start))
  )
    return end;
  if (mayEndLabel(text, start - 1) && MEASURED.test(text.slice(Math.max(0, start - 24), start))) return end;
  if (next !== undefined && next !== "\n" && !text.startsWith("\\n", end)) return 0;
  return matchAt(TEST_LINE, text, startOfLine(text, start)) > 0 ? end : 0;
}

/**
 * The numbers that shells, prompts and runs count up, each in the place where it stands. Shells name their line in the
 * language of their user.
 */
const COUNTER = new RegExp(
  [
    // /bin/bash: line 600: …   bash: eval: line 12: …   bash: 第 12 行：…   sh: 14: …   zsh:12: …
    String.raw`(?<=(?:^|[\s"'(/\\]n?|-)(?:[a-z]{0,3}sh|environment)[:：] ?(?:[\w-]{1,20}: )?(?:[\p{L}.]{1,8} )?)\d+(?= ?行?[:：])`,
    // [1] 4242   [2]+  Done
    String.raw`(?<=^\[\d{1,4}\][-+]? )\d+$|(?<=^\[)\d+(?=\] pry\(|\][-+]?\s+(?:\d+$|Done|Running|Stopped|Exit|Killed|Terminated))`,
    // In [12]:   Out[12]:   irb(main):012:0>   octave:12>   iex(12)>   12> of Erlang   $12 = 5   $R12:   res12:   (%i12)   REPL12:1
    String.raw`(?<=\b(?:In|Out) ?\[)\d+|(?<=\birb\([^)\n]{1,40}\):)\d+(?::\d+)?(?=[>*"'])|(?<=\boctave:)\d+(?=>)`,
    String.raw`(?<=\biex\()\d+(?=\)>)|(?<=^)\d+(?=> )|(?<=^\$)\d+(?= (?:=|==>) )|(?<=^\$R|^(?:val )?res)\d+(?=: ?)`,
    String.raw`(?<=\(%[io])\d+(?=\))|(?<=\bREPL)\d+(?=:)`,
    // ==4242== of valgrind   pid=4242, tid=17   hs_err_pid4242   [ref=s12e5] and [ref=e5] of a browser's snapshot   12 turns left
    String.raw`(?<===)\d+(?===)|(?<=\bpid=|, tid=|\bhs_err_pid)\d+|(?<=\bref=s)\d+(?=e\d)|(?<=\[ref=e)\d+(?=\])`,
    // [1024] $ of a prompt that counts commands   make[2]: of a make within another
    // --seed 12302 of a run in random order
    String.raw`\d+(?= turns? (?:left|remaining))|(?<=\bseed:? )\d+|(?<=^\[)\d+(?=\] [$#%>] )|(?<=\bmake\[)\d+(?=\]:)`,
  ].join("|"),
  "muy",
);
const COUNTER_STEMS: ReadonlySet<string> = new Set(["es", "%i", "%o", "$R", "PL", "id", "=s", "=e"]);

/** The characters around a number rule out nearly all. */
function mayBeCounter(text: string, start: number, end: number, before: number, next: number): boolean {
  switch (before) {
    case SPACE: {
      const last = text.charCodeAt(start - 2);
      if (next === COLON || next === WIDE_COLON || last === CLOSE_SQUARE) return true;
      if (text.charCodeAt(start - 3) === CLOSE_SQUARE) return true;
      if (last === SMALL_D && text.startsWith("seed", start - 5)) return true;
      if (last === COLON && text.startsWith("seed", start - 6)) return true;
      if (next !== SPACE) return last === SMALL_E && text.startsWith("line", start - 5);
      const after = text.charCodeAt(end + 1);
      return (
        after === SMALL_T || after === COLON || text[end + 1] === "行" || last === COLON || last === SMALL_E
      );
    }
    case OPEN_SQUARE:
      return next === CLOSE_SQUARE;
    case COLON:
      return next === COLON || next === GREATER;
    case OPEN:
      return next === CLOSE;
    case DOLLAR:
      return next === SPACE;
    case MINUS:
      return text[start - 2] === "t";
    case EQUALS:
      return true;
    default:
      return isLetter(before) ? COUNTER_STEMS.has(text.slice(start - 2, start)) : next === GREATER;
  }
}

/*
 * Finds the parts in which two results differ although they say the same: times of now, durations, ids, and the numbers
 * that shells and prompts count up. Each may also be the point of a result, so it is left out only where that is
 * unlikely: a time near the time of the call, a duration after words such as "took", a number in the place where a shell
 * puts its counter, and nothing in a text without other words.
 *
 * Everything here has a digit. So one loop looks for digits, a few comparisons of the characters around them rule out
 * nearly all, and patterns are tried only at the rest: that takes 2 to 4 ns per character, and patterns over the whole text
 * took 9.
 */

const masked = "\u0000";

/**
 * Leaves out what may differ between two equal results of the same call, in a part of a text. `at`: milliseconds since
 * the epoch.
 */
export function maskVolatile(text: string, at: number, from = 0, to = text.length): string {
  const noiseless = maskNoise(text, at, from, to);
  const rest = mayHaveUuid(noiseless) ? noiseless.replace(uuid, masked) : noiseless;
  const part = partOf(text, from, to);
  // The rest must have more than labels: in `took 3 ms` or `{"now": …}` the masked part is the message.
  return rest === part || rest.length > longEnough || tellingWord.test(rest) ? rest : part;
}

/**
 * Leaves out the same except UUIDs: if the arguments of two calls differ, a UUID may be the one that was asked for.
 */
export function maskNoise(text: string, at: number, from = 0, to = text.length): string {
  const part = partOf(text, from, to);
  const named = maskNames(part, at);
  // The whole text is read faster than a slice of it.
  return named === part ? maskNumbers(text, at, from, to) : maskNumbers(named, at, 0, named.length);
}

/** The text itself where all of it is meant: short results are read four times, and slicing each time takes 40 ns. */
export function partOf(text: string, from: number, to: number): string {
  return from === 0 && to === text.length ? text : text.slice(from, to);
}

/** Characters. A longer text certainly has other content than times. */
const longEnough = 400;
const tellingWord =
  /(?<![\p{L}\p{N}])(?!(?:took|elapsed|duration|time|at|in|after)\b)[\p{L}\p{N}]+(?![\p{L}\p{N}]|["']?\s*[:=])/iu;

const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;

function mayHaveUuid(text: string): boolean {
  for (let at = text.indexOf("-"); at >= 0; at = text.indexOf("-", at + 1))
    if (text[at + 5] === "-" && text[at + 10] === "-" && text[at + 15] === "-") return true;
  return false;
}

const requestId = /\breq(?:uest[-_ ]?id["']?(?: ?[:=] ?| )["']?[\w.:-]*\d[\w.:-]*|[_-][0-9a-z]{8,}\b)/gi;
/** What Java prints for an object without a text of its own: its class and a number. */
const objectHash = /(?<=\b[A-Z][\w$]{0,80}(?:\[\])?@)[0-9a-f]{5,8}\b(?![.@-])/g;
/** Names that Python and mktemp make up for temporary files. */
const temporaryName = /(?<=\/tmp\/)tmp(?:\w{8}|\.[A-Za-z0-9]{6,12})\b/g;

/** How many requests a service still grants: x-ratelimit-remaining: 4999 */
const requestsLeft = /(?<=rate-?limit-(?:remaining|used|reset)["']?: ?["']?)\d+/gi;

/** Names and dates that need not begin with a digit. Each is looked for only where a text has its mark. */
function maskNames(text: string, at: number): string {
  let rest = text;
  // A short text is read once; of a long one, each search for a single text is faster.
  if (text.length <= 200 && !anyName.test(text))
    return text.includes(calendarOf(at).month) ? maskDates(text, at) : text;
  if (mayHaveRequestId(rest, "q") || mayHaveRequestId(rest, "Q")) rest = rest.replace(requestId, masked);
  if (rest.includes("@")) rest = rest.replace(objectHash, masked);
  if (rest.includes("/tmp/tmp")) rest = rest.replace(temporaryName, masked);
  if (rest.includes("limit-")) rest = rest.replace(requestsLeft, masked);
  return rest.includes(calendarOf(at).month) ? maskDates(rest, at) : rest;
}

const anyName = /[qQ@]|\/tmp\/tmp|limit-/;

function maskDates(text: string, at: number): string {
  return text.replace(calendarOf(at).writtenDate, masked);
}

const afterRequest = /[_-]|uest[-_ ]?id/iy;

function mayHaveRequestId(text: string, letter: string): boolean {
  for (let at = text.indexOf(letter); at >= 0; at = text.indexOf(letter, at + 1))
    if (matchAt(afterRequest, text, at + 1) > 0) return true;
  return false;
}

function maskNumbers(text: string, at: number, from: number, to: number): string {
  let rest = "";
  let kept = from;
  let before = 0;
  for (let index = from; index < to; index++) {
    const code = text.charCodeAt(index);
    if (code < 48 || code > 57) {
      before = code;
      continue;
    }
    let end = index + 1;
    while (end < to && isDigit(text.charCodeAt(end))) end++;
    const after = noiseEnd(text, index, end, before, at);
    if (after > 0 && after <= to) {
      rest += text.slice(kept, index) + masked;
      kept = after;
      end = after;
    }
    before = 48;
    index = end - 1;
  }
  return kept === from ? partOf(text, from, to) : rest + text.slice(kept, to);
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** The end of the noise that begins with the digits from `start` to `end`, or 0. `before`: the character before. */
function noiseEnd(text: string, start: number, end: number, before: number, at: number): number {
  const length = end - start;
  const next = text.charCodeAt(end);
  let found = 0;
  if (next === MINUS || next === SLASH) {
    if (length === 4) found = dateTimeEnd(text, start, at);
  } else if (next === COLON) {
    if (length === 2) found = matchAt(timeOfDay, text, start);
  } else if (next === SMALL_X) {
    if (length === 1) found = matchAt(address, text, start);
  } else if (next === SPACE) {
    const unit = text.charCodeAt(end + 1);
    if (isUnit(unit) || unit === SMALL_K) found = durationEnd(text, start, before);
  } else if (next === DOT || isLetter(next) || next > 127) {
    if (next === DOT ? isDigit(text.charCodeAt(end + 1)) : isUnit(next))
      found = durationEnd(text, start, before);
  }
  if (found === 0 && length >= 10) found = epochEnd(text, start, end, at);
  return found === 0 ? counterEnd(text, start, end, before, next) : found;
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
const SMALL_K = 107;
const SMALL_X = 120;

function matchAt(pattern: RegExp, text: string, index: number): number {
  pattern.lastIndex = index;
  return pattern.test(text) ? pattern.lastIndex : 0;
}

/** Whether no word runs into the digits. In JSON a line break is written with a letter. */
function isSeparate(text: string, start: number): boolean {
  const before = text[start - 1];
  if (before === undefined || !/\w/.test(before)) return true;
  return text[start - 2] === "\\" && (before === "n" || before === "t");
}

const address = /0x[0-9a-fA-F]{6,16}\b/y;
const timeOfDay =
  /(?<=^|\\n|[[(]|\bat )\d\d:\d\d:\d\d(?:[.,]\d+)?\b(?! ?(?:left|remaining|to go))|(?<=\[)\d\d:\d\d<[^\]\n]{0,40}(?=\])/my;

const millisecondsOfDay = 86_400_000;

/** Seconds, milliseconds, microseconds or nanoseconds since the epoch, within about a day of the call. */
function epochEnd(text: string, start: number, end: number, at: number): number {
  const digits = end - start;
  if (digits !== 10 && digits !== 13 && digits !== 16 && digits !== 19) return 0;
  if (!isSeparate(text, start) || /\w/.test(text[end] ?? "")) return 0;
  const seconds = Number(text.slice(start, start + 10));
  if (Math.abs(seconds * 1_000 - at) > 1.5 * millisecondsOfDay) return 0;
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
  readonly writtenDate: RegExp;
}

let calendarDay = Number.NaN;
let calendar: Calendar = { dates: [], month: "", writtenDate: /$^/g };

function calendarOf(at: number): Calendar {
  const day = Math.floor(at / millisecondsOfDay);
  if (day === calendarDay) return calendar;
  const near = [day - 1, day, day + 1].map((one) => new Date(one * millisecondsOfDay));
  const clock = String.raw`\d\d:\d\d:\d\d(?:[.,]\d+)?`;
  const written = near.map((date) => {
    const [name, number, year] = [months[date.getUTCMonth()]!, date.getUTCDate(), date.getUTCFullYear()];
    return String.raw`0?${number}[ /]${name}[ /]${year}[ :]${clock}(?: ?(?:GMT|UTC|[+-]\d{4}))?|${name} {1,2}0?${number} ${clock}(?: (?:[A-Z]{3,4} )?${year})?`;
  });
  calendar = {
    // The dates of today come first, because nearly all are.
    dates: [1, 0, 2].flatMap((index) => {
      const iso = near[index]!.toISOString().slice(0, 10);
      return [iso, iso.replaceAll("-", "/")];
    }),
    month: months[near[1]!.getUTCMonth()]!,
    writtenDate: new RegExp(String.raw`\b(?:${written.join("|")})`, "g"),
  };
  calendarDay = day;
  return calendar;
}

/** The end of a date of these days with a time: npm writes the time into the name of its log with underscores. */
function dateTimeEnd(text: string, start: number, at: number): number {
  const { dates } = calendarOf(at);
  if (!dates.some((date) => text.startsWith(date, start)) || !isSeparate(text, start)) return 0;
  // Most times have this form, which is read faster without a pattern.
  const isPlain = text.charCodeAt(start + 13) === COLON && text.charCodeAt(start + 16) === COLON;
  const end = isPlain ? start + 19 : matchAt(timeAfterDate, text, start + 10);
  return end > 0 && !isDigit(text.charCodeAt(end)) ? matchAt(zone, text, end) || end : end;
}

const timeAfterDate = /[T _]\d\d[:_]\d\d(?:[:_]\d\d)?/y;
const zone = /(?:[.,_]\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?/y;

const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** The letters that a unit of time begins with: s m n u h µ μ. */
function isUnit(code: number): boolean {
  if (code > 127) return code === 181 || code === 956;
  return code === 115 || code === 109 || code === 110 || code === 117 || code === 104;
}

const duration = String.raw`(?:\d+ ?h ?)?(?:\d+ ?m ?)?\d+(?:\.\d+)? ?(?:[nuµμm]?s|m?secs?|(?:milli)?seconds?|min(?:ute)?s?)\b`;
const anyDuration = new RegExp(duration, "iy");

/** Marks of test runners at the beginning of a line. */
const verdictOfTest = /[ \t]*(?:✓|✔|√|✗|✘|×|❯|ok\b|not ok\b|pass\b|fail\b)/iy;

/** Whether the line that ends in this duration is that of a test. In JSON a line begins after an escape or a quote. */
function isTestLine(text: string, start: number): boolean {
  let first = start;
  for (; first > 0 && first > start - 300; first--) {
    const code = text.charCodeAt(first - 1);
    if (code === 10 || code === 34 || (code === 110 && text.charCodeAt(first - 2) === 92)) break;
  }
  return matchAt(verdictOfTest, text, first) > 0;
}

/** Of Maven: "(12 kB at 34 kB/s)". */
const speed = /(?<=\(\d[\d.]* [kMG]?B at )[\d.]+ [kMG]?B\/s(?=\))/y;

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));
const measures = words("took elapsed duration spent real user sys");
const measuredThings = words(
  "packages modules files tests rows items results records hits matches changes requests entries errors warnings warning",
);
const endings = words("done complete built ran timeout");

/**
 * The end of a measured duration, or 0. Known by the words before it, as in "took 3s", "done in 3s", "failed after 3s",
 * "duration: 3s", but not in "ready in 3s" or "retry after 3s"; by brackets around it; or by a test runner's line that it
 * ends.
 */
function durationEnd(text: string, start: number, before: number): number {
  const end = anyDurationEnd(text, start);
  if (end === 0) return before === SPACE ? matchAt(speed, text, start) : 0;
  const next = text[end];
  if (before === OPEN || before === OPEN_SQUARE) return next === ")" || next === "]" ? end : 0;
  if (isMeasured(text, start)) return end;
  if (next === undefined || next === "\n" || text.startsWith("\\n", end))
    return isTestLine(text, start) ? end : 0;
  return text.startsWith(" elapsed", end) ? end : 0;
}

const unitNames = words(
  "s ms ns us µs μs sec secs msec msecs second seconds millisecond milliseconds min mins minute minutes",
);

function anyDurationEnd(text: string, start: number): number {
  let at = start;
  while (isDigit(text.charCodeAt(at)) || text.charCodeAt(at) === DOT) at++;
  if (text.charCodeAt(at) === SPACE) at++;
  let end = at;
  while (end < at + 13 && (isLetter(text.charCodeAt(end)) || isUnit(text.charCodeAt(end)))) end++;
  const unit = text.slice(at, end);
  if (unit === "h" || unit === "m") return matchAt(anyDuration, text, start);
  return unitNames.has(unit) || unitNames.has(unit.toLowerCase()) ? end : 0;
}

function isMeasured(text: string, start: number): boolean {
  let end = start;
  while (end > start - 14 && isBetween(text.charCodeAt(end - 1))) end--;
  const word = wordBefore(text, end);
  if (measures.has(word)) return true;
  const earlier = wordBefore(text, end - word.length - 1);
  if (word === "time") return earlier !== "left" && earlier !== "remaining";
  if (word !== "in" && word !== "after") return false;
  if (endings.has(earlier) || (word === "in" && measuredThings.has(earlier))) return true;
  if (earlier.endsWith("ed"))
    return earlier.length > 3 && !/^(?:schedul|expect|plann|estimat|need|delay)/.test(earlier);
  if (earlier === "out") return wordBefore(text, end - word.length - 5) === "timed";
  return earlier === "" && text.startsWith("target(s) in", end - 12);
}

/** Spaces, quotes, `:` and `=` between a word and its number. */
function isBetween(code: number): boolean {
  return (
    code === SPACE ||
    code === COLON ||
    code === EQUALS ||
    code === 34 ||
    code === 39 ||
    code === 9 ||
    code === 10
  );
}

function wordBefore(text: string, end: number): string {
  let start = end;
  while (start > end - 22 && isLetter(text.charCodeAt(start - 1))) start--;
  return text.slice(Math.max(0, start), end).toLowerCase();
}

function isLetter(code: number): boolean {
  return (code | 32) >= 97 && (code | 32) <= 122;
}

/*
 * The numbers that shells, prompts and runs count up, by the character before the number. `counterEnd` looks at the
 * characters around a number before it tries one of these.
 */

/** /bin/bash: line 600: …   bash: eval: line 12: …   here-document at line 603 */
const shellLine =
  /(?<=(?:^|[\s"'(/\\]n?|-)(?:[a-z]{0,3}sh|environment): (?:[\w-]{1,20}: )?line )\d+(?=:)|(?<=here-document at line )\d+/my;
/** sh: 14: …   bash: line 7: 4242 Killed */
const shellNumber =
  /(?<=(?:^|[\s"'(/\\]n?)(?:da|a|k|ba|z)?sh: )\d+(?=: )|(?<=: )\d+(?= (?:Killed|Terminated|Aborted|Segmentation fault|Bus error|Illegal instruction|Floating point exception))/my;
/** [1] 4242 */
const jobProcess = /(?<=^\[\d{1,4}\][-+]? )\d+$/my;
/** You have 12 turns left */
const turnsLeft = /\d+(?= turns? (?:left|remaining))/y;
/** In [12]:   Out[12]:   Cell In[12], line 1   [12] pry(main)>   [2]+  Done   ksh[12]: */
const bracketed =
  /(?<=\b(?:In|Out) ?\[)\d+|(?<=^\[)\d+(?=\] pry\(|\][-+]?\s+(?:\d+$|Done|Running|Stopped|Exit|Killed|Terminated))|(?<=\bksh\[)\d+(?=\]:)/my;
/** zsh:12: …   irb(main):012:0>   octave:12> */
const afterColon =
  /(?<=\bzsh:)\d+(?=:)|(?<=\birb\([^)\n]{1,40}\):)\d+(?::\d+)?(?=[>*"'])|(?<=\boctave:)\d+(?=>)/y;
/** iex(12)> */
const parenthesised = /(?<=\biex\()\d+(?=\)>)/y;
/** Values that gdb, lldb and jshell print: $12 = 5 */
const printedValue = /(?<=^\$)\d+(?= (?:=|==>) )/my;
/** <ipython-input-12-1a2b3c>   <python-input-12>   /tmp/pytest-of-me/pytest-12/ */
const inputNumber =
  /(?<=<ipython-input-)\d+(?:-[0-9a-f]+)?(?=>)|(?<=<python-input-)\d+(?=>)|(?<=\/pytest-of-[^/\s]{1,40}\/pytest-)\d+/y;
/** ==4242== of valgrind and sanitizers   pid=4242, tid=… of a crashed Java */
const afterEquals = /(?<===)\d+(?===)|(?<=\bpid=)\d+(?=, tid=)|(?<=, tid=)\d+/y;
/** Scala: res12: Int   Maxima: (%i12) (%o12)   Swift: $R12:   Node: REPL12:1   Java: hs_err_pid4242   /tmp/ipykernel_4242/17 */
const afterLetter =
  /(?<=^(?:val )?res)\d+(?=: )|(?<=\(%[io])\d+(?=\))|(?<=^\$R)\d+(?=:)|(?<=\bREPL)\d+(?=:)|(?<=\bhs_err_pid)\d+|(?<=\bipykernel_)\d+(?:\/\d+)?/my;
const counterStems: ReadonlySet<string> = new Set(["es", "%i", "%o", "$R", "PL", "id", "l_"]);
/** Erlang: 12> */
const countedPrompt = /(?<=^)\d+(?=> )/my;

function counterEnd(text: string, start: number, end: number, before: number, next: number): number {
  switch (before) {
    case SPACE:
      return afterSpace(text, start, end, next);
    case OPEN_SQUARE:
      return next === CLOSE_SQUARE ? matchAt(bracketed, text, start) : 0;
    case COLON:
      return next === COLON || next === GREATER ? matchAt(afterColon, text, start) : 0;
    case OPEN:
      return next === CLOSE ? matchAt(parenthesised, text, start) : 0;
    case DOLLAR:
      return next === SPACE ? matchAt(printedValue, text, start) : 0;
    case MINUS:
      return text[start - 2] === "t" ? matchAt(inputNumber, text, start) : 0;
    case EQUALS:
      return matchAt(afterEquals, text, start);
    default:
      if (isLetter(before) || before === UNDERSCORE)
        return counterStems.has(text.slice(start - 2, start)) ? matchAt(afterLetter, text, start) : 0;
      return next === GREATER ? matchAt(countedPrompt, text, start) : 0;
  }
}

/** Most numbers stand after a space. What comes before the space, or after the number, rules out nearly all. */
function afterSpace(text: string, start: number, end: number, next: number): number {
  switch (text[start - 2]) {
    case "e":
      if (text.startsWith("line", start - 5)) return matchAt(shellLine, text, start);
      break;
    case ":":
      return next === COLON || next === SPACE ? matchAt(shellNumber, text, start) : 0;
    case "]":
    case "+":
    case "-":
      return matchAt(jobProcess, text, start);
  }
  return next === SPACE && text[end + 1] === "t" ? matchAt(turnsLeft, text, start) : 0;
}

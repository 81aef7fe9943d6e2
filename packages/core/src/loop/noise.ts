/*
 * Finds the parts in which two results differ although they say the same: times of now, durations, ids, and the numbers
 * that shells and prompts count up. Each may also be the point of a result, so it is left out only where that is
 * unlikely: a time near the time of the call, a duration after words such as "took", a number in the place where a shell
 * puts its counter, and nothing in a text without other words.
 *
 * Everything here has a digit. So one loop looks for digits, a few comparisons of the characters around them rule out
 * nearly all, and patterns are tried only at the rest: that takes about 1 ns per character, and patterns over the whole
 * text took 9.
 */

const masked = "\u0000";

/**
 * Leaves out what may differ between two equal results of the same call, in a part of a text. `at`: milliseconds since
 * the epoch.
 */
export function maskVolatile(text: string, at: number, from = 0, to = text.length): string {
  const noiseless = maskNoise(text, at, from, to);
  const rest = mayHaveUuid(noiseless) ? noiseless.replace(uuid, masked) : noiseless;
  const part = text.slice(from, to);
  // The rest must have more than labels: in `took 3 ms` or `{"now": …}` the masked part is the message.
  return rest === part || rest.length > longEnough || tellingWord.test(rest) ? rest : part;
}

/**
 * Leaves out the same except UUIDs: if the arguments of two calls differ, a UUID may be the one that was asked for.
 */
export function maskNoise(text: string, at: number, from = 0, to = text.length): string {
  const part = text.slice(from, to);
  const named = maskNames(part, at);
  // The whole text is read faster than a slice of it.
  return named === part ? maskNumbers(text, at, from, to) : maskNumbers(named, at, 0, named.length);
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

/** Names and dates that need not begin with a digit. Each is looked for only where a text has its mark. */
function maskNames(text: string, at: number): string {
  let rest = text;
  if (mayHaveRequestId(rest, "q") || mayHaveRequestId(rest, "Q")) rest = rest.replace(requestId, masked);
  if (rest.includes("@")) rest = rest.replace(objectHash, masked);
  if (rest.includes("/tmp/tmp")) rest = rest.replace(temporaryName, masked);
  const { month, writtenDate } = calendarOf(at);
  return rest.includes(month) ? rest.replace(writtenDate, masked) : rest;
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
  for (let index = from; index < to; index++) {
    if (!isDigit(text.charCodeAt(index))) continue;
    let end = index + 1;
    while (end < to && isDigit(text.charCodeAt(end))) end++;
    const after = noiseEnd(text, index, end, at);
    if (after > index && after <= to) {
      rest += text.slice(kept, index) + masked;
      kept = after;
      end = after;
    }
    index = end - 1;
  }
  return kept === from ? text.slice(from, to) : rest + text.slice(kept, to);
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** The end of the noise that begins with the digits from `start` to `end`, or 0. */
function noiseEnd(text: string, start: number, end: number, at: number): number {
  const length = end - start;
  const next = text[end];
  switch (next) {
    case "-":
    case "/":
      if (length === 4 && isSeparate(text, start)) {
        const found = matchAt(calendarOf(at).dateTime, text, start);
        if (found > 0) return found;
      }
      break;
    case ":":
      if (length === 2) {
        const found = matchAt(timeOfDay, text, start);
        if (found > 0) return found;
      }
      break;
    case "x":
      if (length === 1 && text[start] === "0") {
        const found = matchAt(address, text, start);
        if (found > 0) return found;
      }
  }
  if (length >= 10) {
    const found = isSeparate(text, start) ? epochEnd(text, start, end, at) : 0;
    if (found > 0) return found;
  }
  if (mayBeDuration(text, end, next)) {
    const found = matchAt(measuredDuration, text, start);
    if (found > 0) return found;
  }
  return counterEnd(text, start, end, next);
}

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
  if (/\w/.test(text[end] ?? "")) return 0;
  const seconds = Number(text.slice(start, start + 10));
  if (Math.abs(seconds * 1_000 - at) > 1.5 * millisecondsOfDay) return 0;
  if (digits !== 10 || text[end] !== "." || !isDigit(text.charCodeAt(end + 1))) return end;
  let after = end + 1;
  while (isDigit(text.charCodeAt(after))) after++;
  return after;
}

interface Calendar {
  /** A date of today, yesterday or tomorrow with a time. */
  readonly dateTime: RegExp;
  /** The name of the month, and such dates as mail, HTTP, logs and `date` write them. */
  readonly month: string;
  readonly writtenDate: RegExp;
}

let calendarDay = Number.NaN;
let calendar: Calendar = { dateTime: /$^/y, month: "", writtenDate: /$^/g };

function calendarOf(at: number): Calendar {
  const day = Math.floor(at / millisecondsOfDay);
  if (day === calendarDay) return calendar;
  const dates = [day - 1, day, day + 1].map((near) => new Date(near * millisecondsOfDay));
  const iso = dates.map((date) => date.toISOString().slice(0, 10).replaceAll("-", "[-/]")).join("|");
  const month = months[dates[1]!.getUTCMonth()]!;
  const clock = String.raw`\d\d:\d\d:\d\d(?:[.,]\d+)?`;
  const written = dates.map((date) => {
    const [name, number, year] = [months[date.getUTCMonth()]!, date.getUTCDate(), date.getUTCFullYear()];
    return String.raw`0?${number}[ /]${name}[ /]${year}[ :]${clock}(?: ?(?:GMT|UTC|[+-]\d{4}))?|${name} {1,2}0?${number} ${clock}(?: (?:[A-Z]{3,4} )?${year})?`;
  });
  calendar = {
    // npm writes a time into the name of its log with underscores.
    dateTime: new RegExp(
      String.raw`(?:${iso})[T _]\d\d[:_]\d\d(?:[:_]\d\d(?:[.,_]\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?`,
      "y",
    ),
    month,
    writtenDate: new RegExp(String.raw`\b(?:${written.join("|")})`, "g"),
  };
  calendarDay = day;
  return calendar;
}

const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** The letters that a unit of time begins with. */
const units = "smnuµμh";

function mayBeDuration(text: string, end: number, next: string | undefined): boolean {
  if (next === undefined) return false;
  if (units.includes(next)) return true;
  if (next === " ") return units.includes(text[end + 1] ?? "?");
  return next === "." && isDigit(text.charCodeAt(end + 1));
}

const duration = String.raw`(?:\d+ ?h ?)?(?:\d+ ?m ?)?\d+(?:\.\d+)? ?(?:[nuµμm]?s|m?secs?|(?:milli)?seconds?|min(?:ute)?s?)\b`;

/**
 * Words before a measured duration: "took 3s", "done in 3s", "failed after 3s", "duration: 3s". Not "ready in 3s" or
 * "retry after 3s".
 */
const measure = [
  "took",
  "elapsed",
  "duration",
  "spent",
  "real",
  "user",
  "sys",
  "(?<!left |remaining )time",
  "(?:done|complete|built|ran|(?!schedul|expect|plann|estimat|need|delay)[a-z]{2,20}ed|timed out|timeout) (?:in|after)",
  "(?:packages|modules|files|tests|rows|items|results|records|hits|matches|changes|requests|entries|errors|warnings?|target\\(s\\)) in",
].join("|");

/** Marks of test runners before a line that ends in a duration. In JSON a line ends with an escape. */
const verdictOfTest = String.raw`(?:^|\\n|")[ \t]*(?:✓|✔|√|✗|✘|×|❯|ok\b|not ok\b|pass\b|fail\b)`;

const measuredDuration = new RegExp(
  [
    String.raw`(?<=\b(?:${measure})["']?[:=]?\s{0,12}["']?)\b${duration}`,
    String.raw`(?<=[([])${duration}(?=[)\]])`,
    String.raw`\b${duration}(?= elapsed)`,
    String.raw`(?<=\s|\\t)${duration}(?=$|\\n)(?<=${verdictOfTest}[^\n]{1,300})`,
    // Of Maven and pip: "(12 kB at 34 kB/s)".
    String.raw`(?<=\(\d[\d.]* [kMG]?B at )[\d.]+ [kMG]?B\/s(?=\))`,
  ].join("|"),
  "gimy",
);

/*
 * The numbers that shells, prompts and runs count up. Sorted by the character before the number, so that a number in
 * other places costs one comparison.
 */
const counters: Readonly<Record<string, RegExp>> = {
  // /bin/bash: line 600: …   bash: eval: line 12: …   here-document at line 603   sh: 14: …   [1] 4242   line 7: 4242 Killed
  " ": new RegExp(
    [
      String.raw`(?<=(?:^|[\s"'(/\\]n?|-)(?:[a-z]{0,3}sh|environment): (?:[\w-]{1,20}: )?line )\d+(?=:)`,
      String.raw`(?<=here-document at line )\d+`,
      String.raw`(?<=(?:^|[\s"'(/\\]n?)(?:da|a|k|ba|z)?sh: )\d+(?=: )`,
      String.raw`(?<=^\[\d{1,4}\][-+]? )\d+$`,
      String.raw`(?<=: )\d+(?= (?:Killed|Terminated|Aborted|Segmentation fault|Bus error|Illegal instruction|Floating point exception))`,
      String.raw`\d+(?= turns? (?:left|remaining))`,
      String.raw`(?<=rate-?limit-(?:remaining|used|reset)["']?: )\d+`,
    ].join("|"),
    "imy",
  ),
  // In [12]:   Out[12]:   Cell In[12], line 1   [12] pry(main)>   [2]+  Done   ksh[12]:
  "[": /(?<=\b(?:In|Out) ?\[)\d+(?=\])|(?<=^\[)\d+(?=\] pry\(|\][-+]?\s+(?:\d+$|Done|Running|Stopped|Exit|Killed|Terminated))|(?<=\bksh\[)\d+(?=\]:)/my,
  // zsh:12: …   irb(main):012:0>   octave:12>   x-ratelimit-remaining:4999
  ":": /(?<=\bzsh:)\d+(?=:)|(?<=\birb\([^)\n]{1,40}\):)\d+(?::\d+)?(?=[>*"'])|(?<=\boctave:)\d+(?=>)|(?<=rate-?limit-(?:remaining|used|reset)["']?:)\d+/iy,
  // iex(12)>
  "(": /(?<=\biex\()\d+(?=\)>)/y,
  // gdb, lldb and jshell number the values that they print: $12 = 5
  $: /(?<=^\$)\d+(?= (?:=|==>) )/my,
  // Scala: res12: Int = 5
  s: /(?<=^(?:val )?res)\d+(?=: )/my,
  // Maxima: (%i12) (%o12)
  i: /(?<=\(%i)\d+(?=\))/y,
  o: /(?<=\(%o)\d+(?=\))/y,
  // Swift: $R12:   Node: REPL12:1
  R: /(?<=^\$R)\d+(?=:)/my,
  L: /(?<=\bREPL)\d+(?=:)/y,
  // <ipython-input-12-1a2b3c>   <python-input-12>   /tmp/pytest-of-me/pytest-12/
  "-": /(?<=<ipython-input-)\d+(?:-[0-9a-f]+)?(?=>)|(?<=<python-input-)\d+(?=>)|(?<=\/pytest-of-[^/\s]{1,40}\/pytest-)\d+/y,
  // /tmp/ipykernel_4242/1234567.py
  _: /(?<=\bipykernel_)\d+(?:\/\d+)?/y,
  // ==4242== of valgrind and sanitizers   pid=4242, tid=…
  "=": /(?<===)\d+(?===)|(?<=\bpid=)\d+(?=, tid=)|(?<=, tid=)\d+/y,
  // hs_err_pid4242.log
  d: /(?<=\bhs_err_pid)\d+/y,
};

/** Erlang: 12> */
const countedPrompt = /(?<=^)\d+(?=> )/my;

function counterEnd(text: string, start: number, end: number, next: string | undefined): number {
  const before = text[start - 1];
  if (before === undefined || before === "\n") return next === ">" ? matchAt(countedPrompt, text, start) : 0;
  if (before === " ") {
    // Most numbers stand after a space. What comes before the space, or after the number, rules out nearly all.
    const word = text[start - 2];
    const isPlace = word === "e" || word === ":" || word === "]" || word === "+" || word === "-";
    if (!isPlace && !(next === " " && text.startsWith(" turn", end))) return 0;
  }
  const pattern = counters[before];
  return pattern === undefined ? 0 : matchAt(pattern, text, start);
}

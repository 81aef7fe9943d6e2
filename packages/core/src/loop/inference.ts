import type { ToolInfo } from "../tool/types.ts";
import { COMPLAINT, IN_VAIN, signsOf } from "./text-signs.ts";

/*
 * Most tools of MCP servers do not say whether they only read, and many return their errors as plain texts. What can be
 * inferred from names, arguments and texts counts as evidence with less weight, and the verdict says so.
 */

/** What a name or arguments say: that the call only reads, that it changes something, or nothing. */
type Effect = "reads" | "changes" | undefined;

/**
 * Whether a call probably only reads: by its arguments if they name a command, a method or a statement, otherwise by the
 * name of the tool. Of a tool that says that it `changes` something, only the arguments count.
 */
export function seemsReadOnly(tool: string, args: unknown, changes = false): boolean {
  const named = effectOfName(tool);
  if (named.effect === "changes") return false;
  const told = typeof args === "object" && args !== null ? effectOfArguments(args) : undefined;
  if (told !== undefined) return told === "reads";
  if (changes || named.effect !== "reads") return false;
  return !named.isProgram || !redirects(args);
}

/** Whether a tool says that it only reads or, if it says nothing, seems to. */
export function readsOnly({ name, metadata }: Pick<ToolInfo, "name" | "metadata">, args: unknown): boolean {
  return metadata.readOnly === true || seemsReadOnly(name, args, metadata.readOnly === false);
}

/** Whether the name or a command says that the call waits, so that the time it takes itself is time waited. */
export function seemsToWait(tool: string, args?: TellingArguments): boolean {
  if (effectOfName(tool).waits) return true;
  const command = args?.command ?? args?.cmd ?? args?.script;
  return typeof command === "string" && /(?:^|[;&|\n])\s*(?:sleep|wait|watch|timeout)\b/i.test(command);
}

/** Whether the name, or that of an action in the arguments, says that each call goes one step further. */
export function seemsToStep(tool: string, args: unknown): boolean {
  if (effectOfName(tool).steps) return true;
  const { action } = (args ?? {}) as TellingArguments; // Whatever it is, it can be asked for a member.
  return typeof action === "string" && effectOfName(action.slice(0, longestAction)).steps;
}

/** Whether the name says that the tool changes something. */
export function seemsToChange(tool: string): boolean {
  return effectOfName(tool).effect === "changes";
}

/** Whether the arguments have a command, a script or a statement, so that two calls may do quite different things. */
export function namesCommand(args: unknown): boolean {
  if (typeof args !== "object" || args === null) return false;
  return commandNames.some((name) => name in args);
}

const commandNames = ["command", "cmd", "script", "code", "sql", "action", "operation", "method"];

interface NameEffect {
  readonly effect: Effect;
  readonly waits: boolean;
  /** Each call goes one further, so the same call again is not the same. */
  readonly steps: boolean;
  /** The name is that of a program of the shell, whose arguments may say that its output goes to a file. */
  readonly isProgram: boolean;
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));

const readingWords = words(
  "get list read search find query lookup fetch view show describe count check status stat stats inspect browse scroll goto print preview peek explain tree glob diff history log logs ping whoami info help ls cat grep rg head tail pwd which retrieve load scan compare validate verify analyze analyse summarize summary snapshot screenshot metrics schema exists download monitor observe lint",
);
const changingWords = words(
  "create write edit update upsert delete remove set put post send add insert apply patch start stop restart kill move rename copy upload commit push merge install uninstall deploy publish replace append save submit click type press fill drag invite assign close reopen cancel approve reject enable disable make mkdir rm mv cp touch toggle reset clear trigger schedule import reply comment archive restore lock unlock grant revoke mark subscribe transfer pay order book generate checkout rebase tag fork",
);
const waitingWords = words("wait await poll watch sleep delay");
const steppingWords = words("press key undo redo scroll swipe step next previous prev forward back zoom");
/** Names that read only if nothing else is in the name: `open_pull_request` opens something new. */
const readingNames = words(
  "open next previous prev up down view more less dir wc du df ps sort uniq stat file",
);
const shellPrograms = words(
  "ls cat head tail less more grep egrep fgrep rg ag find fd tree pwd which whereis file stat wc sort uniq cut nl diff cmp du df ps env printenv whoami id uname hostname history man type jq readlink realpath basename dirname column",
);

const mostNames = 10_000;
const knownNames = new Map<string, NameEffect>();
/** The name that was asked for last: a call asks for its tool three times (20 ns each in the map). */
let latestName = "";
let latestEffect: NameEffect | undefined;

function effectOfName(tool: string): NameEffect {
  if (tool !== latestName || latestEffect === undefined) {
    latestEffect = knownNames.get(tool) ?? readName(tool);
    latestName = tool;
  }
  return latestEffect;
}

function readName(tool: string): NameEffect {
  const parts = tool
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}]+/u);
  const has = (list: ReadonlySet<string>) => parts.some((part) => list.has(part));
  const isProgram = shellPrograms.has(tool);
  const effect = has(changingWords)
    ? "changes"
    : isProgram || readingNames.has(tool) || has(readingWords)
      ? "reads"
      : undefined;
  const found = {
    effect,
    waits: has(waitingWords),
    steps: has(steppingWords),
    isProgram,
  } satisfies NameEffect;
  if (knownNames.size >= mostNames) knownNames.clear();
  knownNames.set(tool, found);
  return found;
}

export interface TellingArguments {
  readonly command?: unknown;
  readonly cmd?: unknown;
  readonly script?: unknown;
  readonly method?: unknown;
  readonly action?: unknown;
  readonly operation?: unknown;
  readonly sql?: unknown;
  readonly query?: unknown;
}

/** What the arguments say: a command of a shell, a method of HTTP, the name of an action, or a statement of SQL. */
function effectOfArguments(args: TellingArguments): Effect {
  const command = args.command ?? args.cmd ?? args.script;
  if (typeof command === "string") return effectOfCommand(command);
  if (Array.isArray(command)) return effectOfCommand(command.join(" "));
  if (typeof args.method === "string" && /^[A-Z]{3,7}$/.test(args.method))
    return args.method === "GET" || args.method === "HEAD" ? "reads" : "changes";
  const action = args.action ?? args.operation;
  if (typeof action === "string" && action.length <= longestAction) return effectOfName(action).effect;
  const statement = args.sql ?? args.query;
  if (typeof statement !== "string") return undefined;
  if (/^\s*(?:select|show|describe|explain|pragma)\s/i.test(statement)) return "reads";
  return /^\s*(?:insert|update|delete|create|drop|alter|truncate|merge|replace|mutation)\s/i.test(statement)
    ? "changes"
    : undefined;
}

/** Characters. */
const longestAction = 64;
/** Characters. What a longer command does is not looked into. */
const longestCommand = 500;
const readingGit = words(
  "status diff log show blame branch grep ls-files rev-parse remote describe shortlog",
);
const harmless = words("cd echo printf test true false [ sed awk git xargs time");

function effectOfCommand(command: string): Effect {
  if (command.length > longestCommand || redirects(command)) return undefined;
  const steps = command.split(/&&|\|\||[;|\n]/).map((step) => step.trim());
  let reads = false;
  for (const step of steps) {
    if (step === "") continue;
    const [program = "", first = ""] = step.split(/\s+/);
    const name = program.replace(/^.*\//, "");
    if (shellPrograms.has(name)) reads = true;
    else if (!harmless.has(name)) return undefined;
    if (name === "git") {
      if (!readingGit.has(first)) return undefined;
      reads = true;
    }
    if (name === "sed" && first !== "-n") return undefined;
    if (name === "xargs" && !shellPrograms.has(first)) return undefined;
  }
  return reads ? "reads" : undefined;
}

/** Whether the output of a command goes to a file, or the command runs others on what it finds. */
function redirects(args: unknown): boolean {
  if (typeof args === "string") return />(?!\s*(?:&\d|\/dev\/null))|-delete\b|-exec|\btee\b/.test(args);
  if (typeof args !== "object" || args === null) return false;
  return Object.values(args).some((value) => typeof value === "string" && redirects(value));
}

/** Characters at each end of a text that are read to see whether it is an error. */
const readEnd = 400;

export const says = new RegExp(
  [
    // At the beginning of the text: a complaint.
    String.raw`^[\s"'\x60*[({╷│>❌✖✗×-]*(?:(?:fatal |an? |internal |unexpected )?error\b(?!["']| (?:rate|count|budget|code 0)|s\b)|fatal: |traceback\b|exception\b|usage: |failed to\b|failure\b|cannot\b|can't\b|could not\b|couldn't\b|unable to\b|invalid\b|unknown (?:command|option|tool|argument)|unrecognized\b|no such\b|permission denied|access denied|forbidden\b|unauthorized\b|timed out\b|execution timed out|(?:connect|read|write|getaddrinfo) E[A-Z_]{4,}|rate limit exceeded|(?:429 too many|50[0234] (?:internal|bad|service|gateway)) )`,
    // At the beginning of any line: what compilers, shells and runtimes write.
    String.raw`(?<=^|\n)(?:│ |\S{0,80}: )?(?:fatal error|fatal|error)(?:(?:\[\w+\])?: | [a-z]+ing )`,
    String.raw`(?<=^|\n)(?:[\w$]+\.){0,8}[A-Z]\w*(?:Error|Exception)\b(?=: |\n|$)`,
    String.raw`\bTraceback \(most recent call last\)`,
    String.raw`\bException in thread "|\btimed out after\b`,
    String.raw`(?<=^|\n)npm (?:ERR!|error) `,
    String.raw`\bBUILD FAIL`,
    String.raw`: (?:command )?not found(?=\s*(?:$|\n))|\bcommand not found: |\bis not recognized as\b`,
    String.raw`: (?:No such file or directory|Permission denied|Is a directory|Not a directory|cannot access|cannot open)\b`,
    String.raw`\b(?:Segmentation fault|panicked at|core dumped)|(?<=^|[\s/-])[a-z]{0,3}sh: line \d+: `,
    String.raw`\b(?:not|not been) (?:applied|updated|saved|modified|changed?)\b`,
    String.raw`\bno changes (?:were |have been )?made\b`,
    // Codes of how a program ended.
    String.raw`\b(?:exit(?:ed)?|return(?:ed)?|finished|completed|terminated)(?: with)?[ _-]?(?:exit[ _-]?)?(?:code|status|with)["']?\s?[:=]?\s?-?[1-9]\d*\b`,
    String.raw`\bHTTP(?:\/[\d.]+)? [45]\d\d\b|\b(?:401 Unauthorized|403 Forbidden|404 Not Found)`,
    // JSON.
    String.raw`"status(?:_?code)?"\s*:\s*"?[45]\d\d\b`,
    String.raw`"(?:error|errors|error_message|errorMessage)"\s*:\s*(?!null|false|""|\[\]|0\b|\{\})`,
    String.raw`"code"\s*:\s*"?-?(?!0\b|200\b)\d+"?\s*,\s*"(?:msg|message)"\s*:\s*"(?!ok\b|success|成功|操作成功|请求成功)`,
    String.raw`"err(?:or)?_?(?:code|no)"\s*:\s*"?-?[1-9]`,
    String.raw`"(?:ok|success|succeeded)"\s*:\s*false`,
    String.raw`"(?:status|state|result|type)"\s*:\s*"(?:error|failed|failure)"`,
    String.raw`"(?:isError|is_error)"\s*:\s*true`,
    String.raw`"(?:exit_?code|exitCode|returncode|exit_status)"\s*:\s*-?[1-9]`,
  ].join("|"),
  "i",
);

const endedWell =
  /\b(?:exit(?:ed)?|finished|completed)(?: with)?[ _-]?(?:exit[ _-]?)?(?:code|status)["']?\s?[:=]?\s?0\b/i;

/** What short answers say that were given in vain, in some languages. "No errors" is none. */
export const inVain =
  /(?:\b(?:no|not|nothing|already|unchanged|cannot|can't|couldn't|didn't|doesn't|isn't|wasn't|unable|(?<!\b0 )fail(?:s|ed|ure)|denied|refused|rejected|invalid|incorrect|empty|missing|unknown|unauthorized|forbidden)\b(?! (?:errors?|warnings?|issues?|problems?|conflicts?|longer|yet|ready)\b)|(?<![\p{L}])(?:nicht|keine|fehler|ungültig|introuvable|erreur|impossible|échec|pas|no existe|no encontrad[oa]|denegado|non trovato|não)(?![\p{L}])|未找到|找不到|没有|不存在|无法|失败|错误|拒绝|无效|未知|超时|エラー|失敗|ません|오류|실패|없습니다|не найден|не существует|ошибк|отказано|невозможно)/iu;
/** Characters. Within the first sentence, and not far behind its beginning. */
const firstClause = 80;
const didWork = /\b(?:success(?:ful(?:ly)?)?|succeeded|done|passed|completed)\b/i;
export const shortAnswer = 300;
/** JSON without any value, or nothing at all. */
const isEmpty =
  /^[\s[\]{},]*(?:"\w+"\s*:\s*(?:\[\]|\{\}|null|""|0|false)[\s[\]{},]*)*$|^(?:null|none|undefined)$/i;

const emptyBegins: ReadonlySet<string> = new Set('[]{},"nNuU');

/** Whether a text has nothing in it. */
export function saysNothing(text: string): boolean {
  if (text.length > shortAnswer) return false;
  // To see that a text begins otherwise is quicker than the pattern (46 ns).
  const code = text.charCodeAt(0);
  const isOther = code > 32 && code < 0x1680 && code !== 0xa0 && !emptyBegins.has(text[0]!);
  return !isOther && isEmpty.test(text);
}

/** Whether a text begins with the words for none. */
export function saysNone(text: string): boolean {
  return /^(?:there (?:are|is|were|was) )?(?:no|none|nothing)\b|^(?:没有|未找到|找不到|暂无)/i.test(text);
}

function wasInVain(text: string): boolean {
  const at = text.search(inVain);
  return at >= 0 && at <= firstClause && !/[.!?]/.test(text.slice(0, at)) && !didWork.test(text);
}

/**
 * Whether the text of a result reads like an error: a complaint at its beginning, a traceback, an exit code, an error in
 * JSON, or a short answer that something did not work. Of a long text looks only at both ends.
 */
export function saysError(text: string, signs = signsOf(text)): boolean {
  const isWhole = text.length <= 2 * readEnd;
  if (signs & IN_VAIN && text.length <= shortAnswer && wasInVain(text)) return true;
  const ends = isWhole ? text : `${text.slice(0, readEnd)}\n${text.slice(-readEnd)}`;
  const mayComplain = (isWhole ? signs : signsOf(ends)) & COMPLAINT;
  return mayComplain > 0 && says.test(ends) && !endedWell.test(ends);
}

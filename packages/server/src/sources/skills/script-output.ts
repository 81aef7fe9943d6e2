import type { ProgramResult } from "../../runners/sandbox/types.ts";

/** Of what a script printed, in an error: its end says most. */
const TAIL = 2_000;

/** What a module answered. Throws what it threw, or says how the script ended without an answer. */
export function readModuleAnswer(result: ProgramResult, marker: string, label: string): unknown {
  const line = result.stdout.split("\n").findLast((candidate) => candidate.startsWith(marker));
  const answer = line === undefined ? undefined : parse(line.slice(marker.length));
  if (answer === undefined) {
    throw new Error(howItEnded(result, label) ?? `${label} ended before it answered.${tailOf(result)}`);
  }
  const { value, error } = answer.value as { value?: unknown; error?: { message: string; stack: string } };
  if (error === undefined) return value;
  throw Object.assign(new Error(error.message || `${label} failed without a message.`), {
    stack: error.stack,
  });
}

/**
 * What a command answered: the JSON that it printed, with whatever stood around it left out. Throws when it failed, or
 * printed nothing that is JSON.
 */
export function readCommandAnswer(result: ProgramResult, label: string, wants: "json" | "text"): unknown {
  const found = lastJson(result.stdout);
  const failure = howItEnded(result, label, messageIn(found?.value));
  if (failure !== undefined) throw new Error(failure);
  if (wants === "text") return result.stdout.trimEnd();
  if (found !== undefined) return found.value;
  if (result.stdout.trim() === "") {
    throw new Error(
      `${label} printed nothing. It must print its answer as JSON on standard output.${tailOf(result)}`,
    );
  }
  throw new Error(
    `${label} printed no JSON. It must print its answer as JSON on standard output.${tailOf(result)}`,
  );
}

function howItEnded(result: ProgramResult, label: string, message?: string): string | undefined {
  const { exitCode, signal, truncated } = result;
  if (truncated) return `${label} printed more than it may, and was stopped.`;
  if (signal !== null) return `${label} was ended by ${signal}.${tailOf(result)}`;
  if (exitCode === 0) return undefined;
  return message ?? `${label} ended with exit code ${exitCode}.${tailOf(result)}`;
}

function tailOf({ stdout, stderr }: ProgramResult): string {
  const [name, text] = stderr.trim() === "" ? ["printed", stdout.trim()] : ["said", stderr.trim()];
  if (text === "") return "";
  return ` It ${name}: ${text.length > TAIL ? `…${text.slice(-TAIL)}` : text}`;
}

/** The whole, or else the last value that begins at the beginning of a line and reaches to the end of another. */
function lastJson(stdout: string): { value: unknown } | undefined {
  const whole = parse(stdout);
  if (whole !== undefined) return whole;
  const lines = stdout.trimEnd().split("\n");
  for (let end = lines.length; end > 0 && end > lines.length - NOISE; end--) {
    if (!/[}\]"\w]\s*$/.test(lines[end - 1]!)) continue;
    // A bare number or word is an answer only where nothing comes after it.
    const start = end === lines.length ? /^\s*(?:[[{"]|-?\d|true|false|null)/ : /^\s*[[{"]/;
    const one = start.test(lines[end - 1]!) ? parse(lines[end - 1]!) : undefined;
    if (one !== undefined) return one;
    if (!/^\s*[}\]]+\s*$/.test(lines[end - 1]!)) continue;
    const first = lines.findLastIndex((line, at) => at < end && /^[[{]/.test(line));
    const block = first === -1 ? undefined : parse(lines.slice(first, end).join("\n"));
    if (block !== undefined) return block;
  }
  return undefined;
}

/** Lines at the end that may be noise; looking further would cost more than it finds. */
const NOISE = 200;

function parse(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function messageIn(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { error } = value as { error?: unknown };
  if (typeof error === "string") return error;
  const message =
    typeof error === "object" && error !== null ? (error as { message?: unknown }).message : undefined;
  return typeof message === "string" ? message : undefined;
}

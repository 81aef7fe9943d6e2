import { dirname, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { ToolCallRecord, ToolError } from "@toolrack/core";
import { redact } from "@toolrack/core/internal";
import type { CallTrace } from "../store/index.ts";

/** How many characters of a stack are kept. */
export const LONGEST_STACK = 4_000;
/** How many characters of the error's message are kept above its stack. The error itself has more of it. */
const LONGEST_HEAD = 1_000;
/** How many causes are searched for a frame in the author's files. */
const DEEPEST_CAUSE = 4;

/** The folder that has Toolrack's own packages in it. */
const ownCode = `${dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))))}${sep}`;

/**
 * Where in the files of its author a tool failed. Undefined when no such file is in the stack, as for a call that was
 * refused before its tool ran. The stack has only the frames of these files, by their paths in the workspace.
 */
export function traceOf(error: ToolError, record: ToolCallRecord, workspace: string): CallTrace | undefined {
  // A failure that the author foresaw, or a limit, is no crash.
  if (error.code !== "execution_failed") return undefined;
  let thrown: unknown = error;
  for (let depth = 0; thrown instanceof Error && depth < DEEPEST_CAUSE; depth++) {
    const frames = framesOf(thrown, error.input).flatMap((line) => placeOf(line, workspace) ?? []);
    const [first] = frames;
    if (first !== undefined) {
      const stack = [headOf(record), ...frames.map(({ line }) => line)].join("\n");
      return { at: first.at, stack: shorten(stack, LONGEST_STACK) };
    }
    thrown = thrown.cause;
  }
  return undefined;
}

/** The whole stack, below the record's message. The error's own message is not used: its secrets are not masked. */
export function wholeStackOf(error: ToolError, record: ToolCallRecord): string | undefined {
  if (error.stack === undefined || record.error === undefined) return undefined;
  const { name, message, details } = record.error;
  const head = shorten(`${name}: ${message}`, LONGEST_HEAD);
  const cause = details?.cause;
  const isNews = cause !== undefined && cause !== message;
  const causes = isNews ? [`Caused by: ${shorten(cause, LONGEST_HEAD)}`] : [];
  return shorten([head, ...causes, ...framesOf(error, error.input)].join("\n"), LONGEST_STACK);
}

export function shorten(text: string, longest: number): string {
  if (text.length <= longest) return text;
  return `${text.slice(0, longest)}… [cut; ${text.length.toLocaleString("en-US")} characters in all]`;
}

function headOf({ error }: ToolCallRecord): string {
  const thrown = error?.details?.thrown;
  const name = typeof thrown === "string" ? thrown : "Error";
  return shorten(`${name}: ${error?.message ?? ""}`, LONGEST_HEAD);
}

/**
 * The frames of an error's stack, with secrets of the arguments masked. The message is cut off first, because its lines
 * may look like frames and hold secrets.
 */
function framesOf({ stack = "", message }: Error, input: unknown): string[] {
  const start = message === "" ? -1 : stack.indexOf(message);
  const below = start === -1 ? stack : stack.slice(start + message.length);
  const frames = below.split("\n").filter((line) => line.trimStart().startsWith("at "));
  const values = new Set<string>();
  redact(input, { found: values });
  return frames.map((line) => String(redact(line, { values })));
}

/** `    at name (path:line:column)`, `    at path:line` and the like. */
const frame = /^(\s*at (?:.*? \()?)(?:file:\/\/)?(\/[^()]*?|[A-Za-z]:[\\/][^()]*?)((?::\d+){1,2})(\)?)$/;

/** Undefined for a frame of Toolrack, of Node, of a package, or of what Toolrack puts around code in the sandbox. */
function placeOf(
  line: string,
  workspace: string,
): { readonly at: string; readonly line: string } | undefined {
  const [, before = "", path = "", position = "", after = ""] = frame.exec(line) ?? [];
  const isInside = path.startsWith(workspace + sep);
  const isElse = path.startsWith(ownCode) || path.startsWith("/toolrack/");
  if (path === "" || (!isInside && isElse) || path.includes(`${sep}node_modules${sep}`)) return undefined;
  const shown = isInside ? relative(workspace, path) : path;
  if (shown.startsWith(".toolrack")) return undefined;
  const [, lineNumber] = position.split(":");
  return { at: `${shown}:${lineNumber}`, line: `${before}${shown}${position}${after}` };
}

import { parseToolReference } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import type { Cli } from "../cli.ts";
import { usageError } from "../cli-error.ts";
import { readGiven } from "../parameters.ts";

/** A call in the YAML format of `toolx`. */
export interface ToolxCall {
  readonly tool: string;
  readonly mode: "execute" | "dryrun" | "manual";
  readonly parameters: Record<string, unknown>;
  /** Milliseconds. */
  readonly timeout?: number;
}

/** Which commands replace the other modes of `toolx`. */
const elsewhere: Readonly<Record<string, (program: string) => string>> = {
  configure: (program) =>
    `Set values with: ${program} settings set TOOL NAME=VALUE, and secrets with: ${program} secrets set TOOL NAME`,
  log: (program) => `Read the log with: ${program} logs --tool NAME`,
  rebuild: () => "Nothing needs rebuilding: a tool is loaded anew when its file changes.",
};

/** Whether the text is a `toolx` call and not the name of a tool. */
export function isToolxDocument(text: string): boolean {
  return /^\s*(?:tool|toolUrl|url|mode|operation)\s*:(?!\/\/)/m.test(text);
}

/** Reads the call from `tool://NAME`, a YAML text, `@FILE`, or `-` for standard input. Undefined for the name of a tool. */
export async function readToolx(cli: Cli, given: string): Promise<ToolxCall | undefined> {
  const isWritten = parseToolReference(given) !== undefined || isToolxDocument(given);
  if (!isWritten && given !== "-" && !given.startsWith("@")) return undefined;
  return parseToolx(isWritten ? given : await readGiven(cli, given), cli.programWords);
}

/** Reads the YAML of a `toolx` call. Throws a usage error with an example. */
export async function parseToolx(text: string, program = "toolrack"): Promise<ToolxCall> {
  const name = parseToolReference(text);
  if (name !== undefined) return { tool: name, mode: "execute", parameters: {} };
  const { tool, toolUrl, url, mode, operation, parameters, timeout } = await read(text);
  const wanted = tool ?? toolUrl ?? url;
  if (typeof wanted !== "string" || wanted.trim() === "") throw wrong("It names no tool.");
  if (timeout !== undefined && (typeof timeout !== "number" || timeout <= 0)) {
    throw wrong("Its timeout is not a number of milliseconds.");
  }
  if (parameters !== undefined && parameters !== null && !isRecord(parameters)) {
    throw wrong("Its parameters are not an object.");
  }
  return {
    tool: parseToolReference(wanted) ?? wanted.trim(),
    mode: modeOf(mode ?? operation ?? "execute", program),
    parameters: isRecord(parameters) ? parameters : {},
    ...(timeout === undefined ? {} : { timeout }),
  };
}

async function read(text: string): Promise<Record<string, unknown>> {
  // Imported late, because the YAML library is slow to load and most calls do not need it.
  const { parse } = await import("yaml");
  let value: unknown;
  try {
    // YAML texts must not begin with @, but people write references that way.
    value = parse(text.replaceAll(/:\s+@(tool:\/\/\S+)/g, ": $1"));
  } catch (thrown) {
    throw wrong(
      `It is not YAML: ${thrown instanceof Error ? thrown.message.split("\n")[0] : String(thrown)}`,
    );
  }
  if (isRecord(value)) return value;
  throw wrong("It is not a YAML object.");
}

function modeOf(mode: unknown, program: string): ToolxCall["mode"] {
  if (mode === "execute" || mode === "dryrun" || mode === "manual") return mode;
  const advice = Object.hasOwn(elsewhere, String(mode)) ? elsewhere[String(mode)]?.(program) : undefined;
  throw usageError(
    `The mode ${JSON.stringify(mode)} of a toolx call is not run here. ${advice ?? "The modes are execute, dryrun and manual."}`,
  );
}

function wrong(problem: string) {
  return usageError(
    `The toolx call cannot be read. ${problem} Write, for example:\ntool: tool://NAME\nparameters:\n  text: hello`,
  );
}

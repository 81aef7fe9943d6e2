import { parse } from "yaml";
import { parseToolReference } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import { usageError } from "../cli-error.ts";

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

/** Reads the YAML of a `toolx` call. Throws a usage error with an example. */
export function parseToolx(text: string, program = "toolrack"): ToolxCall {
  const name = parseToolReference(text);
  if (name !== undefined) return { tool: name, mode: "execute", parameters: {} };
  const { tool, toolUrl, url, mode, operation, parameters, timeout } = read(text);
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

function read(text: string): Record<string, unknown> {
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

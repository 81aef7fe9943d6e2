import { runToolName } from "../calls/index.ts";
import type { CallStore, StoredApproval, StoredCall } from "../store/index.ts";

/** The run that made a call: its code, the line of the call, and what it did before. */
export interface RunView {
  readonly callId: string;
  readonly code: string;
  readonly line?: number;
  /** The calls that the run made earlier, oldest first. */
  readonly before: readonly {
    readonly callId: string;
    readonly toolName: string;
    readonly line?: number;
    readonly status: StoredCall["outcome"];
  }[];
}

/** How many earlier calls are told. */
const MOST_BEFORE = 100;

/** The run whose call a question is about. Undefined when no code made the call. */
export async function runOfQuestion(
  { callId, parentCallId, caller }: StoredApproval,
  calls: Pick<CallStore, "get" | "list">,
): Promise<RunView | undefined> {
  if (parentCallId === undefined || !caller.startsWith(`${runToolName}_`)) return undefined;
  const run = await calls.get(parentCallId);
  const code = run?.parameters.code;
  if (run?.toolName !== runToolName || typeof code !== "string") return undefined;
  const asked = await calls.get(callId);
  const { items } = await calls.list({ parent: parentCallId, limit: MOST_BEFORE });
  const before = items
    .filter((call) => call.callId !== callId)
    .map((call) => ({
      callId: call.callId,
      toolName: call.toolName,
      ...(call.flags?.line !== undefined && { line: call.flags.line }),
      status: call.outcome,
    }))
    .reverse();
  const line = asked?.flags?.line;
  return { callId: parentCallId, code, ...(line !== undefined && { line }), before };
}

/** Lines before and after the one that waits. */
const AROUND = 6;
const LONGEST_LINE = 160;

/** The part of the code around the line that waits, which is marked, and what ran before it. As text. */
export function runExcerpt({ code, line = 1, before }: RunView): string {
  const lines = code.split("\n");
  const from = Math.max(0, line - 1 - AROUND);
  const shown = lines.slice(from, line + AROUND).map((text, at) => {
    const number = from + at + 1;
    const mark = number === line ? ">" : " ";
    return `${mark} ${String(number).padStart(String(lines.length).length)} | ${text.slice(0, LONGEST_LINE)}`;
  });
  const done = before.map(
    ({ toolName, line: at, status }) => `${at === undefined ? "" : `line ${at}: `}${toolName} (${status})`,
  );
  const ran = done.length === 0 ? "Nothing ran before it." : `Before it: ${done.slice(-20).join(", ")}.`;
  return `The code that makes the call waits at line ${line}:\n${shown.join("\n")}\n${ran}`;
}

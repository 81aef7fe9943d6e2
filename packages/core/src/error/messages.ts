import type { SchemaIssue } from "../schema/issue.ts";

/** The texts that a caller reads when a call is refused or fails: what happened, where, and what to do next. */

export function notFound(name: string, suggestions: readonly string[], total: number): string {
  const shown = shortened(name);
  if (total === 0) return `There is no tool named "${shown}": no tools are registered.`;
  if (suggestions.length === 0) {
    return `There is no tool named "${shown}". Use one of the ${total} names in the list of tools.`;
  }
  return `There is no tool named "${shown}". The nearest names are ${suggestions.map(quote).join(", ")}.`;
}

/** For a caller that may use none of the rack's tools. */
export function noneForCaller(name: string): string {
  return `There is no tool named "${shortened(name)}": this caller may use none. The operator can grant it some.`;
}

/** `reason`: why the tool is switched off and how to switch it on, if the tool's metadata says so. */
export function disabled(name: string, reason?: unknown): string {
  if (typeof reason === "string" && reason !== "") return `The tool "${name}" is switched off: ${reason}`;
  return `The tool "${name}" is switched off. Use another tool, or ask the operator to enable it.`;
}

/** For a tool that was removed while its call waited for consent. */
export function takenDown(name: string): string {
  return `The tool "${name}" was taken down while its call waited for consent. It did not run. Use one of the listed tools.`;
}

/**
 * For a call that a person agreed to, but whose caller may not make it any more. `why`: a sentence about the
 * caller.
 */
export function callerGone(name: string, why: string): string {
  return `"${name}" was agreed to, but did not run. ${why}`;
}

export const callerUnknown =
  "Whether its caller may still have it run could not be looked up. The log of the server says why; when that is mended, make the call anew.";

export function tooDeep(name: string, limit: number): string {
  return `The call to "${name}" was not made: calls may be nested ${limit} deep at most. Do the work in fewer steps.`;
}

export function notJson(name: string, problem: string): string {
  return `The arguments for "${name}" are not valid JSON (${problem}). The tool did not run. Send one JSON object.`;
}

export function notAnObject(name: string, received: string): string {
  return `The arguments for "${name}" must be one JSON object, but ${received} came. The tool did not run.`;
}

export function tooLarge(name: string, length: number, limit: number): string {
  return (
    `The arguments for "${name}" are ${length} characters long; ${limit} are allowed. The tool did not run. ` +
    "Send less, or pass a reference such as a path or an address."
  );
}

export function tooIntricate(name: string, found: string): string {
  return `The arguments for "${name}" have ${found}. The tool did not run. Send less, or pass a reference such as a path or an address.`;
}

export function invalidArguments(name: string, issues: readonly SchemaIssue[]): string {
  const lines = issues.map(
    ({ path, message, expected, received }) =>
      `- ${path === "" ? "arguments" : path}: ${message || `expected ${expected}, received ${received}`}`,
  );
  return `The arguments for "${name}" do not fit its schema, so it did not run. Correct these and call again:\n${lines.join("\n")}`;
}

export function brokenSchema(name: string, problem: string): string {
  return `The tool "${name}" cannot be called: its parameter schema is broken. ${problem}`;
}

export function permissionDenied(name: string, missing: readonly string[]): string {
  return (
    `The tool "${name}" needs ${missing.length === 1 ? "the permission" : "the permissions"} ` +
    `${missing.map(quote).join(", ")}, which this caller does not hold. It did not run. ` +
    "Ask the operator to grant it, or use another tool."
  );
}

/** `through`: the tool that made the call, if the caller did not make it directly. */
export function outOfReach(name: string, through: string | undefined): string {
  if (through === undefined) {
    return `The tool "${name}" is not among those that this caller may use. It did not run. Use one of the listed tools.`;
  }
  return (
    `"${through}" wanted to call "${name}", which is not among the tools that this caller may use. It did not run. ` +
    `The operator can grant it to the caller, or list it in the metadata of "${through}" under calls.`
  );
}

export function cannotAskCaller(name: string): string {
  return (
    `The tool "${name}" asks a question in the middle of its run, but this caller cannot be asked. ` +
    "Call it from a client that answers questions (MCP elicitation), or give what it needs as arguments."
  );
}

export function nobodyToAsk(name: string): string {
  return (
    `The tool "${name}" is dangerous and needs a person's consent, but nobody can be asked here. It did not run. ` +
    "The host must supply an approval policy."
  );
}

export function approvalDenied(name: string, reason: string | undefined): string {
  const because = reason ? `: ${reason}` : ", without giving a reason";
  return `Running "${name}" was refused${because}. It did not run. Do not repeat the call unchanged.`;
}

/** For a question that a tool asked during its run. */
export function goingOnDenied(name: string, reason: string | undefined): string {
  const because = reason ? `: ${reason}` : ", without giving a reason";
  return `The tool "${name}" asked whether it may go on and was refused${because}. What it had already done may stand.`;
}

export function approvalExpired(name: string, limit: number, place: string | undefined): string {
  const where = place === undefined ? "" : ` The question waited in ${place}.`;
  return `Nobody answered within ${duration(limit)} whether "${name}" may run, so it did not run.${where}`;
}

export function timedOut(name: string, kind: "total" | "idle", limit: number): string {
  const why =
    kind === "total" ? `did not finish within ${duration(limit)}` : `reported nothing for ${duration(limit)}`;
  return `The tool "${name}" ${why} and was stopped. What it had already done may stand: check before calling it again.`;
}

/** `waits`: what a call waited for that another process should have performed, as a sentence. */
export function neverBegun(name: string, limit: number, waits?: string): string {
  if (waits !== undefined)
    return `The tool "${name}" was not run within ${duration(limit)}. ${waits} Nothing was done; call it again when that has changed.`;
  return `The tool "${name}" was not run: its turn did not come within ${duration(limit)}. Nothing was done; call it again when there are fewer calls.`;
}

export function cancelled(name: string, reason: string | undefined): string {
  return `The call to "${name}" was cancelled${reason ? `: ${reason}` : "."}`;
}

export function badOutput(name: string, issues: readonly SchemaIssue[]): string {
  const [first] = issues;
  const where =
    first === undefined ? "" : ` ${first.path === "" ? "The result" : first.path}: ${first.message}`;
  return `The tool "${name}" ran, but its result does not fit its own output schema.${where}`;
}

export function duplicateCallId(callId: string): string {
  return `The call id "${callId}" is already in use. Every call needs its own.`;
}

/** Names come from callers and may be of any length. */
function shortened(name: string): string {
  return name.length > 100 ? `${name.slice(0, 100)}…` : name;
}

function quote(name: string): string {
  return `"${name}"`;
}

function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  // Rounded, because a remaining limit is measured and would read like 5.999 seconds.
  return `${Number((milliseconds / 1000).toFixed(1))} s`;
}

import { isCancel, select, text } from "@clack/prompts";
import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import type { Cli } from "../cli.ts";
import { screen } from "../screen.ts";
import { printable } from "../text/printable.ts";

type Answer = "approve" | "deny" | "edit";

/** Asks on the terminal whether a tool may run. Ctrl-C is a no, and interrupts the call. */
export async function askApproval(
  cli: Cli,
  request: ApprovalRequest,
  signal: AbortSignal,
): Promise<ApprovalDecision> {
  let edited: Record<string, unknown> | undefined;
  for (;;) {
    cli.talk(describe(cli, request, edited ?? request.input));
    const answer = await choose(request, signal);
    if (answer === "approve") {
      return edited === undefined ? { decision: "allow" } : { decision: "allow", arguments: edited };
    }
    if (answer === "deny") return deny(cli, signal);
    if (answer === undefined) return interrupted(cli, signal);
    // What was edited is shown again: consent is given to what one has seen.
    edited = (await edit(edited ?? request.input, signal)) ?? edited;
  }
}

function describe(cli: Cli, request: ApprovalRequest, input: Readonly<Record<string, unknown>>): string {
  const { toolName, displayName, caller, details } = request;
  const name = displayName === toolName ? toolName : `${displayName} (${toolName})`;
  const lines = [
    `${cli.styleTalk("bold", "Tool")}       ${printable(name)}`,
    `${cli.styleTalk("bold", "Caller")}     ${printable(caller)}`,
    `${cli.styleTalk("bold", "Arguments")}  ${json(input)}`,
    ...(details === undefined ? [] : [`${cli.styleTalk("bold", "Details")}    ${json(details)}`]),
  ];
  return lines.join("\n");
}

function json(value: unknown): string {
  return printable(JSON.stringify(value, null, 2)).replaceAll("\n", "\n           ");
}

async function choose(request: ApprovalRequest, signal: AbortSignal): Promise<Answer | undefined> {
  const answer = await select<Answer>({
    message: printable(request.message),
    options: [
      { value: "deny", label: "Deny" },
      { value: "approve", label: "Approve" },
      { value: "edit", label: "Edit the arguments" },
    ],
    // Pressing Enter without reading must not run anything dangerous.
    initialValue: "deny",
    output: screen(),
    signal,
  });
  return isCancel(answer) ? undefined : answer;
}

async function deny(cli: Cli, signal: AbortSignal): Promise<ApprovalDecision> {
  const reason = await text({
    message: "Why? (Enter for no reason)",
    output: screen(),
    signal,
  });
  if (isCancel(reason)) return interrupted(cli, signal);
  const said = (reason ?? "").trim();
  return said === "" ? { decision: "deny" } : { decision: "deny", reason: said };
}

async function edit(
  input: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<Record<string, unknown> | undefined> {
  const changed = await text({
    message: "The arguments as JSON",
    initialValue: JSON.stringify(input),
    validate: (value) => (objectOf(value ?? "") === undefined ? "This is not one JSON object." : undefined),
    output: screen(),
    signal,
  });
  return isCancel(changed) ? undefined : objectOf(changed);
}

function objectOf(source: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(source);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A prompt also ends when the call does, with nobody having pressed anything. */
function interrupted(cli: Cli, signal: AbortSignal): ApprovalDecision {
  if (!signal.aborted) cli.interrupt();
  return { decision: "deny", reason: "interrupted" };
}

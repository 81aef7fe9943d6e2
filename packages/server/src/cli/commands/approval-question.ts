import { isCancel, select, text } from "@clack/prompts";
import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import { isRecord, parsedJson } from "../../helpers/index.ts";
import type { Cli } from "../cli.ts";
import { printable } from "../text.ts";
import { callerText } from "./logs.ts";

type Answer = "approve" | "deny" | "edit";
type Arguments = Readonly<Record<string, unknown>>;

/** Asks on the terminal whether a tool may run. Ctrl-C is a no, and interrupts the call. */
export async function askApproval(
  cli: Cli,
  request: ApprovalRequest,
  signal: AbortSignal,
): Promise<ApprovalDecision> {
  let edited: Arguments | undefined;
  for (;;) {
    cli.talk(describe(cli, request, edited ?? request.input));
    const answer = await choose(cli, request, signal);
    if (answer === "approve") {
      return edited === undefined ? { decision: "allow" } : { decision: "allow", arguments: edited };
    }
    if (answer === "deny") return deny(cli, signal);
    if (answer === undefined) return interrupted(cli, signal);
    // Shows edited arguments again, so that the person approves what they have seen.
    edited = (await edit(cli, edited ?? request.input, signal)) ?? edited;
  }
}

function describe(cli: Cli, request: ApprovalRequest, input: Arguments): string {
  const { toolName, displayName, details } = request;
  const line = (title: string, shown: string) =>
    cli.styleTalk("bold", title) +
    " ".repeat(11 - title.length) +
    printable(shown).replaceAll("\n", `\n${" ".repeat(11)}`);
  return [
    line("Tool", displayName === toolName ? toolName : `${displayName} (${toolName})`),
    line("Caller", callerText(request)),
    line("Arguments", JSON.stringify(input, null, 2)),
    ...(details === undefined ? [] : [line("Details", JSON.stringify(details, null, 2))]),
  ].join("\n");
}

async function choose(cli: Cli, request: ApprovalRequest, signal: AbortSignal): Promise<Answer | undefined> {
  const answer = await select<Answer>({
    message: printable(request.message),
    options: [
      { value: "deny", label: "Deny" },
      { value: "approve", label: "Approve" },
      { value: "edit", label: "Edit the arguments" },
    ],
    // Pressing Enter without reading must not run anything dangerous.
    initialValue: "deny",
    ...cli.prompt,
    signal,
  });
  return isCancel(answer) ? undefined : answer;
}

async function deny(cli: Cli, signal: AbortSignal): Promise<ApprovalDecision> {
  const reason = await text({ message: "Why? (Enter for no reason)", ...cli.prompt, signal });
  if (isCancel(reason)) return interrupted(cli, signal);
  const givenReason = (reason ?? "").trim();
  return givenReason === "" ? { decision: "deny" } : { decision: "deny", reason: givenReason };
}

async function edit(cli: Cli, input: Arguments, signal: AbortSignal): Promise<Arguments | undefined> {
  const changed = await text({
    message: "The arguments as JSON",
    initialValue: JSON.stringify(input),
    validate: (value) => (objectOf(value ?? "") === undefined ? "This is not one JSON object." : undefined),
    ...cli.prompt,
    signal,
  });
  return isCancel(changed) ? undefined : objectOf(changed);
}

function objectOf(source: string): Arguments | undefined {
  const value = parsedJson(source);
  return isRecord(value) ? value : undefined;
}

/** Denies, and interrupts the call if the person pressed Ctrl-C. A prompt also ends when the call itself has ended. */
function interrupted(cli: Cli, signal: AbortSignal): ApprovalDecision {
  if (!signal.aborted) cli.interrupt();
  return { decision: "deny", reason: "interrupted" };
}

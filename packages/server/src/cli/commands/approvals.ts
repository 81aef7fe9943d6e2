import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import { namedCaller } from "@toolrack/core/internal";
import type { RunView } from "../../code/index.ts";
import { asRecord, isRecord, parsedJson } from "../../helpers/index.ts";
import type { ApprovalRule, Page, StoredApproval } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { readArguments } from "../parameters.ts";
import { ServerClient } from "../server-client.ts";
import { formatDuration, oneLine, printable } from "../text.ts";
import { warningLogger, withStore } from "../workspace.ts";

/** A question, with the code that makes the call where code does. */
type AskedByCode = StoredApproval & { readonly run?: RunView };

export interface ApprovalsOptions {
  readonly all?: boolean;
  readonly reason?: string;
  readonly args?: string;
  readonly scope?: "once" | "session" | "always";
  readonly tool?: string;
  readonly when?: string;
}

/**
 * Sends a request about approvals to the running server. Without one, answers it here by the same routes, on the store
 * that a rack shares which an MCP client started: such a rack finds the answer there.
 */
async function askInbox<Body>(cli: Cli, path: string, method = "GET", body?: object): Promise<Body> {
  const server = await ServerClient.findIfAny(cli);
  if (server !== undefined) return server.ask<Body>(path, method, body);
  return withStore(cli, async (store) => {
    const [{ ApprovalInbox }, { askApprovals }] = await Promise.all([
      import("../../calls/index.ts"),
      import("../../http/index.ts"),
    ]);
    const approvals = await ApprovalInbox.open({ store, logger: warningLogger(cli) });
    try {
      // The routes answer as the API says.
      return (await askApprovals({ approvals, store }, method, path, body)) as Body;
    } catch (thrown) {
      const { code, message, details } = asRecord(thrown);
      if (typeof code !== "string") throw thrown;
      throw new CliError(String(message), { code, details: asRecord(details) });
    } finally {
      await approvals.close();
    }
  });
}

/** `toolrack approvals`: the inbox of the running server, or of racks that MCP clients started. */
export async function approvals(
  cli: Cli,
  action: "list" | "approve" | "deny" | "rules" | "forget" = "list",
  id: string | undefined,
  options: ApprovalsOptions,
): Promise<void> {
  if (action === "list") return list(cli, options.all === true);
  if (action === "rules") return listRules(cli);
  if (id === undefined) throw usageError(`Which one? ${cli.commandLine(`approvals ${action} ID`)}`);
  if (action === "forget") return forget(cli, id);
  return answer(cli, id, action === "approve" ? "allow" : "deny", options);
}

async function list(cli: Cli, all: boolean): Promise<void> {
  const state = all ? "all" : "pending";
  const { items } = await askInbox<Page<AskedByCode>>(cli, `/api/approvals?state=${state}&limit=500`);
  const runs = items.flatMap(({ id, run }) => (run === undefined ? [] : [{ id, run }]));
  const { runExcerpt } = runs.length === 0 ? {} : await import("../../code/index.ts");
  const head = ["ID", "STATE", "TOOL", "CALLER", "QUESTION AND ARGUMENTS"];
  const none = all ? "Nobody was asked anything yet." : "Nothing waits for an answer.";
  cli.list({ approvals: items }, head, items.map(rowOf), none);
  if (!cli.json) for (const { id, run } of runs) cli.print(`\n${id}: ${printable(runExcerpt?.(run) ?? "")}`);
}

function rowOf(approval: StoredApproval): string[] {
  const { id, state, toolName, message, input, expiresAt, reason } = approval;
  const left = formatDuration(Math.max(0, expiresAt - Date.now()));
  const shown = state === "pending" ? `${state}, ${left} left` : state;
  const why = reason === undefined ? "" : ` (${reason})`;
  return [id, shown, toolName, callerText(approval), `${message} ${JSON.stringify(input)}${why}`];
}

async function answer(
  cli: Cli,
  id: string,
  decision: "allow" | "deny",
  { reason, args, scope, tool, when }: ApprovalsOptions,
): Promise<void> {
  const edited = args === undefined ? undefined : await readArguments(cli, args);
  const fitting = when === undefined ? undefined : await readArguments(cli, when, "--when");
  const hasPattern = tool !== undefined || fitting !== undefined;
  // Members that are undefined are not sent, because JSON leaves them out.
  const pattern = hasPattern ? { tool, arguments: fitting } : undefined;
  const body = { decision, reason, arguments: edited, scope, pattern };
  const path = `/api/approvals/${encodeURIComponent(id)}`;
  const approval = await askInbox<StoredApproval>(cli, path, "POST", body);
  const { state, toolName } = approval;
  cli.answer({ approval }, () => cli.talk(`${state}: ${oneLine(toolName)} for ${callerText(approval)}`));
}

async function listRules(cli: Cli): Promise<void> {
  const { items } = await askInbox<{ items: ApprovalRule[] }>(cli, "/api/approval-rules");
  const head = ["ID", "ANSWER", "TOOL", "SESSION", "ARGUMENTS"];
  cli.list({ rules: items }, head, items.map(ruleRow), "There are no rules. Dangerous tools ask every time.");
}

function ruleRow({ id, decision, tool, sessionID = "any", input }: ApprovalRule): string[] {
  return [id, decision, tool, sessionID, input === undefined ? "any" : JSON.stringify(input)];
}

async function forget(cli: Cli, id: string): Promise<void> {
  await askInbox(cli, `/api/approval-rules/${encodeURIComponent(id)}`, "DELETE");
  cli.answer({ id }, () => cli.talk(`The rule ${id} holds no more.`));
}

type Arguments = Readonly<Record<string, unknown>>;

/** Asks on the terminal whether a tool may run. Ctrl-C is a no, and interrupts the call. */
export async function askApproval(
  cli: Cli,
  request: ApprovalRequest,
  signal: AbortSignal,
): Promise<ApprovalDecision> {
  const { isCancel, select, text } = await import("@clack/prompts");
  const screen = { ...cli.prompt, signal };
  // A prompt also ends when the call itself has ended.
  const interrupted = (): ApprovalDecision => {
    if (!signal.aborted) cli.interrupt();
    return { decision: "deny", reason: "interrupted" };
  };
  let edited: Arguments | undefined;
  for (;;) {
    cli.talk(describe(cli, request, edited ?? request.input));
    const answer = await select({
      message: printable(request.message),
      options: [
        { value: "deny", label: "Deny" },
        { value: "approve", label: "Approve" },
        { value: "edit", label: "Edit the arguments" },
      ],
      // Pressing Enter without reading must not run anything dangerous.
      initialValue: "deny",
      ...screen,
    });
    if (isCancel(answer)) return interrupted();
    if (answer === "approve") return { decision: "allow", ...(edited && { arguments: edited }) };
    if (answer === "deny") {
      const given = await text({ message: "Why? (Enter for no reason)", ...screen });
      if (isCancel(given)) return interrupted();
      const reason = (given ?? "").trim();
      return { decision: "deny", ...(reason !== "" && { reason }) };
    }
    const changed = await text({
      message: "The arguments as JSON",
      initialValue: JSON.stringify(edited ?? request.input),
      validate: (value) => (isRecord(parsedJson(value ?? "")) ? undefined : "This is not one JSON object."),
      ...screen,
    });
    // Edited arguments are shown again, so that the person approves what they have seen.
    if (!isCancel(changed)) edited = asRecord(parsedJson(changed));
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

/** Who made a call, on one line, in the words of the console. */
export function callerText(call: { readonly caller?: string; readonly via?: string | undefined }): string {
  const { name, by } = namedCaller(call);
  return oneLine([name, by].filter(Boolean).join(" · ") || "-");
}

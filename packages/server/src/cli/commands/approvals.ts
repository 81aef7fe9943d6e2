import type { RunView } from "../../code/index.ts";
import { asRecord } from "../../helpers/index.ts";
import type { ApprovalRule, Page, StoredApproval } from "../../store/index.ts";
import { readArguments } from "../arguments.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { ServerClient } from "../server-client.ts";
import { formatDuration, oneLine, printable } from "../text.ts";
import { withStore } from "../workspace.ts";

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
    const warn = (text: unknown) => cli.talk(String(text));
    const logger = { debug() {}, info() {}, warn, error: warn };
    const approvals = await ApprovalInbox.open({ store, logger });
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
  const callerText = await loadCallerText();
  const rows = items.map((approval) => rowOf(approval, callerText(approval)));
  const runs = items.flatMap(({ id, run }) => (run === undefined ? [] : [{ id, run }]));
  const { runExcerpt } = runs.length === 0 ? {} : await import("../../code/index.ts");
  cli.answer({ approvals: items }, () => {
    if (items.length > 0) cli.table(["ID", "STATE", "TOOL", "CALLER", "QUESTION AND ARGUMENTS"], rows);
    else cli.talk(all ? "Nobody was asked anything yet." : "Nothing waits for an answer.");
    for (const { id, run } of runs) cli.print(`\n${id}: ${printable(runExcerpt?.(run) ?? "")}`);
  });
}

/** Loaded late, because it brings a part of the program that no other question to the server needs. */
async function loadCallerText() {
  return (await import("./logs.ts")).callerText;
}

function rowOf(approval: StoredApproval, caller: string): string[] {
  const { id, state, toolName, message, input, expiresAt, reason } = approval;
  const left = formatDuration(Math.max(0, expiresAt - Date.now()));
  const shown = state === "pending" ? `${state}, ${left} left` : state;
  const why = reason === undefined ? "" : ` (${reason})`;
  return [id, shown, toolName, caller, `${message} ${JSON.stringify(input)}${why}`];
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
  const body = {
    decision,
    reason,
    arguments: edited,
    scope,
    pattern: hasPattern ? { tool, arguments: fitting } : undefined,
  };
  const approval = await askInbox<StoredApproval>(
    cli,
    `/api/approvals/${encodeURIComponent(id)}`,
    "POST",
    body,
  );
  const { state, toolName } = approval;
  const callerText = await loadCallerText();
  cli.answer({ approval }, () => cli.talk(`${state}: ${oneLine(toolName)} for ${callerText(approval)}`));
}

async function listRules(cli: Cli): Promise<void> {
  const { items } = await askInbox<{ items: ApprovalRule[] }>(cli, "/api/approval-rules");
  cli.answer({ rules: items }, () => {
    if (items.length > 0) cli.table(["ID", "ANSWER", "TOOL", "SESSION", "ARGUMENTS"], items.map(ruleRow));
    else cli.talk("There are no rules. Dangerous tools ask every time.");
  });
}

function ruleRow({ id, decision, tool, sessionID = "any", input }: ApprovalRule): string[] {
  return [id, decision, tool, sessionID, input === undefined ? "any" : JSON.stringify(input)];
}

async function forget(cli: Cli, id: string): Promise<void> {
  await askInbox(cli, `/api/approval-rules/${encodeURIComponent(id)}`, "DELETE");
  cli.answer({ id }, () => cli.talk(`The rule ${id} holds no more.`));
}

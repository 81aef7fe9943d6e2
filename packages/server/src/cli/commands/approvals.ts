import type { ApprovalRule, StoredApproval } from "../../store/approvals.ts";
import type { Page } from "../../store/store.ts";
import { readArguments } from "../arguments/read-arguments.ts";
import type { Cli } from "../cli.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { ServerClient } from "../server-client.ts";
import { formatDuration } from "../text/duration.ts";
import { oneLine } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";

export type ApprovalAction = "list" | "approve" | "deny" | "rules" | "forget";

export interface ApprovalsOptions {
  readonly all?: boolean;
  readonly reason?: string;
  readonly args?: string;
  readonly scope?: "once" | "session" | "always";
  readonly tool?: string;
  readonly when?: string;
}

/** `toolrack approvals`: the inbox of the running server. */
export async function approvals(
  cli: Cli,
  action: ApprovalAction = "list",
  id: string | undefined,
  options: ApprovalsOptions,
): Promise<number> {
  if (action === "list") return list(cli, options.all === true);
  if (action === "rules") return rules(cli);
  if (id === undefined) throw usageError(`Which one? ${cli.commandLine(`approvals ${action} ID`)}`);
  if (action === "forget") return forget(cli, id);
  return answer(cli, id, action === "approve" ? "allow" : "deny", options);
}

async function list(cli: Cli, all: boolean): Promise<number> {
  const client = await ServerClient.find(cli);
  const state = all ? "all" : "pending";
  const page = await client.ask<Page<StoredApproval>>(`/api/approvals?state=${state}&limit=500`);
  if (cli.json) {
    cli.printJson({ approvals: page.items });
    return exitCodes.ok;
  }
  if (page.items.length === 0)
    cli.talk(all ? "Nobody was asked anything yet." : "Nothing waits for an answer.");
  else printTable(cli, ["ID", "STATE", "TOOL", "CALLER", "QUESTION AND ARGUMENTS"], page.items.map(rowOf));
  return exitCodes.ok;
}

function rowOf({ id, state, toolName, caller, message, input, expiresAt, reason }: StoredApproval): string[] {
  const left = formatDuration(Math.max(0, expiresAt - Date.now()));
  const shown = state === "pending" ? `${state}, ${left} left` : state;
  const why = reason === undefined ? "" : ` (${reason})`;
  return [id, shown, toolName, caller, `${message} ${JSON.stringify(input)}${why}`].map(oneLine);
}

async function answer(
  cli: Cli,
  id: string,
  decision: "allow" | "deny",
  { reason, args, scope, tool, when }: ApprovalsOptions,
): Promise<number> {
  const edited = args === undefined ? undefined : await readArguments(args);
  const pattern = {
    ...(tool === undefined ? {} : { tool }),
    ...(when === undefined ? {} : { arguments: await readArguments(when, "--when") }),
  };
  const client = await ServerClient.find(cli);
  const approval = await client.ask<StoredApproval>(`/api/approvals/${encodeURIComponent(id)}`, "POST", {
    decision,
    ...(reason === undefined ? {} : { reason }),
    ...(edited === undefined ? {} : { arguments: edited }),
    ...(scope === undefined ? {} : { scope }),
    ...(Object.keys(pattern).length === 0 ? {} : { pattern }),
  });
  if (cli.json) cli.printJson({ approval });
  else cli.talk(`${approval.state}: ${oneLine(approval.toolName)} for ${oneLine(approval.caller)}`);
  return exitCodes.ok;
}

async function rules(cli: Cli): Promise<number> {
  const client = await ServerClient.find(cli);
  const { items } = await client.ask<{ items: ApprovalRule[] }>("/api/approval-rules");
  if (cli.json) cli.printJson({ rules: items });
  else if (items.length === 0) cli.talk("There are no rules. Dangerous tools ask every time.");
  else printTable(cli, ["ID", "ANSWER", "TOOL", "SESSION", "ARGUMENTS"], items.map(ruleRow));
  return exitCodes.ok;
}

function ruleRow({ id, decision, tool, sessionID = "any", input }: ApprovalRule): string[] {
  return [id, decision, tool, sessionID, input === undefined ? "any" : JSON.stringify(input)].map(oneLine);
}

async function forget(cli: Cli, id: string): Promise<number> {
  const client = await ServerClient.find(cli);
  await client.ask(`/api/approval-rules/${encodeURIComponent(id)}`, "DELETE");
  if (cli.json) cli.printJson({ id });
  else cli.talk(`The rule ${id} holds no more.`);
  return exitCodes.ok;
}

function printTable(cli: Cli, head: readonly string[], rows: readonly string[][]): void {
  const styleHead = (text: string) => cli.style("bold", text);
  const lines = renderTable(rows, { head, columns: cli.columns, flexible: head.length - 1, styleHead });
  cli.print(lines.join("\n"));
}

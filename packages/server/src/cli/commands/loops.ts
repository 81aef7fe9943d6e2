import type { Loop } from "../../calls/index.ts";
import type { LoopRelease } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { ServerClient } from "../server-client.ts";
import { oneLine } from "../text.ts";
import { withStore } from "../workspace.ts";

const DAY = 24 * 60 * 60_000;
const MOST = 500;

/** `toolrack loops`: sessions that went in circles, why, and letting one go on. */
export async function loops(
  cli: Cli,
  action: "list" | "resume" = "list",
  sessionID: string | undefined,
): Promise<void> {
  if (action === "list") return list(cli);
  if (sessionID === undefined) throw usageError(`Which session? ${cli.commandLine("loops resume SESSION")}`);
  const path = `/api/loops/${encodeURIComponent(sessionID)}/resume`;
  const server = await ServerClient.findIfAny(cli);
  const release =
    server === undefined
      ? await resumeInStore(cli, sessionID)
      : await server.ask<LoopRelease>(path, "POST", {});
  cli.answer({ release }, () => cli.talk(`The session ${oneLine(sessionID)} may go on.`));
}

async function list(cli: Cli): Promise<void> {
  const server = await ServerClient.findIfAny(cli);
  const { items } =
    server === undefined
      ? { items: await listInStore(cli) }
      : await server.ask<{ items: Loop[] }>("/api/loops");
  cli.answer({ loops: items }, () => {
    if (items.length === 0) return cli.talk("No session went in circles in the last 24 hours.");
    cli.table(["SESSION", "STATE", "TOOL", "WHY", "WHAT CLEARS IT", "CALLS"], items.map(rowOf));
  });
}

function rowOf({ sessionID, state, toolName, verdict, resumed }: Loop): string[] {
  const { evidence = "", clears = "", calls = [] } = verdict;
  const shown = resumed === undefined ? state : `${state} by ${resumed.by}`;
  return [sessionID, shown, toolName, evidence, clears, calls.join(" ")];
}

/** Without a server, on the store that racks share which MCP clients started: such a rack learns of it there. */
async function withLoops<Result>(
  cli: Cli,
  use: (opened: import("../../calls/index.ts").Loops) => Promise<Result>,
): Promise<Result> {
  return withStore(cli, async (store) => {
    const { Loops } = await import("../../calls/index.ts");
    const logger = { info() {}, warn: (text: unknown) => cli.talk(String(text)) };
    const opened = new Loops({ registry: { resumeSession() {} }, store, logger });
    try {
      return await use(opened);
    } finally {
      await opened.close();
    }
  });
}

function listInStore(cli: Cli): Promise<Loop[]> {
  return withLoops(cli, (opened) => opened.list({ since: Date.now() - DAY, limit: MOST }));
}

function resumeInStore(cli: Cli, sessionID: string): Promise<LoopRelease> {
  return withLoops(cli, async (opened) => {
    const [loop] = await opened.list({ session: sessionID, since: Date.now() - DAY, limit: MOST });
    if (loop !== undefined) return opened.resume(sessionID, "cli");
    const message = `The session "${sessionID}" did not go in circles in the last 24 hours. ${cli.commandLine("loops")} lists those that did.`;
    throw new CliError(message, { code: "loop_not_found", details: { sessionID } });
  });
}

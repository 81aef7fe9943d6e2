import { join } from "node:path";
import { type Loop, type Loops, scheduleView } from "../../calls/index.ts";
import type { LearnedSearch, LoopRelease, StoredSchedule } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { ServerClient } from "../server-client.ts";
import { amount, formatTime, oneLine } from "../text.ts";
import { findWorkspace, warningLogger, withStore } from "../workspace.ts";

// What a workspace keeps beside its calls: schedules, sessions that went in circles, learned searches and the files of
// tools. All of these commands work with and without a running server.

/** `toolrack schedules`: scheduled calls. */
export async function schedules(
  cli: Cli,
  action: "list" | "cancel" = "list",
  id: string | undefined,
  { all = false }: { readonly all?: boolean },
): Promise<void> {
  if (action === "list") return listSchedules(cli, all);
  if (id === undefined) throw usageError(`Which one? ${cli.commandLine("schedules cancel ID")}`);
  const { isCancelled, schedule } = await withStore(cli, async ({ schedules: kept }) => ({
    isCancelled: await kept.cancel(id),
    schedule: await kept.get(id),
  }));
  if (schedule === undefined) {
    throw new CliError(`There is no schedule "${id}". See: ${cli.commandLine("schedules list")}`, {
      code: "schedule_not_found",
      details: { id },
    });
  }
  const { state, toolName } = schedule;
  if (!isCancelled) {
    throw new CliError(`The schedule "${id}" is ${state} already.`, {
      code: "schedule_ended",
      details: { id, state },
    });
  }
  cli.answer({ schedule: scheduleView(schedule) }, () => cli.talk(`Cancelled: ${oneLine(toolName)}`));
}

async function listSchedules(cli: Cli, all: boolean): Promise<void> {
  const found = await withStore(cli, (store) => store.schedules.list(all ? {} : { state: "open" }));
  const head = ["ID", "STATE", "NEXT RUN", "WHEN", "RUNS", "TOOL AND ARGUMENTS"];
  const none = all ? "Nothing was ever scheduled." : "Nothing is scheduled.";
  cli.list({ schedules: found.map(scheduleView) }, head, found.map(scheduleRow), none);
}

function scheduleRow(schedule: StoredSchedule): string[] {
  const { id, state, nextRunAt, runs, toolName } = schedule;
  // These members of the view are texts or missing.
  const { time, interval, cron, timeZone } = scheduleView(schedule) as Record<string, string | undefined>;
  const when = interval ?? (cron === undefined ? `once at ${time}` : `${cron} ${timeZone ?? ""}`.trim());
  const what = `${toolName} ${JSON.stringify(schedule.arguments)}`;
  return [id, state, formatTime(nextRunAt), when, String(runs), what];
}

const DAY = 24 * 60 * 60_000;
const MOST_LOOPS = 500;

/** `toolrack loops`: sessions that went in circles, why, and letting one go on. */
export async function loops(
  cli: Cli,
  action: "list" | "resume" = "list",
  sessionID: string | undefined,
): Promise<void> {
  const server = action === "list" || sessionID !== undefined ? await ServerClient.findIfAny(cli) : undefined;
  const recent = { since: Date.now() - DAY, limit: MOST_LOOPS };
  if (action === "list") {
    const { items } = await (server === undefined
      ? withLoops(cli, async (opened) => ({ items: await opened.list(recent) }))
      : server.ask<{ items: readonly Loop[] }>("/api/loops"));
    const head = ["SESSION", "STATE", "TOOL", "WHY", "WHAT CLEARS IT", "CALLS"];
    const none = "No session went in circles in the last 24 hours.";
    return cli.list({ loops: items }, head, items.map(loopRow), none);
  }
  if (sessionID === undefined) throw usageError(`Which session? ${cli.commandLine("loops resume SESSION")}`);
  const release = await (server === undefined
    ? withLoops(cli, async (opened) => {
        const [loop] = await opened.list({ session: sessionID, ...recent });
        if (loop !== undefined) return opened.resume(sessionID, "cli");
        const message = `The session "${sessionID}" did not go in circles in the last 24 hours. ${cli.commandLine("loops")} lists those that did.`;
        throw new CliError(message, { code: "loop_not_found", details: { sessionID } });
      })
    : server.ask<LoopRelease>(`/api/loops/${encodeURIComponent(sessionID)}/resume`, "POST", {}));
  cli.answer({ release }, () => cli.talk(`The session ${oneLine(sessionID)} may go on.`));
}

function loopRow({ sessionID, state, toolName, verdict, resumed }: Loop): string[] {
  const { evidence = "", clears = "", calls = [] } = verdict;
  const shown = resumed === undefined ? state : `${state} by ${resumed.by}`;
  return [sessionID, shown, toolName, evidence, clears, calls.join(" ")];
}

/** Without a server, on the store that racks share which MCP clients started: such a rack learns of it there. */
function withLoops<Result>(cli: Cli, use: (opened: Loops) => Promise<Result>): Promise<Result> {
  return withStore(cli, async (store) => {
    const { Loops } = await import("../../calls/index.ts");
    const opened = new Loops({ registry: { resumeSession() {} }, store, logger: warningLogger(cli) });
    return use(opened).finally(() => opened.close());
  });
}

/** How many characters of a search's id are shown. */
const SHOWN_DIGITS = 10;

/** `toolrack searches`: what search has learned from use. A running server follows a change within seconds. */
export async function searches(
  cli: Cli,
  action: "list" | "forget" | "clear" | "on" | "off" = "list",
  id: string | undefined,
): Promise<void> {
  const counted = (count: number) => `${count} ${count === 1 ? "search" : "searches"}`;
  if (action === "list") {
    const { found, isOn } = await withStore(cli, async ({ searches: kept }) => ({
      found: await kept.list(),
      isOn: (await kept.state()).isOn,
    }));
    const learned = found.length === 0 ? "No search has been learned." : `${counted(found.length)} learned.`;
    const off = isOn ? "" : ` Learning is off. Switch it on with: ${cli.commandLine("searches on")}`;
    return cli.answer({ learning: isOn, searches: found }, () => {
      const head = ["ID", "SEARCH", "TOOL", "USES", "LAST USED"];
      if (found.length > 0) cli.table(head, found.map(searchRow), { flexible: 1 });
      cli.talk(learned + off);
    });
  }
  if (action === "on" || action === "off") {
    const isOn = action === "on";
    await withStore(cli, ({ searches: kept }) => kept.setOn(isOn));
    const off = `Nothing is learned from searches any more. What was learned helps nobody; delete it with: ${cli.commandLine("searches clear")}`;
    return cli.answer({ learning: isOn }, () => cli.talk(isOn ? "Search learns from use." : off));
  }
  if (action === "forget" && id === undefined)
    throw usageError(`Which one? ${cli.commandLine("searches forget ID")}`);
  const forgotten = await forgetSearches(cli, action === "forget" ? id : undefined);
  cli.answer({ forgotten }, () => cli.talk(`Forgot ${counted(forgotten)}.`));
}

function searchRow({ id, query, toolName, uses, usedAt }: LearnedSearch): string[] {
  return [id.slice(0, SHOWN_DIGITS), query, toolName, String(uses), formatTime(usedAt)];
}

/** Forgets one search, by its id or the beginning of it, or all. */
function forgetSearches(cli: Cli, id: string | undefined): Promise<number> {
  return withStore(cli, async ({ searches: kept }) => {
    if (id === undefined) return kept.remove({});
    const meant = (await kept.list()).filter((one) => one.id.startsWith(id));
    if (meant.length === 1) return kept.remove({ id: meant[0]!.id });
    throw new CliError(
      meant.length === 0
        ? `No search has the id "${id}". See: ${cli.commandLine("searches list")}`
        : `${meant.length} searches have an id that begins with "${id}". Write more of it.`,
      { code: "search_not_found", details: { id } },
    );
  });
}

/** `toolrack data`: what sandboxed tools and skills have kept in their folders. */
export async function data(
  cli: Cli,
  action: "list" | "clear" = "list",
  name: string | undefined,
): Promise<void> {
  // Imported late, so that help and usage errors do not wait for the sandbox.
  const { DataFolders } = await import("../../sandbox/index.ts");
  const folder = join(findWorkspace(cli), ".toolrack", "data");
  const folders = new DataFolders(folder);
  const kept = await folders.list();
  if (action === "list") {
    return cli.answer({ folder, data: kept }, () => {
      const rows = kept.map((one) => [one.name, String(one.files), String(one.bytes)]);
      if (rows.length > 0) cli.table(["NAME", "FILES", "BYTES"], rows, { flexible: 0 });
      cli.talk(rows.length === 0 ? "No tool has kept any files." : `They lie in ${folder}`);
    });
  }
  if (name === undefined) throw usageError(`Whose data? ${cli.commandLine("data clear NAME")}`);
  if (!kept.some((one) => one.name === name)) {
    throw new CliError(`"${name}" has kept no files. See: ${cli.commandLine("data list")}`, {
      code: "data_not_found",
      details: { name },
    });
  }
  const cleared = await folders.clear(name);
  cli.answer({ data: cleared }, () => cli.talk(`Deleted ${amount(cleared.files, "file")} of ${name}.`));
}

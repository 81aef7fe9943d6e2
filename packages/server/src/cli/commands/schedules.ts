import { scheduleView } from "../../calls/schedules.ts";
import type { StoredSchedule } from "../../store/schedules.ts";
import type { Store } from "../../store/store.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { oneLine } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { withStore } from "../with-store.ts";

export type ScheduleAction = "list" | "cancel";

export interface SchedulesOptions {
  readonly all?: boolean;
}

/** `toolrack schedules`: what is to run later. Whether a server runs does not matter: both look into the store. */
export async function schedules(
  cli: Cli,
  action: ScheduleAction = "list",
  id: string | undefined,
  { all = false }: SchedulesOptions,
): Promise<number> {
  if (action === "list") return withStore(cli, (store) => list(cli, store, all));
  if (id === undefined) throw usageError(`Which one? ${cli.commandLine("schedules cancel ID")}`);
  return withStore(cli, (store) => cancel(cli, store, id));
}

async function list(cli: Cli, store: Store, all: boolean): Promise<number> {
  const found = await store.schedules.list(all ? {} : { state: "active" });
  if (cli.json) {
    cli.printJson({ schedules: found.map(scheduleView) });
    return exitCodes.ok;
  }
  if (found.length === 0) {
    cli.talk(all ? "Nothing was ever scheduled." : "Nothing is scheduled.");
    return exitCodes.ok;
  }
  const head = ["ID", "STATE", "NEXT RUN", "WHEN", "RUNS", "TOOL AND ARGUMENTS"];
  const styleHead = (text: string) => cli.style("bold", text);
  const lines = renderTable(found.map(rowOf), {
    head,
    columns: cli.columns,
    flexible: head.length - 1,
    styleHead,
  });
  cli.print(lines.join("\n"));
  return exitCodes.ok;
}

function rowOf(schedule: StoredSchedule): string[] {
  const { id, state, nextRunAt, runs, toolName } = schedule;
  const { time, interval, cron, timeZone } = scheduleView(schedule) as Record<string, string | undefined>;
  const next = nextRunAt === undefined ? "-" : `${new Date(nextRunAt).toISOString().slice(0, 19)}Z`;
  const when = interval ?? (cron === undefined ? `once at ${time}` : `${cron} ${timeZone ?? ""}`.trim());
  const what = `${toolName} ${JSON.stringify(schedule.arguments)}`;
  return [id, state, next, when, String(runs), what].map(oneLine);
}

async function cancel(cli: Cli, { schedules: kept }: Store, id: string): Promise<number> {
  const isCancelled = await kept.cancel(id);
  const schedule = await kept.get(id);
  if (schedule === undefined) {
    throw new CliError(`There is no schedule "${id}". See: ${cli.commandLine("schedules list")}`, {
      code: "schedule_not_found",
      details: { id },
    });
  }
  if (!isCancelled) {
    throw new CliError(`The schedule "${id}" is ${schedule.state} already.`, {
      code: "schedule_ended",
      details: { id, state: schedule.state },
    });
  }
  if (cli.json) cli.printJson({ schedule: scheduleView(schedule) });
  else cli.talk(`Cancelled: ${oneLine(schedule.toolName)}`);
  return exitCodes.ok;
}

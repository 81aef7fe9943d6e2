import { isOpen, scheduleView } from "../../calls/index.ts";
import type { StoredSchedule } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { formatTime, oneLine } from "../text.ts";
import { withStore } from "../workspace.ts";

/** `toolrack schedules`: scheduled calls. Reads the store, so it works with and without a running server. */
export async function schedules(
  cli: Cli,
  action: "list" | "cancel" = "list",
  id: string | undefined,
  { all = false }: { readonly all?: boolean },
): Promise<void> {
  if (action === "list") return list(cli, all);
  if (id === undefined) throw usageError(`Which one? ${cli.commandLine("schedules cancel ID")}`);
  return cancel(cli, id);
}

async function list(cli: Cli, all: boolean): Promise<void> {
  const stored = await withStore(cli, (store) => store.schedules.list());
  const found = stored.filter((schedule) => all || isOpen(schedule));
  cli.answer({ schedules: found.map(scheduleView) }, () => {
    if (found.length > 0)
      cli.table(["ID", "STATE", "NEXT RUN", "WHEN", "RUNS", "TOOL AND ARGUMENTS"], found.map(rowOf));
    else cli.talk(all ? "Nothing was ever scheduled." : "Nothing is scheduled.");
  });
}

function rowOf(schedule: StoredSchedule): string[] {
  const { id, state, nextRunAt, runs, toolName } = schedule;
  // These members of the view are texts or missing.
  const { time, interval, cron, timeZone } = scheduleView(schedule) as Record<string, string | undefined>;
  const when = interval ?? (cron === undefined ? `once at ${time}` : `${cron} ${timeZone ?? ""}`.trim());
  const what = `${toolName} ${JSON.stringify(schedule.arguments)}`;
  return [id, state, formatTime(nextRunAt), when, String(runs), what];
}

async function cancel(cli: Cli, id: string): Promise<void> {
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

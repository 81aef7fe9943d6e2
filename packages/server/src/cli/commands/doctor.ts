import { join } from "node:path";
import type { RepairReport } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes } from "../cli-error.ts";
import { checkProgram, checkWorkspace } from "../doctor/checks.ts";
import type { Check } from "../doctor/state-files.ts";
import { oneLine } from "../text.ts";
import { findWorkspace, talkingLogger, withApp } from "../workspace.ts";

const styles = { ok: "green", warn: "yellow", fail: "red" } as const;

export interface DoctorOptions {
  readonly repair?: boolean;
}

/** `toolrack doctor`: checks what Toolrack needs and says what to do about problems. */
export async function doctor(cli: Cli, { repair = false }: DoctorOptions = {}): Promise<void> {
  if (repair) return repairStore(cli);
  const checks = [...(await checkProgram()), ...(await workspaceChecks(cli))];
  const ok = !checks.some(({ status }) => status === "fail");
  cli.answer({ ok, checks }, () => {
    for (const check of checks) printCheck(cli, check);
  });
  if (!ok) cli.exitCode = exitCodes.failure;
}

/** `toolrack doctor --repair`: copies the readable part of a damaged database into a new one. */
async function repairStore(cli: Cli): Promise<void> {
  const workspace = findWorkspace(cli);
  const { loadEnvironment } = await import("../../config/index.ts");
  const { repairDatabase, RepairRefused } = await import("../../store/index.ts");
  const forget = await loadEnvironment(workspace, talkingLogger(cli));
  const isElsewhere = (process.env.DATABASE_URL ?? "") !== "";
  forget();
  if (isElsewhere) {
    throw new CliError(
      "The store is not a SQLite file: DATABASE_URL names a database server. Repair it with that server's own tools.",
      { code: "repair_refused" },
    );
  }
  try {
    const report = await repairDatabase(join(workspace, ".toolrack"));
    cli.answer(report, () => printRepair(cli, report));
  } catch (thrown) {
    if (thrown instanceof RepairRefused) throw new CliError(thrown.message, { code: "repair_refused" });
    throw thrown;
  }
}

function printRepair(cli: Cli, { problems, backup, tables }: RepairReport): void {
  if (backup === undefined) {
    cli.print("The database is whole. Nothing was changed.");
    return;
  }
  cli.print(`The database was damaged: ${oneLine(problems[0] ?? "")}`);
  cli.print(`The damaged file is kept in ${backup}. What could be read is in a new one in its place:`);
  for (const { name, saved, lost } of tables) {
    if (saved === 0 && lost === 0) continue;
    cli.print(`  ${name.padEnd(20)}  ${saved} saved${lost === 0 ? "" : `, at least ${lost} lost`}`);
  }
  cli.print("Start the server again. Delete the kept file when you no longer need it.");
}

async function workspaceChecks(cli: Cli): Promise<Check[]> {
  try {
    const directory = findWorkspace(cli);
    return await withApp(cli, { directory }, (app) => checkWorkspace(cli, app));
  } catch (thrown) {
    if (!(thrown instanceof CliError)) throw thrown;
    const name = thrown.code === "config_invalid" ? "config" : "workspace";
    return [{ name, status: "fail", message: thrown.message, remedy: "Then run doctor again for the rest." }];
  }
}

function printCheck(cli: Cli, { name, status, message, remedy }: Check): void {
  cli.print(`${cli.style(styles[status], status.padEnd(4))}  ${name.padEnd(11)}  ${oneLine(message)}`);
  if (remedy !== undefined) cli.print(`                   ${oneLine(remedy)}`);
}

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { findFormatter } from "../../builtin-tools/index.ts";
import { unreadConfigs } from "../../config/index.ts";
import { shellQuote, whereOf } from "../../helpers/index.ts";
import type { App } from "../../rack/index.ts";
import type { RepairReport } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes } from "../cli-error.ts";
import { amount, oneLine } from "../text.ts";
import { configOf, entryAt, failuresIn, findWorkspace, talkingLogger, withApp } from "../workspace.ts";
import {
  attempt,
  type Check,
  checkApprovals,
  checkDisk,
  checkKey,
  checkOwnEntries,
  checkServer,
  checkStore,
  checkToken,
} from "./doctor-state.ts";

const NEEDED_NODE = 24;
const DATABASE_LIMIT = 5_000;
const run = promisify(execFile);

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

/** Checks what the program needs in any workspace. */
function checkProgram(): Promise<Check[]> {
  return Promise.all([checkNode(), checkEsbuild(), checkRipgrep(), checkBubblewrap()]);
}

/** Checks an opened workspace. */
async function checkWorkspace(cli: Cli, app: App): Promise<Check[]> {
  return [
    { name: "workspace", status: "ok", message: app.workspace.directory },
    checkConfig(app),
    checkTools(cli, app),
    await checkLog(app),
    await checkDisk(app),
    await checkStore(cli, app),
    await checkServer(app),
    await checkKey(app),
    await checkToken(app),
    await checkApprovals(app),
    ...(await checkOwnEntries(app)),
    await checkSandbox(app),
    await checkFormatter(app),
    ...(await checkDatabases(app)),
  ];
}

async function checkNode(): Promise<Check> {
  const version = process.versions.node;
  if (Number.parseInt(version, 10) >= NEEDED_NODE) return { name: "node", status: "ok", message: version };
  const remedy = `Install Node ${NEEDED_NODE} or newer.`;
  return { name: "node", status: "fail", message: `${version} is too old`, remedy };
}

async function checkEsbuild(): Promise<Check> {
  const remedy = "Install the dependencies again on this machine: npm ci";
  return attempt("esbuild", "fail", remedy, async () => {
    const { transform, version } = await import("esbuild");
    const { code } = await transform("const one: number = 1", { loader: "ts" });
    if (!code.includes("const one = 1")) throw new Error("it compiled TypeScript to something else");
    return version;
  });
}

async function checkRipgrep(): Promise<Check> {
  const remedy = "internal_code_search needs it. Install the dependencies again on this machine: npm ci";
  return attempt("ripgrep", "fail", remedy, async () => {
    const { rgPath } = await import("@vscode/ripgrep");
    const { stdout } = await run(rgPath, ["--version"]);
    return stdout.split("\n")[0]!.replace("ripgrep ", "");
  });
}

async function checkBubblewrap(): Promise<Check> {
  const remedy = "Install bubblewrap and allow user namespaces, so that untrusted tools can be confined.";
  return attempt("bubblewrap", "warn", remedy, async () => {
    const { stdout } = await run("bwrap", ["--version"]);
    // Runs it, because kernels and containers often forbid what an installed bwrap needs.
    await run("bwrap", ["--unshare-all", "--ro-bind", "/", "/", "true"]);
    return stdout.trim().replace("bubblewrap ", "");
  });
}

function checkConfig({ workspace, configOrigins }: App): Check {
  const file = configOf(workspace.directory);
  const unread = unreadConfigs(workspace.directory);
  if (unread.length > 0) {
    const instead = file === undefined ? "the defaults apply" : `${file} is`;
    const message = `${unread.join(", ")} ${unread.length === 1 ? "is" : "are"} not read; ${instead}`;
    const remedy = "Write it as toolrack.config.ts: export default { … }. Or delete it.";
    return { name: "config", status: "warn", message, remedy };
  }
  if (configOrigins.length === 0) {
    return { name: "config", status: "ok", message: file ?? "none, which is fine: the defaults apply" };
  }
  const keys = configOrigins.map(({ key, from }) => `${key} (${from})`).join(", ");
  return { name: "config", status: "ok", message: `${file ?? "no file"}; set: ${keys}` };
}

function checkTools(cli: Cli, { report, workspace }: App): Check {
  const failed = failuresIn(report);
  const own = report.files.reduce((count, { tools }) => count + tools.length, 0);
  const message = `${amount(own, "tool")} of ${amount(report.files.length, "file")}, ${failed.length} failed`;
  if (failed.length === 0) return { name: "tools", status: "ok", message };
  const files = failed.map(whereOf).join(", ");
  return {
    name: "tools",
    status: "fail",
    message: `${message}: ${files}`,
    remedy: `See why: ${cli.programWords} check --dir ${shellQuote(workspace.directory)}`,
  };
}

async function checkLog({ log }: App): Promise<Check> {
  const remedy = "Let this user write there, or set log.file in the config.";
  return attempt("log", "fail", remedy, async () => {
    let place = log.file;
    while (entryAt(place) === undefined && place !== dirname(place)) place = dirname(place);
    await access(place, constants.W_OK);
    return log.file;
  });
}

async function checkSandbox({ sandbox }: App): Promise<Check> {
  const remedy = "Tools of files named *.tool.* run in it. What it lacks on this machine is named above.";
  return attempt("sandbox", "warn", remedy, async () => {
    const { level, reason } = await sandbox();
    if (reason !== undefined) throw new Error(`level ${level}: ${reason}`);
    return `level ${level}`;
  });
}

async function checkFormatter({ workspace }: App): Promise<Check> {
  return attempt("formatter", "warn", "Only internal_code_format needs one.", async () => {
    const { formatter, program } = await findFormatter(workspace.directory, workspace.directory);
    return `${formatter.label}, ${program}`;
  });
}

/** Queries each database with the tool that uses databases, so that the check meets the same problems as the tool. */
async function checkDatabases({ registry, workspace }: App): Promise<Check[]> {
  if (registry.get("internal_database_query") === undefined) return [];
  return Promise.all(
    Object.keys(workspace.databases).map((database) =>
      attempt(
        `database ${database}`,
        "fail",
        "Check its address in the config, and that it is up.",
        async () => {
          const input = { database, sql: "SELECT 1", timeout: DATABASE_LIMIT };
          const options = { caller: "doctor", timeout: DATABASE_LIMIT * 2 };
          const { content, error } = await registry.execute("internal_database_query", input, options);
          if (error !== undefined) throw new Error(content);
          return "answers";
        },
      ),
    ),
  );
}

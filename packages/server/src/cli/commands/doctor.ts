import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { type Check, checkProgram, checkWorkspace } from "../doctor/checks.ts";
import { exitCodes } from "../exit-codes.ts";
import { findWorkspace } from "../find-workspace.ts";
import { oneLine } from "../text/printable.ts";
import { withApp } from "../with-app.ts";

const styles = { ok: "green", warn: "yellow", fail: "red" } as const;

/** `toolrack doctor`: what Toolrack needs, whether it is there, and what to do about it. */
export async function doctor(cli: Cli): Promise<number> {
  const checks = [...(await checkProgram()), ...(await workspaceChecks(cli))];
  if (cli.json) cli.printJson({ ok: !checks.some(({ status }) => status === "fail"), checks });
  else for (const check of checks) printCheck(cli, check);
  return checks.some(({ status }) => status === "fail") ? exitCodes.failure : exitCodes.ok;
}

async function workspaceChecks(cli: Cli): Promise<Check[]> {
  try {
    const directory = findWorkspace(cli.directory);
    return await withApp(cli, { directory }, checkWorkspace);
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

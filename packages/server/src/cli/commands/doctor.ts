import type { Cli } from "../cli.ts";
import { CliError, exitCodes } from "../cli-error.ts";
import { type Check, checkProgram, checkWorkspace } from "../doctor/checks.ts";
import { oneLine } from "../text.ts";
import { findWorkspace, withApp } from "../workspace.ts";

const styles = { ok: "green", warn: "yellow", fail: "red" } as const;

/** `toolrack doctor`: what Toolrack needs, whether it is there, and what to do about it. */
export async function doctor(cli: Cli): Promise<void> {
  const checks = [...(await checkProgram()), ...(await workspaceChecks(cli))];
  const ok = !checks.some(({ status }) => status === "fail");
  cli.answer({ ok, checks }, () => {
    for (const check of checks) printCheck(cli, check);
  });
  if (!ok) cli.exitCode = exitCodes.failure;
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

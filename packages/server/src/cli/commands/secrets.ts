import { text as readAll } from "node:stream/consumers";
import { isCancel, password } from "@clack/prompts";
import { type Secrets, toolSecretName } from "../../access/secrets.ts";

import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { renderTable } from "../text/render-table.ts";
import { withStore } from "../with-store.ts";

export type SecretAction = "list" | "set" | "remove";

/** `toolrack secrets`: keeps values for tools, encrypted. No command ever prints one. */
export async function secrets(
  cli: Cli,
  action: SecretAction | undefined,
  first: string | undefined,
  variable: string | undefined,
): Promise<number> {
  if (action === undefined || action === "list") return withSecrets(cli, (kept) => list(cli, kept));
  if (first === undefined) {
    throw usageError(
      `Say which secret, NAME, or TOOL NAME for one tool alone: ${cli.commandLine(`secrets ${action} NAME`)}`,
    );
  }
  const name = variable === undefined ? first : ofTool(first, variable);
  // Asked for before anything is opened: it may take a while.
  const value = action === "set" ? await readValue(cli, name) : undefined;
  return withSecrets(cli, async (kept) => {
    if (value === undefined) return remove(cli, kept, name);
    await kept.set(name, value);
    if (cli.json) cli.printJson({ name });
    else cli.talk(`The secret ${name} is set.`);
    return exitCodes.ok;
  });
}

/** Somebody may have written the value there, where others can see it: then it must not become a name. */
function ofTool(tool: string, variable: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(variable)) return toolSecretName(tool, variable);
  throw usageError(
    "The second word is the variable that the tool declares, such as API_KEY. The value is read from standard input, or asked for, and never given on the command line.",
  );
}

async function list(cli: Cli, kept: Secrets): Promise<number> {
  const all = await kept.list();
  if (cli.json) {
    cli.printJson({ secrets: all.map((info) => ({ ...info, isReadable: !kept.unreadable.has(info.name) })) });
    return exitCodes.ok;
  }
  if (all.length === 0)
    cli.talk(`There are no secrets. Set one with: ${cli.commandLine("secrets set NAME")}`);
  else {
    const rows = all.map(({ name, updatedAt }) => [name, new Date(updatedAt).toISOString()]);
    const styleHead = (head: string) => cli.style("bold", head);
    cli.print(renderTable(rows, { head: ["NAME", "SET"], styleHead }).join("\n"));
  }
  for (const reason of kept.unreadable.values()) cli.talk(`warning: ${reason}`);
  return exitCodes.ok;
}

async function remove(cli: Cli, kept: Secrets, name: string): Promise<number> {
  if (!(await kept.remove(name))) {
    throw new CliError(`There is no secret ${name}. See: ${cli.commandLine("secrets list")}`, {
      code: "secret_not_found",
      details: { name },
    });
  }
  if (cli.json) cli.printJson({ name });
  else cli.talk(`The secret ${name} is removed.`);
  return exitCodes.ok;
}

/** From standard input or a prompt, and never from the command line, which other users of the machine can see. */
async function readValue(cli: Cli, name: string): Promise<string> {
  if (!process.stdin.isTTY) {
    const value = (await readAll(process.stdin)).replace(/\r?\n$/, "");
    if (value !== "") return value;
    throw usageError(`Give the value on standard input: ${cli.commandLine(`secrets set ${name}`)} < FILE`);
  }
  if (!cli.interactive)
    throw usageError("Standard error must be a terminal too, to ask for the value there.");
  const value = await password({
    message: `The value of ${name}`,
    output: process.stderr,
    validate: (text) => ((text ?? "") === "" ? "It must not be empty." : undefined),
  });
  if (!isCancel(value)) return value;
  throw new CliError("Nothing was set.", { code: "interrupted", exitCode: exitCodes.interrupted });
}

function withSecrets(cli: Cli, use: (kept: Secrets) => Promise<number>): Promise<number> {
  return withStore(cli, async (store, directory) => {
    const { openSecrets } = await import("../../access/secrets.ts");
    return use(await openSecrets({ directory, store }));
  });
}

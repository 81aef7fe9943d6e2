import { type Secrets, toolSecretName } from "../../access/index.ts";

import type { Cli } from "../cli.ts";
import { CliError, interruptedError, usageError } from "../cli-error.ts";
import { withStore } from "../workspace.ts";

/** `toolrack secrets`: stores encrypted values for tools. No command ever prints one. */
export async function secrets(
  cli: Cli,
  action: "list" | "set" | "remove" = "list",
  first: string | undefined,
  variable: string | undefined,
): Promise<void> {
  if (action === "list") return withSecrets(cli, (kept) => list(cli, kept));
  if (first === undefined) {
    throw usageError(
      `Say which secret, NAME, or TOOL NAME for one tool alone: ${cli.commandLine(`secrets ${action} NAME`)}`,
    );
  }
  const name = variable === undefined ? first : ofTool(first, variable);
  if (action === "remove") return withSecrets(cli, (kept) => remove(cli, kept, name));
  // Asks before the store is opened, because the person may take a while.
  const value = await readValue(cli, name);
  await withSecrets(cli, (kept) => kept.set(name, value));
  cli.answer({ name }, () => cli.talk(`The secret ${name} is set.`));
}

/** The second word may be the secret value itself, typed by mistake. Then it must not be kept as a name. */
function ofTool(tool: string, variable: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(variable)) return toolSecretName(tool, variable);
  throw usageError(
    "The second word is the variable that the tool declares, such as API_KEY. The value is read from standard input, or asked for, and never given on the command line.",
  );
}

async function list(cli: Cli, kept: Secrets): Promise<void> {
  const all = await kept.list();
  const secrets = all.map((info) => ({ ...info, isReadable: !kept.unreadable.has(info.name) }));
  cli.answer({ secrets }, () => {
    if (all.length === 0)
      cli.talk(`There are no secrets. Set one with: ${cli.commandLine("secrets set NAME")}`);
    else {
      const rows = all.map(({ name, updatedAt }) => [name, new Date(updatedAt).toISOString()]);
      cli.table(["NAME", "SET"], rows, { flexible: -1 });
    }
    for (const reason of kept.unreadable.values()) cli.talk(`warning: ${reason}`);
  });
}

async function remove(cli: Cli, kept: Secrets, name: string): Promise<void> {
  if (!(await kept.remove(name))) {
    throw new CliError(`There is no secret ${name}. See: ${cli.commandLine("secrets list")}`, {
      code: "secret_not_found",
      details: { name },
    });
  }
  cli.answer({ name }, () => cli.talk(`The secret ${name} is removed.`));
}

/** Reads from standard input or a prompt, never from the command line, which other users of the machine can see. */
async function readValue(cli: Cli, name: string): Promise<string> {
  if (!cli.surroundings.stdin.isTTY) {
    const value = (await cli.readInput()).replace(/\r?\n$/, "");
    if (value !== "") return value;
    throw usageError(`Give the value on standard input: ${cli.commandLine(`secrets set ${name}`)} < FILE`);
  }
  if (!cli.interactive)
    throw usageError("Standard error must be a terminal too, to ask for the value there.");
  const { isCancel, password } = await import("@clack/prompts");
  const value = await password({
    message: `The value of ${name}`,
    ...cli.prompt,
    validate: (text) => ((text ?? "") === "" ? "It must not be empty." : undefined),
  });
  if (isCancel(value)) throw interruptedError("Nothing was set.");
  return value;
}

function withSecrets(cli: Cli, use: (kept: Secrets) => Promise<void>): Promise<void> {
  return withStore(cli, async (store, directory) => {
    const { openSecrets } = await import("../../access/index.ts");
    return use(await openSecrets({ directory, store }));
  });
}

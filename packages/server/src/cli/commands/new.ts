import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { shellQuote } from "../../helpers/values.ts";
import type { App } from "../../index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { describeFailure } from "../file-problems.ts";
import { type ContractName, contractNames } from "../new/contracts.ts";
import { type Scaffold, scaffold } from "../new/scaffold.ts";
import { withApp } from "../with-app.ts";

/** `toolrack new`: a file to begin a tool with, written, loaded and ready to be called. */
export async function newTool(cli: Cli, words: readonly string[], style?: ContractName): Promise<number> {
  const given = understand(cli, words, style);
  const { contract, name } = await complete(cli, given.contract, given.name);
  // Names are checked before anything is opened.
  scaffold(contract, name, { hasZod: false });
  return withApp(cli, {}, async (app) => {
    const folder = resolve(app.workspace.directory, app.config.tools?.[0] ?? "tools");
    const made = scaffold(contract, name, { hasZod: hasZod(folder) });
    const path = join(folder, made.file);
    refuseTaken(app, made, path);
    await write(path, made.text);
    return report(cli, app, contract, made, relative(app.workspace.directory, path));
  });
}

/** `CONTRACT NAME`, or `NAME --style CONTRACT`. */
function understand(
  cli: Cli,
  words: readonly string[],
  style: ContractName | undefined,
): { contract?: ContractName; name?: string } {
  const [first, second] = words;
  if (style !== undefined) {
    if (second !== undefined)
      throw usageError(
        `With --style only the name is given: ${cli.commandLine(`new NAME --style ${style}`)}`,
      );
    return { contract: style, ...(first === undefined ? {} : { name: first }) };
  }
  if (first === undefined) return {};
  const contract = contractNames.find((known) => known === first);
  if (contract === undefined) {
    throw usageError(`"${first}" is not a contract. Contracts: ${contractNames.join(", ")}.`);
  }
  return { contract, ...(second === undefined ? {} : { name: second }) };
}

async function complete(
  cli: Cli,
  contract: ContractName | undefined,
  name: string | undefined,
): Promise<{ contract: ContractName; name: string }> {
  if (contract !== undefined && name !== undefined) return { contract, name };
  if (!cli.interactive || cli.json) {
    throw usageError(
      `Say which tool to make: ${cli.commandLine("new CONTRACT NAME")}. Contracts: ${contractNames.join(", ")}.`,
    );
  }
  const { askScaffold } = await import("../new/ask-scaffold.ts");
  const answer = await askScaffold(contract);
  if (answer !== undefined) return answer;
  throw new CliError("Nothing was made.", { code: "interrupted", exitCode: exitCodes.interrupted });
}

/** The Zod that `tool.schema` would be. */
function hasZod(folder: string): boolean {
  try {
    createRequire(join(folder, "x.js")).resolve("zod");
    return true;
  } catch {
    return false;
  }
}

function refuseTaken({ registry }: App, { tool }: Scaffold, path: string): void {
  const taken = registry.get(tool);
  // When it comes from this very file, the file itself is what is in the way, and writing says so.
  if (taken === undefined || taken.origin === undefined || path.endsWith(taken.origin)) return;
  throw new CliError(`There is a tool "${tool}" already, from ${taken.origin}. Choose another name.`, {
    code: "name_taken",
    details: { tool, origin: taken.origin },
  });
}

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  try {
    await writeFile(path, text, { flag: "wx" });
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
    throw new CliError(`${path} exists already, and is left as it is. Choose another name.`, {
      code: "file_exists",
      details: { path },
    });
  }
}

async function report(
  cli: Cli,
  app: App,
  contract: ContractName,
  { tool }: Scaffold,
  file: string,
): Promise<number> {
  const { files } = await app.files.load();
  const failure = files.find((found) => found.file === file)?.failure;
  const next = cli.commandLine(`call ${tool} name=${shellQuote("World")}`);
  if (cli.json)
    cli.printJson({
      file,
      contract,
      tool,
      loaded: failure === undefined,
      ...(failure ? { failure } : {}),
      next,
    });
  else cli.print(file);
  if (failure === undefined) cli.talk(`The tool "${tool}" is ready. Run it:\n  ${next}`);
  else cli.talk(`It was written, but does not load:\n${describeFailure(failure)}`);
  return failure === undefined ? exitCodes.ok : exitCodes.failure;
}

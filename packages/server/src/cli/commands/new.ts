import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import type { App } from "../../rack/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes, interruptedError, usageError } from "../cli-error.ts";
import { describeFailure, withApp } from "../workspace.ts";
import {
  type ContractName,
  contractNames,
  contracts,
  nameProblem,
  type Scaffold,
  scaffold,
} from "./scaffolds.ts";

/** `toolrack new CONTRACT NAME`, or `NAME --style CONTRACT`: writes a file to start a tool with, and loads it. */
export async function newTool(
  cli: Cli,
  first: string | undefined,
  second: string | undefined,
  { style }: { readonly style?: ContractName },
): Promise<void> {
  const given = style === undefined ? understand(first) : style;
  if (style !== undefined && second !== undefined)
    throw usageError(`With --style only the name is given: ${cli.commandLine(`new NAME --style ${style}`)}`);
  const { contract, name } = await complete(cli, given, style === undefined ? second : first);
  // Names are checked before anything is opened.
  const made = scaffold(contract, name);
  return withApp(cli, {}, async (app) => {
    const { tools, skills } = app.config;
    const place = (made.place === "tools" ? tools : skills?.folders)?.[0] ?? made.place;
    const folder = resolve(app.workspace.directory, place);
    const paths = made.files.map(([path]) => join(folder, path));
    refuseTaken(app, made, paths[0]!);
    for (const [at, path] of paths.entries()) await write(path, made.files[at]![1]);
    await report(cli, app, contract, made, relative(app.workspace.directory, paths[0]!));
  });
}

function understand(word: string | undefined): ContractName | undefined {
  const contract = contractNames.find((known) => known === word);
  if (contract !== undefined || word === undefined) return contract;
  throw usageError(`"${word}" is not a contract. Contracts: ${contractNames.join(", ")}.`);
}

async function complete(
  cli: Cli,
  given: ContractName | undefined,
  name: string | undefined,
): Promise<{ contract: ContractName; name: string }> {
  if (given !== undefined && name !== undefined) return { contract: given, name };
  if (!cli.interactive || cli.json) {
    throw usageError(
      `Say which tool to make: ${cli.commandLine("new CONTRACT NAME")}. Contracts: ${contractNames.join(", ")}.`,
    );
  }
  const { isCancel, select, text } = await import("@clack/prompts");
  const contract =
    given ??
    (await select<ContractName>({
      message: "How do you want to write the tool?",
      options: contractNames.map((value) => ({ value, label: value, hint: contracts[value] })),
      ...cli.prompt,
    }));
  if (isCancel(contract)) throw interruptedError("Nothing was made.");
  const answer = await text({
    message: contract === "internal" ? "Its name, as group/action" : "Its name",
    placeholder: contract === "internal" ? "text/greet" : "greet",
    validate: (value) => nameProblem(contract, value ?? ""),
    ...cli.prompt,
  });
  if (isCancel(answer)) throw interruptedError("Nothing was made.");
  return { contract, name: answer };
}

function refuseTaken({ registry }: App, { tool }: Scaffold, path: string): void {
  const origin = registry.get(tool)?.origin;
  // When the tool comes from this very file, writing the file fails and says that it exists.
  if (origin === undefined || path.endsWith(origin)) return;
  throw new CliError(`There is a tool "${tool}" already, from ${origin}. Choose another name.`, {
    code: "name_taken",
    details: { tool, origin },
  });
}

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text, { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    throw new CliError(`${path} exists already, and is left as it is. Choose another name.`, {
      code: "file_exists",
      details: { path },
    });
  });
}

async function report(
  cli: Cli,
  app: App,
  contract: ContractName,
  { tool }: Scaffold,
  file: string,
): Promise<void> {
  if (contract === "skill") await app.skills.reload();
  const { files } = await app.files.load();
  const failure = files.find((found) => found.file === file)?.failure;
  const next = cli.commandLine(`call ${tool} name=World`);
  cli.answer({ file, contract, tool, loaded: failure === undefined, failure, next }, () => cli.print(file));
  if (failure === undefined) cli.talk(`The tool "${tool}" is ready. Run it:\n  ${next}`);
  else {
    cli.talk(`It was written, but does not load:\n${describeFailure(failure)}`);
    cli.exitCode = exitCodes.failure;
  }
}

import { shellQuote } from "../../helpers/values.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { writeClientFile } from "../install/client-file.ts";
import { type ClientId, clients } from "../install/clients.ts";
import { type ConnectionOptions, type ConnectionPlan, planConnection } from "../install/connection-plan.ts";
import {
  isOfRack,
  isSameConnection,
  mergeEntry,
  ownTexts,
  type RackEntry,
  readRackEntry,
  tokenOf,
} from "../install/known-entry.ts";
import { listClients } from "../install/list-clients.ts";
import { clientFileOf, inFile, isClientThere, openClient, openDocument } from "../install/open-client.ts";
import { type FormerToken, makeClientToken, type NewToken, takeBackToken } from "../install/rack-access.ts";
import { applyEdits, describeEdits } from "../install/text-edit.ts";
import { oneLine, printable } from "../text/printable.ts";

export interface InstallOptions extends ConnectionOptions {
  readonly name: string;
  readonly project?: boolean;
  readonly print?: boolean;
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

export type UninstallOptions = Pick<InstallOptions, "name" | "project" | "dryRun" | "force">;

/** Stands for the token wherever people see it. */
const TOKEN = "trk_…";

/** `toolrack install`: writes the rack into the configuration of an MCP client, or lists the clients. */
export async function install(cli: Cli, id: ClientId | undefined, options: InstallOptions): Promise<number> {
  checkOptions(id, options);
  const { name, project = false } = options;
  if (id === undefined) return listClients(cli, name, project);
  const path = clientFileOf(id, project);
  const plan = await planConnection(cli, id, options);
  if (options.print === true) return print(cli, plan, path, name);

  const { file, document } = await openClient(clients[id], path, name);
  const existing = readRackEntry(document.entry);
  // The file of a project is read there, and relative paths in it begin there.
  const startedIn = project ? process.cwd() : undefined;
  const isOwn = existing !== undefined && isOfRack(existing, { ...plan, startedIn });
  const about = {
    client: id,
    file: path,
    key: name,
    transport: plan.access === undefined ? "stdio" : "http",
  };
  if (isSameConnection(document.entry, plan.entry(TOKEN)) && (await isGood(plan, existing))) {
    if (cli.json) cli.printJson({ ...about, changed: false });
    else cli.talk(`${clients[id].name} is connected already, by "${name}" in ${path}. Nothing was changed.`);
    return exitCodes.ok;
  }
  if (document.entry !== undefined && !isOwn && options.force !== true) {
    throw taken(path, name, existing);
  }
  const entryWith = (token: string) =>
    isOwn ? mergeEntry(document.entry, plan.entry(token)) : plan.entry(token);
  const changes = (token: string) => inFile(path, () => document.set(entryWith(token)));
  const edits = changes(TOKEN);
  if (options.dryRun === true) {
    const secrets = ownTexts(entryWith(TOKEN), plan.entry(TOKEN));
    return showEdits(cli, about, describeEdits(file.text ?? "", edits, secrets));
  }

  const token = plan.access && (await makeClientToken(plan.access, clients[id].name, plan.expert));
  const text = applyEdits(file.text ?? "", token === undefined ? edits : changes(token.token));
  const isThere = isClientThere(id);
  const backup = await writeClientFile(file, text).catch(async (thrown) => {
    // Nobody has it: it is of no use, and must not stay good.
    if (token !== undefined) await plan.access?.removeToken(token.id).catch(() => {});
    throw thrown;
  });
  const formerToken = await takeBack(cli, id, existing, text);
  if (cli.json) {
    const shared = token !== undefined && (project || file.isShared) ? { shared: true } : {};
    cli.printJson({ ...about, changed: true, ...described({ backup, token, formerToken }), ...shared });
  } else {
    tell(cli, plan, { path, backup, token, options });
    tellFormer(cli, formerToken);
    if (!isThere)
      cli.talk(`${clients[id].name} does not seem to be installed here; it finds the entry when it is.`);
    if (token !== undefined && file.isShared) {
      cli.talk(`Other users of this machine may read the token there: chmod 600 ${shellQuote(path)}`);
    }
  }
  return exitCodes.ok;
}

/** `toolrack uninstall`: takes the entry out again, and nothing else. */
export async function uninstall(cli: Cli, id: ClientId, options: UninstallOptions): Promise<number> {
  const { name, project = false } = options;
  checkName(name);
  const path = clientFileOf(id, project);
  const { file, document } = await openClient(clients[id], path, name);
  const entry = readRackEntry(document.entry);
  const about = { client: id, file: path, key: name };
  if (document.entry === undefined) {
    if (cli.json) cli.printJson({ ...about, changed: false });
    else cli.talk(`${clients[id].name} is not connected: ${path} has no "${name}". Nothing was changed.`);
    return exitCodes.ok;
  }
  if (entry === undefined && options.force !== true) {
    throw new CliError(
      `"${name}" in ${path} is not Toolrack's, so it was left as it is. Remove it all the same with --force.`,
      { code: "entry_foreign", details: { file: path, key: name } },
    );
  }
  const edits = inFile(path, () => document.remove());
  if (options.dryRun === true) return showEdits(cli, about, describeEdits(file.text ?? "", edits));
  const text = applyEdits(file.text ?? "", edits);
  const backup = await writeClientFile(file, text);
  const formerToken = await takeBack(cli, id, entry, text);
  if (cli.json) cli.printJson({ ...about, changed: true, ...described({ backup, formerToken }) });
  else {
    cli.talk(`"${name}" is taken out of ${path}. Nothing else there was changed.`);
    cli.talk(`Restart ${clients[id].name} to let it go.`);
    tellFormer(cli, formerToken);
  }
  return exitCodes.ok;
}

function checkOptions(id: ClientId | undefined, options: InstallOptions): void {
  const { http, url, print, dryRun, name } = options;
  checkName(name);
  if (print === true && dryRun === true)
    throw usageError("--print and --dry-run exclude each other: keep either.");
  if (url !== undefined && http !== true)
    throw usageError("--url says where the server is reached: add --http.");
  if (id !== undefined) return;
  const idle = Object.keys(options).find((option) => option !== "name" && option !== "project");
  if (idle !== undefined) throw usageError("Say which client: toolrack install CLIENT.");
}

/** What every client takes for a name, and what needs no quotes in any of their files. */
function checkName(name: string): void {
  if (/^[\w-]{1,64}$/.test(name)) return;
  throw usageError("--name takes letters, digits, _ and -, at most 64.");
}

/** A token that has expired, was removed, or does not fit is made anew. */
async function isGood({ access, expert }: ConnectionPlan, existing: RackEntry | undefined): Promise<boolean> {
  if (access === undefined) return true;
  const token = tokenOf(existing);
  return token !== undefined && (await access.isGood(token, expert));
}

/** Undefined when the entry had no token, or the text has it still, under another name. */
async function takeBack(
  cli: Cli,
  id: ClientId,
  former: RackEntry | undefined,
  text: string,
): Promise<FormerToken | undefined> {
  const token = tokenOf(former);
  return token === undefined || text.includes(token)
    ? undefined
    : takeBackToken(cli, clients[id].name, token);
}

function taken(path: string, name: string, existing: RackEntry | undefined): CliError {
  const leads = existing === undefined ? "is another server" : `leads to ${targetOf(existing)}`;
  return new CliError(
    `"${name}" in ${path} ${leads}, so it was left as it is. Take another name with --name, or replace it with --force.`,
    { code: "entry_exists", details: { file: path, key: name } },
  );
}

function targetOf(entry: RackEntry): string {
  return oneLine(entry.transport === "stdio" ? `the workspace ${entry.workspace}` : entry.url);
}

function print(cli: Cli, { id, entry }: ConnectionPlan, path: string, name: string): number {
  if (cli.json) cli.printJson({ client: id, file: path, key: name, entry: entry(TOKEN) });
  else {
    cli.print(applyEdits("", openDocument(clients[id], "", name).set(entry(TOKEN))));
    cli.talk(`This belongs into ${path}. Nothing was written.`);
  }
  return exitCodes.ok;
}

function showEdits(cli: Cli, about: object & { readonly file: string }, lines: readonly string[]): number {
  if (cli.json) cli.printJson({ ...about, changed: false, difference: lines });
  else {
    const style = (line: string) =>
      line.startsWith("+") ? cli.style("green", line) : line.startsWith("-") ? cli.style("red", line) : line;
    cli.print(lines.map((line) => style(printable(line))).join("\n"));
    cli.talk(`This would change ${about.file}. Nothing was written.`);
  }
  return exitCodes.ok;
}

function tell(
  cli: Cli,
  { id, workspace, access, expert }: ConnectionPlan,
  written: { path: string; backup: string | undefined; token: NewToken | undefined; options: InstallOptions },
): void {
  const { path, backup, token, options } = written;
  const { name: client, next } = clients[id];
  const { name, project = false } = options;
  const what = expert === undefined ? "the tools" : `the expert "${oneLine(expert.name)}"`;
  const how = access === undefined ? "starts" : "connects to";
  cli.talk(`Written: "${name}" in ${path}. ${client} ${how} ${what} of ${workspace}.`);
  if (backup !== undefined) cli.talk(`An earlier state of the file: ${backup}`);
  if (token?.expiresAt !== undefined) {
    const until = new Date(token.expiresAt).toISOString().slice(0, 10);
    cli.talk(`It bears the token "${oneLine(token.name)}", good until ${until}; run this again then.`);
    if (project) cli.talk(`Keep ${path} out of version control: the token stands in it.`);
  }
  cli.talk(`Next: ${next}`);
  const words = [id, ...(name === "toolrack" ? [] : ["--name", name]), ...(project ? ["--project"] : [])];
  cli.talk(`Undo: ${cli.commandLine(`uninstall ${words.join(" ")}`)}`);
}

/** Of the token that the entry had before. */
function tellFormer(cli: Cli, former: FormerToken | undefined): void {
  if (former === undefined) return;
  const { removed, id, name } = former;
  const which = `The token that it had${name === undefined ? "" : `, "${oneLine(name)}",`}`;
  if (removed) cli.talk(`${which} is taken back.`);
  else if (id === undefined) {
    cli.talk(`${which} is not known to this workspace. If it was made elsewhere, remove it there.`);
  } else {
    cli.talk(`${which} goes on being good until you remove it: ${cli.commandLine(`tokens remove ${id}`)}`);
  }
}

function described(written: {
  readonly backup: string | undefined;
  readonly token?: NewToken | undefined;
  readonly formerToken: FormerToken | undefined;
}) {
  const { backup, token, formerToken } = written;
  return {
    ...(backup === undefined ? {} : { backup }),
    ...(token === undefined ? {} : { token: { id: token.id, name: token.name, expiresAt: token.expiresAt } }),
    ...(formerToken === undefined ? {} : { formerToken }),
  };
}

import { shellQuote } from "../../helpers/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { oneLine, printable } from "../text.ts";
import {
  applyEdits,
  type ClientDocument,
  describeEdits,
  openJsonDocument,
  openTomlDocument,
} from "./client-document.ts";
import { type ClientFile, readClientFile, writeClientFile } from "./client-file.ts";
import {
  type ClientId,
  clientFileOf,
  clientIds,
  clients,
  isClientThere,
  isOfRack,
  isSameConnection,
  mergeEntry,
  ownTexts,
  type RackEntry,
  readRackEntry,
  tokenOf,
} from "./clients.ts";
import {
  type ConnectionOptions,
  type ConnectionPlan,
  type FormerToken,
  isGoodToken,
  makeClientToken,
  type NewToken,
  planConnection,
  removeToken,
  takeBackToken,
} from "./rack-access.ts";

export interface InstallOptions extends ConnectionOptions {
  readonly name: string;
  readonly project?: boolean;
  readonly print?: boolean;
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

export type UninstallOptions = Pick<InstallOptions, "name" | "project" | "dryRun" | "force">;

/** Shown in place of the token. */
const TOKEN = "trk_…";

/** `toolrack install`: writes the rack into the configuration of an MCP client, or lists the clients. */
export async function install(cli: Cli, id: ClientId | undefined, options: InstallOptions): Promise<void> {
  checkOptions(id, options);
  const { name, project = false } = options;
  if (id === undefined) return listClients(cli, name, project);
  const path = clientFileOf(cli, id, project);
  const plan = await planConnection(cli, id, options);
  if (options.print === true) return print(cli, plan, path, name);

  const { file, document } = await openClient(id, path, name);
  const existing = readRackEntry(document.entry);
  // Relative paths in a project's file begin at the project's folder.
  const startedIn = project ? cli.cwd : undefined;
  const isOwn = existing !== undefined && isOfRack(existing, { ...plan, startedIn });
  const about = { client: id, file: path, key: name, transport: plan.transport };
  if (isSameConnection(document.entry, plan.entry(TOKEN)) && (await isGood(cli, plan, existing))) {
    cli.answer({ ...about, changed: false }, () =>
      cli.talk(`${clients[id].name} is connected already, by "${name}" in ${path}. Nothing was changed.`),
    );
    return;
  }
  if (document.entry !== undefined && !isOwn && options.force !== true) throw taken(path, name, existing);
  const entryWith = (token: string) =>
    isOwn ? mergeEntry(document.entry, plan.entry(token)) : plan.entry(token);
  const changes = (token: string) => inFile(path, () => document.set(entryWith(token)));
  const edits = changes(TOKEN);
  if (options.dryRun === true) {
    const secrets = ownTexts(entryWith(TOKEN), plan.entry(TOKEN));
    return showEdits(cli, about, describeEdits(file.text ?? "", edits, secrets));
  }

  const isOverHttp = plan.transport === "http";
  const token = isOverHttp ? await makeClientToken(cli, clients[id].name, plan.expert) : undefined;
  const text = applyEdits(file.text ?? "", token === undefined ? edits : changes(token.token));
  const isThere = isClientThere(cli, id);
  const backup = await writeClientFile(file, text).catch(async (thrown) => {
    // The token reached no file, so it is removed again.
    if (token !== undefined) await removeToken(cli, token.id).catch(() => {});
    throw thrown;
  });
  const formerToken = await takeBack(cli, id, existing, text);
  const shared = token !== undefined && (project || file.isShared) ? true : undefined;
  const made = token && { id: token.id, name: token.name, expiresAt: token.expiresAt };
  cli.answer({ ...about, changed: true, backup, token: made, formerToken, shared }, () => {
    tell(cli, plan, { path, backup, token, options });
    tellFormer(cli, formerToken);
    if (!isThere)
      cli.talk(`${clients[id].name} does not seem to be installed here; it finds the entry when it is.`);
    if (token !== undefined && file.isShared)
      cli.talk(`Other users of this machine may read the token there: chmod 600 ${shellQuote(path)}`);
  });
}

/** `toolrack uninstall`: removes the entry and nothing else. */
export async function uninstall(cli: Cli, id: ClientId, options: UninstallOptions): Promise<void> {
  const { name, project = false } = options;
  checkName(name);
  const path = clientFileOf(cli, id, project);
  const { file, document } = await openClient(id, path, name);
  const entry = readRackEntry(document.entry);
  const about = { client: id, file: path, key: name };
  if (document.entry === undefined) {
    cli.answer({ ...about, changed: false }, () =>
      cli.talk(`${clients[id].name} is not connected: ${path} has no "${name}". Nothing was changed.`),
    );
    return;
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
  cli.answer({ ...about, changed: true, backup, formerToken }, () => {
    cli.talk(`"${name}" is taken out of ${path}. Nothing else there was changed.`);
    cli.talk(`Restart ${clients[id].name} to let it go.`);
    tellFormer(cli, formerToken);
  });
}

function checkOptions(id: ClientId | undefined, options: InstallOptions): void {
  const { http, url, print: isPrinted, dryRun, name } = options;
  checkName(name);
  if (isPrinted === true && dryRun === true)
    throw usageError("--print and --dry-run exclude each other: keep either.");
  if (url !== undefined && http !== true)
    throw usageError("--url says where the server is reached: add --http.");
  if (id !== undefined) return;
  const idle = Object.keys(options).find((option) => option !== "name" && option !== "project");
  if (idle !== undefined) throw usageError("Say which client: toolrack install CLIENT.");
}

/** Allows only names that every client accepts and that need no quotes in any file. */
function checkName(name: string): void {
  if (/^[\w-]{1,64}$/.test(name)) return;
  throw usageError("--name takes letters, digits, _ and -, at most 64.");
}

interface OpenClient {
  readonly file: ClientFile;
  readonly document: ClientDocument;
}

/** Reads the file. A missing or empty file has no entries. Throws `CliError` when it cannot be parsed. */
async function openClient(id: ClientId, path: string, name: string): Promise<OpenClient> {
  const file = await readClientFile(path);
  return { file, document: inFile(path, () => openDocument(id, file.text ?? "", name)) };
}

function openDocument(id: ClientId, text: string, name: string): ClientDocument {
  const { format, container } = clients[id];
  const open = format === "json" ? openJsonDocument : openTomlDocument;
  return open(text, container, name);
}

/** Adds the path of the file to a parse error. */
function inFile<Value>(path: string, work: () => Value): Value {
  try {
    return work();
  } catch (thrown) {
    // A RangeError comes from a file that is nested too deeply or too large.
    if (!(thrown instanceof SyntaxError || thrown instanceof RangeError)) throw thrown;
    const reason = thrown instanceof SyntaxError ? thrown.message : "it is too large, or nested too deeply";
    throw new CliError(
      `${path} was left as it is, for it cannot be changed safely: ${reason}. Correct it, or write what --print shows into it yourself.`,
      { code: "invalid_file", details: { file: path, reason } },
    );
  }
}

interface ListedClient {
  readonly client: ClientId;
  readonly name: string;
  readonly file: string;
  readonly installed: boolean;
  readonly connected: boolean;
  /** The connection of the entry, without its token. */
  readonly connection?: object;
  /** Why the file could not be read, or that the name belongs to something else. */
  readonly problem?: string;
}

/** Lists the supported clients with their files and current entries. */
async function listClients(cli: Cli, name: string, isProject: boolean): Promise<void> {
  const ids = clientIds.filter((id) => !isProject || clients[id].projectFiles !== undefined);
  const listed = await Promise.all(ids.map((id) => describeClient(cli, id, name, isProject)));
  cli.answer({ clients: listed }, () => {
    const rows = listed.map(({ client, installed, connection = {}, connected, problem, file }) => [
      client,
      installed ? "yes" : "-",
      connected ? Object.values(connection).join(" ") : problem === undefined ? "-" : "?",
      file,
    ]);
    cli.table(["CLIENT", "INSTALLED", "CONNECTED", "FILE"], rows, { flexible: -1 });
    for (const { problem } of listed) if (problem !== undefined) cli.talk(oneLine(problem));
    cli.talk(`Connect one with: ${cli.commandLine("install CLIENT")}`);
  });
}

async function describeClient(
  cli: Cli,
  id: ClientId,
  name: string,
  isProject: boolean,
): Promise<ListedClient> {
  const file = clientFileOf(cli, id, isProject);
  const about = { client: id, name: clients[id].name, file, installed: isClientThere(cli, id) };
  try {
    const { document } = await openClient(id, file, name);
    const entry = readRackEntry(document.entry);
    if (document.entry === undefined) return { ...about, connected: false };
    if (entry === undefined)
      return { ...about, connected: false, problem: `${file} has another server under the name "${name}".` };
    const { transport } = entry;
    const connection = entry.transport === "http" ? { transport, url: entry.url } : entry;
    return { ...about, connected: true, connection };
  } catch (thrown) {
    if (!(thrown instanceof CliError)) throw thrown;
    return { ...about, connected: false, problem: thrown.message };
  }
}

/** Whether the token of the entry can be kept. An expired, removed or unsuitable token is replaced. */
async function isGood(
  cli: Cli,
  { transport, expert }: ConnectionPlan,
  existing: RackEntry | undefined,
): Promise<boolean> {
  if (transport === "stdio") return true;
  const token = tokenOf(existing);
  return token !== undefined && (await isGoodToken(cli, token, expert));
}

/**
 * Withdraws the entry's former token. Undefined when the entry had no token, or another entry of the file still has it.
 */
async function takeBack(
  cli: Cli,
  id: ClientId,
  former: RackEntry | undefined,
  text: string,
): Promise<FormerToken | undefined> {
  const token = tokenOf(former);
  if (token === undefined || text.includes(token)) return undefined;
  return takeBackToken(cli, clients[id].name, token);
}

function taken(path: string, name: string, existing: RackEntry | undefined): CliError {
  const target = existing?.transport === "stdio" ? `the workspace ${existing.workspace}` : existing?.url;
  const leads = target === undefined ? "is another server" : `leads to ${oneLine(target)}`;
  return new CliError(
    `"${name}" in ${path} ${leads}, so it was left as it is. Take another name with --name, or replace it with --force.`,
    { code: "entry_exists", details: { file: path, key: name } },
  );
}

function print(cli: Cli, { id, entry }: ConnectionPlan, path: string, name: string): void {
  cli.answer({ client: id, file: path, key: name, entry: entry(TOKEN) }, () => {
    cli.print(applyEdits("", openDocument(id, "", name).set(entry(TOKEN))));
    cli.talk(`This belongs into ${path}. Nothing was written.`);
  });
}

function showEdits(cli: Cli, about: { readonly file: string }, lines: readonly string[]): void {
  cli.answer({ ...about, changed: false, difference: lines }, () => {
    for (const line of lines.map(printable)) {
      const colour = line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : "reset";
      cli.print(cli.style(colour, line));
    }
    cli.talk(`This would change ${about.file}. Nothing was written.`);
  });
}

function tell(
  cli: Cli,
  { id, workspace, transport, expert }: ConnectionPlan,
  written: { path: string; backup: string | undefined; token: NewToken | undefined; options: InstallOptions },
): void {
  const { path, backup, token, options } = written;
  const { name: client, next } = clients[id];
  const { name, project = false } = options;
  const what = expert === undefined ? "the tools" : `the expert "${oneLine(expert.name)}"`;
  const how = transport === "stdio" ? "starts" : "connects to";
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

/** Reports what happened to the entry's former token. */
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

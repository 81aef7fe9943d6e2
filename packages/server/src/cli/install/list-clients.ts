import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { oneLine } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { type ClientId, clientIds, clients } from "./clients.ts";
import { type RackEntry, readRackEntry } from "./known-entry.ts";
import { clientFileOf, isClientThere, openClient } from "./open-client.ts";

interface ListedClient {
  readonly client: ClientId;
  readonly name: string;
  readonly file: string;
  readonly installed: boolean;
  readonly connected: boolean;
  /** Where the entry leads; never with its token. */
  readonly connection?: Readonly<Record<string, string>>;
  /** Why the file could not be looked into, or that something else stands under the name. */
  readonly problem?: string;
}

/** The clients that can be connected, with their files and what stands there now. */
export async function listClients(cli: Cli, name: string, isProject: boolean): Promise<number> {
  const ids = clientIds.filter((id) => !isProject || clients[id].projectFiles !== undefined);
  const listed = await Promise.all(ids.map((id) => look(id, name, isProject)));
  if (cli.json) {
    cli.printJson({ clients: listed });
    return exitCodes.ok;
  }
  const rows = listed.map(({ client, installed, connection, connected, problem, file }) => [
    client,
    installed ? "yes" : "-",
    connected ? oneLine(Object.values(connection ?? {}).join(" ")) : problem === undefined ? "-" : "?",
    file,
  ]);
  const head = ["CLIENT", "INSTALLED", "CONNECTED", "FILE"];
  cli.print(renderTable(rows, { head, styleHead: (text) => cli.style("bold", text) }).join("\n"));
  for (const { problem } of listed) if (problem !== undefined) cli.talk(oneLine(problem));
  cli.talk(`Connect one with: ${cli.commandLine("install CLIENT")}`);
  return exitCodes.ok;
}

async function look(id: ClientId, name: string, isProject: boolean): Promise<ListedClient> {
  const file = clientFileOf(id, isProject);
  const about = { client: id, name: clients[id].name, file, installed: isClientThere(id) };
  try {
    const { document } = await openClient(clients[id], file, name);
    const entry = readRackEntry(document.entry);
    if (entry !== undefined) return { ...about, connected: true, connection: shown(entry) };
    if (document.entry === undefined) return { ...about, connected: false };
    return { ...about, connected: false, problem: `${file} has another server under the name "${name}".` };
  } catch (thrown) {
    if (!(thrown instanceof CliError)) throw thrown;
    return { ...about, connected: false, problem: thrown.message };
  }
}

function shown(entry: RackEntry): Readonly<Record<string, string>> {
  if (entry.transport === "http") return { transport: entry.transport, url: entry.url };
  const { transport, workspace, expert } = entry;
  return { transport, workspace, ...(expert === undefined ? {} : { expert }) };
}

import { readServerAddress } from "../../config/server-address.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { findWorkspace, workspaceMark } from "../find-workspace.ts";
import { ownProgram } from "../serve/own-program.ts";
import { type ClientEntry, type ClientId, clients } from "./clients.ts";
import { accessOfStore, type NamedExpert, openRackAccess, type RackAccess } from "./rack-access.ts";

export interface ConnectionOptions {
  readonly http?: boolean;
  readonly url?: string;
  readonly expert?: string;
}

/** What the client is to be given; the token stands in it only once there is one. */
export interface ConnectionPlan {
  readonly id: ClientId;
  readonly workspace: string;
  readonly expert: NamedExpert | undefined;
  /** Undefined when the client starts the program itself. */
  readonly access: RackAccess | undefined;
  /** Where the server of the workspace is reached. */
  readonly addresses: readonly string[];
  readonly entry: (token: string) => ClientEntry;
}

/** Throws `CliError` when the client cannot be connected so, or the server, the workspace or the expert is not there. */
export async function planConnection(
  cli: Cli,
  id: ClientId,
  options: ConnectionOptions,
): Promise<ConnectionPlan> {
  const { http = false, url, expert: wanted } = options;
  const client = clients[id];
  const { http: toAddress } = client;
  if (http && toAddress === undefined) {
    throw usageError(`${client.noHttp}. Leave --http out: ${client.name} then starts the program itself.`);
  }
  const workspace = requireWorkspace(cli);
  const given = url === undefined ? undefined : baseOf(url);
  const access = http ? await openRackAccess(cli, given === undefined) : undefined;
  const noted = access?.address ?? (await readServerAddress(workspace))?.url;
  const expert =
    wanted === undefined ? undefined : await findExpert(access ?? accessOfStore(cli), cli, wanted);
  const words = [...ownProgram(), "mcp", "--dir", workspace, ...(expert ? ["--expert", expert.name] : [])];
  const base = given ?? access?.address;
  const address = base && `${base}/mcp${expert ? `/${encodeURIComponent(expert.name)}` : ""}`;
  refuseVariables(address === undefined ? words : [address], client.name);
  const entry = (token: string) =>
    address === undefined || toAddress === undefined ? client.stdio(words) : toAddress(address, token);
  const addresses = [given, noted].filter((known) => known !== undefined);
  return { id, workspace, expert, access, addresses, entry };
}

/** A client is not to be given whatever folder somebody happened to be in. */
function requireWorkspace(cli: Cli): string {
  const workspace = findWorkspace(cli.directory);
  if (cli.directory !== undefined || workspaceMark(workspace) !== undefined) return workspace;
  throw new CliError(
    `${workspace} is no workspace: it has neither toolrack.config.* nor a tools folder. Name the workspace with --dir.`,
    { code: "no_workspace", details: { path: workspace } },
  );
}

/** With or without the path of the MCP endpoint. */
function baseOf(url: string): string {
  const parsed = URL.parse(url);
  const isPlain =
    parsed !== null && [parsed.username, parsed.password, parsed.search, parsed.hash].join("") === "";
  if (!isPlain || !/^https?:$/.test(parsed.protocol)) {
    throw usageError(
      "--url takes the address of a server and nothing else, such as https://rack.example.com.",
    );
  }
  return parsed.href.replace(/\/+$/, "").replace(/\/mcp$/, "");
}

async function findExpert(access: RackAccess, cli: Cli, wanted: string): Promise<NamedExpert> {
  const folded = wanted.toLowerCase();
  const among = (experts: readonly NamedExpert[]) =>
    experts.find(({ id, name }) => id === wanted || name.toLowerCase() === folded);
  const found = among(await access.experts()) ?? among(await storedExperts(access, cli));
  if (found !== undefined) return found;
  throw new CliError(`There is no expert "${wanted}". See: ${cli.commandLine("experts list")}`, {
    code: "expert_not_found",
    details: { name: wanted },
  });
}

/** A server knows an expert that somebody has just made on the command line only a moment later. */
async function storedExperts({ address }: RackAccess, cli: Cli): Promise<readonly NamedExpert[]> {
  if (address === undefined) return [];
  return accessOfStore(cli)
    .experts()
    .catch(() => []);
}

/** Clients replace these by variables and files of theirs, and none of them has a way to write them as they are. */
function refuseVariables(words: readonly string[], client: string): void {
  const found = words.find((word) => /\$\{|\{(?:env|file):/.test(word));
  if (found === undefined) return;
  throw new CliError(
    `${client} would take a part of "${found}" for a variable. Move it to a path without such signs first.`,
    { code: "unsafe_path", details: { word: found } },
  );
}

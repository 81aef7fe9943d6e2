import { existsSync } from "node:fs";
import { join } from "node:path";
import { grantOf, hashToken, issueToken } from "../../access/index.ts";

import { readServerAddress } from "../../helpers/server-address.ts";
import type { StoredToken } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { ServerClient } from "../server-client.ts";
import { findWorkspace, withStore, workspaceMark } from "../workspace.ts";
import { type ClientEntry, type ClientId, clients } from "./clients.ts";

export interface ConnectionOptions {
  readonly http?: boolean;
  readonly url?: string;
  readonly expert?: string;
}

/** The planned connection of the client; the token is added once it exists. */
export interface ConnectionPlan {
  readonly id: ClientId;
  readonly workspace: string;
  readonly expert: NamedExpert | undefined;
  /** `stdio`: the client starts the program itself. `http`: it connects to the server. */
  readonly transport: "stdio" | "http";
  readonly addresses: readonly string[];
  readonly entry: (token: string) => ClientEntry;
}

/**
 * Throws `CliError` when the client does not support the connection, or the server, workspace or expert does not exist.
 */
export async function planConnection(
  cli: Cli,
  id: ClientId,
  { http = false, url, expert: wanted }: ConnectionOptions,
): Promise<ConnectionPlan> {
  const client = clients[id];
  const { http: toAddress } = client;
  if (http && toAddress === undefined) {
    throw usageError(`${client.noHttp}. Leave --http out: ${client.name} then starts the program itself.`);
  }
  const workspace = requireWorkspace(cli);
  const given = url === undefined ? undefined : baseOf(url);
  const running = http && given === undefined ? (await ServerClient.find(cli)).url : undefined;
  const noted = running ?? (await readServerAddress(workspace))?.url;
  const expert = wanted === undefined ? undefined : await findExpert(cli, wanted);
  const { program } = cli.surroundings;
  const words = [...program, "mcp", "--dir", workspace, ...(expert ? ["--expert", expert.name] : [])];
  const base = given ?? running;
  const address = base && `${base}/mcp${expert ? `/${encodeURIComponent(expert.name)}` : ""}`;
  refuseVariables(address === undefined ? words : [address], client.name);
  const entry = (token: string) =>
    address === undefined || toAddress === undefined ? client.stdio(words) : toAddress(address, token);
  const addresses = [given, noted].filter((known) => known !== undefined);
  return { id, workspace, expert, transport: http ? "http" : "stdio", addresses, entry };
}

/** Throws when neither --dir nor a workspace around the current folder says which workspace is meant. */
function requireWorkspace(cli: Cli): string {
  const workspace = findWorkspace(cli);
  if (cli.directory !== undefined || workspaceMark(workspace) !== undefined) return workspace;
  throw new CliError(
    `${workspace} is no workspace: it has neither toolrack.config.* nor a tools folder. Name the workspace with --dir.`,
    { code: "no_workspace", details: { path: workspace } },
  );
}

/** The server's address, from a URL with or without the path of the MCP endpoint. */
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

/** Refuses `${…}` and `{env:…}`: clients replace them by variables or files, and none has a way to escape them. */
function refuseVariables(words: readonly string[], client: string): void {
  const found = words.find((word) => /\$\{|\{(?:env|file):/.test(word));
  if (found === undefined) return;
  throw new CliError(
    `${client} would take a part of "${found}" for a variable. Move it to a path without such signs first.`,
    { code: "unsafe_path", details: { word: found } },
  );
}

export interface NamedExpert {
  readonly id: string;
  readonly name: string;
}

export type NewToken = StoredToken & { readonly token: string };

async function findExpert(cli: Cli, wanted: string): Promise<NamedExpert> {
  const folded = wanted.toLowerCase();
  const experts = await withStore(cli, (store) => store.experts.list());
  const found = experts.find(({ id, name }) => id === wanted || name.toLowerCase() === folded);
  if (found !== undefined) return found;
  throw new CliError(`There is no expert "${wanted}". See: ${cli.commandLine("experts list")}`, {
    code: "expert_not_found",
    details: { name: wanted },
  });
}

/** Whether the server still accepts the token, also for the expert if one is given, and the token is no admin's. */
export function isGoodToken(cli: Cli, token: string, expert: NamedExpert | undefined): Promise<boolean> {
  return withStore(cli, async ({ tokens }) => {
    const found = await tokens.findByHash(hashToken(token));
    if (found === undefined || (found.expiresAt ?? Number.POSITIVE_INFINITY) <= Date.now()) return false;
    const { admin, mayUseExpert } = grantOf(found);
    return !admin && (expert === undefined || mayUseExpert(expert.id) || mayUseExpert(expert.name));
  });
}

const DAYS = 30;

/**
 * Makes the same token as the console's button: never an operator's, with which an agent could approve its own calls,
 * and without chat, because the client has its own model.
 */
export function makeClientToken(
  cli: Cli,
  client: string,
  expert: NamedExpert | undefined,
): Promise<NewToken> {
  return withStore(cli, async ({ tokens }) => {
    const taken = (await tokens.list()).map(({ name }) => name);
    const { token, stored } = await issueToken(tokens, {
      name: unusedName(client, taken),
      scopes: { ...(expert === undefined ? { tools: ["*"] } : { experts: [expert.id] }), chat: false },
      expiresAt: Date.now() + DAYS * 86_400_000,
    });
    return { ...stored, token };
  });
}

/** Removes a token, through the running server if there is one, so that it is refused at once. */
export async function removeToken(cli: Cli, id: string): Promise<void> {
  const server = await ServerClient.findIfAny(cli);
  if (server === undefined) await withStore(cli, ({ tokens }) => tokens.remove(id));
  else await server.ask(`/api/tokens/${id}`, "DELETE");
}

/** The name, with a number added if another token has it. */
function unusedName(name: string, taken: readonly string[]): string {
  if (!taken.includes(name)) return name;
  let number = 2;
  while (taken.includes(`${name} ${number}`)) number++;
  return `${name} ${number}`;
}

/** The outcome for a token that was removed from a client's file. */
export interface FormerToken {
  readonly removed: boolean;
  /** Undefined, like `name`, when the workspace does not know the token. */
  readonly id?: string;
  readonly name?: string;
}

/**
 * Withdraws a token that was made for this client. Other tokens stay, because the user may use them elsewhere. Never
 * throws, because the client's file is already changed.
 */
export async function takeBackToken(cli: Cli, client: string, token: string): Promise<FormerToken> {
  try {
    // Opening the store would create it, and a workspace without one knows no tokens.
    if (!existsSync(join(findWorkspace(cli), ".toolrack"))) return { removed: false };
    const found = await withStore(cli, ({ tokens }) => tokens.findByHash(hashToken(token)));
    if (found === undefined) return { removed: false };
    const { id, name, scopes } = found;
    const isMade = name.startsWith(client) && /^(?: \d+)?$/.test(name.slice(client.length));
    if (!isMade || scopes.admin === true) return { removed: false, id, name };
    return await removeToken(cli, id).then(
      () => ({ removed: true, id, name }),
      () => ({ removed: false, id, name }),
    );
  } catch {
    return { removed: false };
  }
}

import { existsSync } from "node:fs";
import { join } from "node:path";
import { grantOf, hashToken, issueToken, type TokenWish } from "../../access/index.ts";

import { readServerAddress } from "../../config/index.ts";
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
  { http = false, url, expert: wanted }: ConnectionOptions,
): Promise<ConnectionPlan> {
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
  const { program } = cli.surroundings;
  const words = [...program, "mcp", "--dir", workspace, ...(expert ? ["--expert", expert.name] : [])];
  const base = given ?? access?.address;
  const address = base && `${base}/mcp${expert ? `/${encodeURIComponent(expert.name)}` : ""}`;
  refuseVariables(address === undefined ? words : [address], client.name);
  const entry = (token: string) =>
    address === undefined || toAddress === undefined ? client.stdio(words) : toAddress(address, token);
  const addresses = [given, noted].filter((known) => known !== undefined);
  return { id, workspace, expert, access, addresses, entry };
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

/** Clients replace `${…}` and `{env:…}` by variables and files, and none has a way to write these signs literally. */
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

/** What the workspace knows of experts and tokens: asked of its server, or read from its store. */
export interface RackAccess {
  /** Of the server; undefined when it was not asked. */
  readonly address: string | undefined;
  experts(): Promise<readonly NamedExpert[]>;
  tokenNames(): Promise<string[]>;
  /** Whether the server still takes it, for the expert where there is one, and not as an operator's. */
  isGood(token: string, expert: NamedExpert | undefined): Promise<boolean>;
  makeToken(wish: TokenWish): Promise<NewToken>;
  removeToken(id: string): Promise<void>;
}

/** The server that runs on the workspace. Unless it is needed, none need run: then the store is used. */
async function openRackAccess(cli: Cli, needsServer: boolean): Promise<RackAccess> {
  const server = needsServer ? await ServerClient.find(cli) : await ServerClient.findIfAny(cli);
  return server === undefined ? accessOfStore(cli) : accessOfServer(server);
}

function accessOfServer(client: ServerClient): RackAccess {
  return {
    address: client.url,
    experts: async () => (await client.ask<{ items: NamedExpert[] }>("/api/experts")).items,
    tokenNames: async () =>
      (await client.ask<{ items: StoredToken[] }>("/api/tokens")).items.map(({ name }) => name),
    isGood: async (token, expert) => {
      const wanted = expert === undefined ? "/api/tools?limit=1" : `/api/experts/${expert.id}`;
      return (await client.admits(token, wanted)) && !(await client.admits(token, "/api/tokens"));
    },
    makeToken: (wish) => client.ask<NewToken>("/api/tokens", "POST", wish),
    removeToken: (id) => client.ask(`/api/tokens/${id}`, "DELETE"),
  };
}

function accessOfStore(cli: Cli): RackAccess {
  return {
    address: undefined,
    experts: () => withStore(cli, ({ experts }) => experts.list()),
    tokenNames: () => withStore(cli, async ({ tokens }) => (await tokens.list()).map(({ name }) => name)),
    isGood: (token, expert) =>
      withStore(cli, async ({ tokens }) => {
        const found = await tokens.findByHash(hashToken(token));
        if (found === undefined || (found.expiresAt ?? Number.POSITIVE_INFINITY) <= Date.now()) return false;
        const { admin, mayUseExpert } = grantOf(found);
        return !admin && (expert === undefined || mayUseExpert(expert.id) || mayUseExpert(expert.name));
      }),
    makeToken: (wish) =>
      withStore(cli, async ({ tokens }) => {
        const { token, stored } = await issueToken(tokens, wish);
        return { ...stored, token };
      }),
    removeToken: (id) => withStore(cli, async ({ tokens }) => void (await tokens.remove(id))),
  };
}

async function findExpert(access: RackAccess, cli: Cli, wanted: string): Promise<NamedExpert> {
  const folded = wanted.toLowerCase();
  const among = (experts: readonly NamedExpert[]) =>
    experts.find(({ id, name }) => id === wanted || name.toLowerCase() === folded);
  const isServer = access.address !== undefined;
  // A server knows an expert that somebody has just made on the command line only a moment later.
  const stored = () =>
    isServer
      ? accessOfStore(cli)
          .experts()
          .catch(() => [])
      : [];
  const found = among(await access.experts()) ?? among(await stored());
  if (found !== undefined) return found;
  throw new CliError(`There is no expert "${wanted}". See: ${cli.commandLine("experts list")}`, {
    code: "expert_not_found",
    details: { name: wanted },
  });
}

const DAYS = 30;

/**
 * As the console's button makes it: never the operator's own, with which an agent could approve its own calls, and not
 * for models, of which the client has its own.
 */
export async function makeClientToken(
  access: RackAccess,
  client: string,
  expert: NamedExpert | undefined,
): Promise<NewToken> {
  return access.makeToken({
    name: unusedName(client, await access.tokenNames()),
    scopes: { ...(expert === undefined ? { tools: ["*"] } : { experts: [expert.id] }), chat: false },
    expiresAt: Date.now() + DAYS * 86_400_000,
  });
}

/** The name, or the name with the first number that no other token has. */
function unusedName(name: string, taken: readonly string[]): string {
  if (!taken.includes(name)) return name;
  let number = 2;
  while (taken.includes(`${name} ${number}`)) number++;
  return `${name} ${number}`;
}

/** What became of a token that a client's file no longer has. */
export interface FormerToken {
  readonly removed: boolean;
  /** Undefined when the workspace does not know it. */
  readonly id?: string;
  readonly name?: string;
}

/**
 * Takes back a token that was made for this client. Any other stays: its user may have put it elsewhere too. Never throws,
 * for the client's file is changed already.
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
    const access = await openRackAccess(cli, false);
    return await access.removeToken(id).then(
      () => ({ removed: true, id, name }),
      () => ({ removed: false, id, name }),
    );
  } catch {
    return { removed: false };
  }
}

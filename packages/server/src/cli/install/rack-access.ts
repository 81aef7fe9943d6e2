import { existsSync } from "node:fs";
import { join } from "node:path";
import { grantOf } from "../../access/grants.ts";
import { hashToken, issueToken, type TokenWish } from "../../access/tokens.ts";

import type { StoredToken } from "../../store/store.ts";
import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { findWorkspace } from "../find-workspace.ts";
import { ServerClient } from "../server-client.ts";
import { withStore } from "../with-store.ts";

export type NewToken = StoredToken & { readonly token: string };

export interface NamedExpert {
  readonly id: string;
  readonly name: string;
}

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

const DAYS = 30;

/** What became of a token that a client's file no longer has. */
export interface FormerToken {
  readonly removed: boolean;
  /** Undefined when the workspace does not know it. */
  readonly id?: string;
  readonly name?: string;
}

/**
 * The server that runs on the workspace. Unless it is needed, none need run: then the store is used, as `toolrack tokens`
 * does. Throws `CliError` when there is no server and one is needed.
 */
export async function openRackAccess(cli: Cli, needsServer: boolean): Promise<RackAccess> {
  try {
    return accessOfServer(await ServerClient.find(cli));
  } catch (thrown) {
    const isNone = thrown instanceof CliError && thrown.code === "no_server";
    if (needsServer || !isNone) throw thrown;
    return accessOfStore(cli);
  }
}

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

/**
 * Takes back a token that was made for this client. Any other stays: its user may have put it elsewhere too. Never throws,
 * for the client's file is changed already.
 */
export async function takeBackToken(cli: Cli, client: string, token: string): Promise<FormerToken> {
  try {
    // Where nothing was kept yet, nothing is made for it.
    if (!existsSync(join(findWorkspace(cli.directory), ".toolrack"))) return { removed: false };
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

export function accessOfStore(cli: Cli): RackAccess {
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

/** The name, or the name with the first number that no other token has. */
function unusedName(name: string, taken: readonly string[]): string {
  if (!taken.includes(name)) return name;
  let number = 2;
  while (taken.includes(`${name} ${number}`)) number++;
  return `${name} ${number}`;
}

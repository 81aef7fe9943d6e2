import { issueToken, type TokenRequest } from "../../access/index.ts";
import { problemOfToolPattern } from "../../config/index.ts";
import type { StoredToken } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { removeToken } from "../install/rack-access.ts";
import { formatTime, oneLine, parseDuration } from "../text.ts";
import { withStore } from "../workspace.ts";

export interface TokensOptions {
  readonly tools?: readonly string[];
  readonly experts?: readonly string[];
  readonly approve?: readonly string[];
  readonly admin?: boolean;
  readonly chat?: boolean;
  readonly expires?: string;
}

/** `toolrack tokens`: who may use the server, and for what. */
export async function tokens(
  cli: Cli,
  action: "list" | "create" | "remove" = "list",
  name: string | undefined,
  options: TokensOptions,
): Promise<void> {
  if (action === "list") return list(cli);
  if (name === undefined) throw usageError(`Say which token: ${cli.commandLine(`tokens ${action} NAME`)}`);
  if (action === "remove") return remove(cli, name);
  const newToken = toRequest(name, options);
  const { token, stored } = await withStore(cli, (store) => issueToken(store.tokens, newToken));
  cli.answer({ ...stored, token }, () => cli.print(token));
  cli.talk("This is the only time the token is shown: only its hash is kept.");
}

function toRequest(name: string, options: TokensOptions): TokenRequest {
  const { tools, experts, approve, admin = false, chat, expires } = options;
  if ([tools, experts, approve].every((patterns) => patterns === undefined) && !admin && chat !== true) {
    throw usageError(
      "Say what the token may do: --tools or --experts with names or patterns such as 'file_*' or mcp:KEY, --approve with the tools whose calls it may approve, --chat, or --admin.",
    );
  }
  for (const [option, patterns] of Object.entries({ tools, experts, approve })) {
    if (patterns?.some((pattern) => pattern.trim() === "")) {
      throw usageError(
        `--${option} has a pattern that is empty, which fits nothing. Name one, or write '*'.`,
      );
    }
  }
  for (const [option, patterns] of Object.entries({ tools, approve })) {
    const problem = patterns?.map(problemOfToolPattern).find((found) => found !== undefined);
    if (problem !== undefined) throw usageError(`--${option}: ${problem}`);
  }
  if (name.trim() === "" || name.length > 100) {
    throw usageError("A token needs a name of at most 100 characters.");
  }
  return {
    name,
    scopes: {
      ...(tools === undefined ? {} : { tools }),
      ...(experts === undefined ? {} : { experts }),
      ...(approve === undefined ? {} : { approve }),
      ...(admin ? { admin } : {}),
      ...(chat === undefined ? {} : { chat }),
    },
    ...(expires === undefined ? {} : { expiresAt: Date.now() + parseDuration(expires, "--expires") }),
  };
}

async function list(cli: Cli): Promise<void> {
  const all = await withStore(cli, (store) => store.tokens.list());
  cli.answer({ tokens: all }, () => {
    if (all.length === 0) {
      cli.talk(
        `There are no tokens but the workspace's own. Make one with: ${cli.commandLine("tokens create NAME")}`,
      );
      return;
    }
    const rows = all.map((token) => [
      token.id,
      token.name,
      describeScopes(token),
      formatTime(token.createdAt),
      formatTime(token.lastUsedAt),
      describeExpiry(token),
    ]);
    cli.table(["ID", "NAME", "MAY", "CREATED", "LAST USED", "EXPIRES"], rows, { flexible: 2 });
  });
}

async function remove(cli: Cli, named: string): Promise<void> {
  const { id, name } = theOne(cli, await withStore(cli, (store) => store.tokens.list()), named);
  await removeToken(cli, id);
  cli.answer({ id, name }, () => cli.talk(`The token "${oneLine(name)}" is removed.`));
}

/** The token with this id or name. Throws `CliError` when there is none, or several have the name. */
export function theOne(cli: Cli, all: readonly StoredToken[], named: string): StoredToken {
  const byId = all.filter(({ id }) => id === named);
  const found = byId.length > 0 ? byId : all.filter(({ name }) => name === named);
  const [token] = found;
  if (token === undefined) {
    throw new CliError(`There is no token "${named}". See: ${cli.commandLine("tokens list")}`, {
      code: "token_not_found",
      details: { name: named },
    });
  }
  if (found.length === 1) return token;
  const ids = found.map(({ id }) => id);
  throw new CliError(`${found.length} tokens have this name. Say which by its id: ${ids.join(", ")}`, {
    code: "token_ambiguous",
    details: { name: named, ids },
  });
}

function describeScopes({ scopes }: StoredToken): string {
  if (scopes.admin === true) return "admin";
  const experts = (scopes.experts ?? []).map((expert) => `expert:${expert}`);
  const approve = (scopes.approve ?? []).map((pattern) => `approve:${pattern}`);
  const chat = scopes.chat === undefined ? [] : [scopes.chat ? "chat" : "no-chat"];
  return [...(scopes.tools ?? []), ...experts, ...approve, ...chat].join(" ");
}

function describeExpiry({ expiresAt }: StoredToken): string {
  if (expiresAt === undefined) return "never";
  return expiresAt <= Date.now() ? "expired" : formatTime(expiresAt);
}

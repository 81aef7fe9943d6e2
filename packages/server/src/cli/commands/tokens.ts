import { issueToken } from "../../access/tokens.ts";
import { problemOfToolPattern } from "../../config/tool-patterns.ts";
import type { StoredToken, TokenStore } from "../../store/store.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { parseDuration } from "../text/duration.ts";
import { oneLine } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { withStore } from "../with-store.ts";

export type TokenAction = "list" | "create" | "remove";

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
  action: TokenAction | undefined,
  name: string | undefined,
  options: TokensOptions,
): Promise<number> {
  if (action === undefined || action === "list") return withStore(cli, ({ tokens: kept }) => list(cli, kept));
  if (name === undefined) throw usageError(`Say which token: ${cli.commandLine(`tokens ${action} NAME`)}`);
  if (action === "remove") return withStore(cli, ({ tokens: kept }) => remove(cli, kept, name));
  const wish = toWish(name, options);
  return withStore(cli, async ({ tokens: kept }) => {
    const { token, stored } = await issueToken(kept, wish);
    if (cli.json) cli.printJson({ ...stored, token });
    else cli.print(token);
    cli.talk("This is the only time the token is shown: only its hash is kept.");
    return exitCodes.ok;
  });
}

function toWish(name: string, { tools, experts, approve, admin = false, chat, expires }: TokensOptions) {
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

async function list(cli: Cli, kept: TokenStore): Promise<number> {
  const all = await kept.list();
  if (cli.json) {
    cli.printJson({ tokens: all });
    return exitCodes.ok;
  }
  if (all.length === 0) {
    cli.talk(
      `There are no tokens but the workspace's own. Make one with: ${cli.commandLine("tokens create NAME")}`,
    );
    return exitCodes.ok;
  }
  const rows = all.map((token) => [
    token.id,
    oneLine(token.name),
    describeScopes(token),
    timeOf(token.createdAt),
    timeOf(token.lastUsedAt),
    describeExpiry(token),
  ]);
  const head = ["ID", "NAME", "MAY", "CREATED", "LAST USED", "EXPIRES"];
  const styleHead = (text: string) => cli.style("bold", text);
  cli.print(renderTable(rows, { head, columns: cli.columns, flexible: 2, styleHead }).join("\n"));
  return exitCodes.ok;
}

async function remove(cli: Cli, kept: TokenStore, named: string): Promise<number> {
  const all = await kept.list();
  const byId = all.filter(({ id }) => id === named);
  const found = byId.length > 0 ? byId : all.filter(({ name }) => name === named);
  const [token] = found;
  if (token === undefined) {
    throw new CliError(`There is no token "${named}". See: ${cli.commandLine("tokens list")}`, {
      code: "token_not_found",
      details: { name: named },
    });
  }
  if (found.length > 1) {
    const ids = found.map(({ id }) => id);
    throw new CliError(`${found.length} tokens have this name. Say which by its id: ${ids.join(", ")}`, {
      code: "token_ambiguous",
      details: { name: named, ids },
    });
  }
  await kept.remove(token.id);
  if (cli.json) cli.printJson({ id: token.id, name: token.name });
  else cli.talk(`The token "${oneLine(token.name)}" is removed.`);
  return exitCodes.ok;
}

function describeScopes({ scopes }: StoredToken): string {
  if (scopes.admin === true) return "admin";
  const experts = (scopes.experts ?? []).map((expert) => `expert:${expert}`);
  const approve = (scopes.approve ?? []).map((pattern) => `approve:${pattern}`);
  const chat = scopes.chat === undefined ? [] : [scopes.chat ? "chat" : "no-chat"];
  return oneLine([...(scopes.tools ?? []), ...experts, ...approve, ...chat].join(" "));
}

function describeExpiry({ expiresAt }: StoredToken): string {
  if (expiresAt === undefined) return "never";
  return expiresAt <= Date.now() ? "expired" : timeOf(expiresAt);
}

function timeOf(milliseconds: number | undefined): string {
  return milliseconds === undefined ? "-" : new Date(milliseconds).toISOString().slice(0, 19).concat("Z");
}

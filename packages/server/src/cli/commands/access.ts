import {
  declaresSecret,
  issueToken,
  masterGrant,
  type TokenRequest,
  type ToolValues,
  toolSecretName,
} from "../../access/index.ts";
import { problemOfToolPattern } from "../../config/index.ts";
import { defined } from "../../helpers/values.ts";
import type { StoredToken } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, interruptedError, usageError } from "../cli-error.ts";
import { removeToken } from "../install/rack-access.ts";
import { formatTime, oneLine, parseDuration } from "../text.ts";
import { withApp, withStore } from "../workspace.ts";

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
  if (action === "list") return listTokens(cli);
  if (name === undefined) throw usageError(`Say which token: ${cli.commandLine(`tokens ${action} NAME`)}`);
  if (action === "remove") return removeNamed(cli, name);
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
    scopes: defined({ tools, experts, approve, admin: admin || undefined, chat }),
    ...(expires === undefined ? {} : { expiresAt: Date.now() + parseDuration(expires, "--expires") }),
  };
}

async function listTokens(cli: Cli): Promise<void> {
  const all = await withStore(cli, (store) => store.tokens.list());
  const rows = all.map((token) => [
    token.id,
    token.name,
    describeScopes(token),
    formatTime(token.createdAt),
    formatTime(token.lastUsedAt),
    describeExpiry(token),
  ]);
  const head = ["ID", "NAME", "MAY", "CREATED", "LAST USED", "EXPIRES"];
  const none = `There are no tokens but the workspace's own. Make one with: ${cli.commandLine("tokens create NAME")}`;
  cli.list({ tokens: all }, head, rows, none, { flexible: 2 });
}

async function removeNamed(cli: Cli, named: string): Promise<void> {
  const { id, name } = theOne(cli, await withStore(cli, (store) => store.tokens.list()), named);
  await removeToken(cli, id);
  cli.answer({ id, name }, () => cli.talk(`The token "${oneLine(name)}" is removed.`));
}

/** The token with this id or name. Throws `CliError` when there is none, or several have the name. */
function theOne(cli: Cli, all: readonly StoredToken[], named: string): StoredToken {
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

type Action = "list" | "set" | "remove";
type Kind = "secret" | "setting";

/** `toolrack secrets`: stores encrypted values for tools. No command ever prints one. */
export async function secrets(
  cli: Cli,
  action: Action = "list",
  first: string | undefined,
  variable: string | undefined,
  { token }: { readonly token?: string } = {},
): Promise<void> {
  if (action === "list") return withValues(cli, (values) => listSecrets(cli, values));
  const plain = nameOf(cli, "secret", action, first, variable);
  const name = token === undefined ? plain : await nameForToken(cli, plain, token);
  if (action === "remove") return withValues(cli, (values) => remove(cli, "secret", name, values));
  // Asks before the store is opened, because the person may take a while.
  const value = await readValue(cli, "secret", name);
  const owned = variable === undefined ? name : (await ownerOf(cli, name)).name;
  await withValues(cli, (values) => values.setSecret(owned, value));
  cli.answer({ name: owned }, () => cli.talk(`The secret ${owned} is set.`));
}

/** `toolrack settings`: stores values for tools that nobody has to hide. */
export async function settings(
  cli: Cli,
  action: Action = "list",
  first: string | undefined,
  second: string | undefined,
  third: string | undefined,
): Promise<void> {
  if (action === "list") return withValues(cli, (values) => listSettings(cli, values));
  // The value stands behind the name: `TOOL NAME=VALUE`, `NAME=VALUE` or `TOOL NAME VALUE`.
  const words = [first, second].filter((word) => word !== undefined);
  const [, last = words.at(-1), given = third] = /^([^=]*)=(.*)$/s.exec(words.at(-1) ?? "") ?? [];
  const [tool, variable] = words.length === 2 ? [first, last] : [last, undefined];
  const said = nameOf(cli, "setting", action, tool, variable);
  if (action === "remove") return withValues(cli, (values) => remove(cli, "setting", said, values));
  const { name, isSecret } = variable === undefined ? { name: said } : await ownerOf(cli, said);
  if (isSecret) {
    const command = cli.commandLine(`secrets set ${name.replace("/", " ")}`);
    throw new CliError(`The tool "${tool}" declares ${variable} as a secret. Set it with: ${command}`, {
      code: "setting_invalid",
      details: { name },
    });
  }
  const value = given ?? (await readValue(cli, "setting", name));
  await withValues(cli, (values) => values.setSetting(name, value));
  cli.answer({ name, value }, () => cli.talk(`The setting ${name} is set to ${value}.`));
}

/**
 * The name under which the tool of `TOOL/NAME` finds the value, which may have been said with an alias of the tool, and
 * whether the tool declares it as a secret. Settings are shown as they are, so such a value is not taken as one.
 */
function ownerOf(cli: Cli, said: string): Promise<{ readonly name: string; readonly isSecret?: boolean }> {
  return withApp(cli, { builtins: false }, async ({ registry }) => {
    const [tool = "", variable = ""] = said.split("/");
    const info = registry.get(tool);
    if (info === undefined) return { name: said };
    return { name: toolSecretName(info.name, variable), isSecret: declaresSecret(info, variable) };
  });
}

function nameOf(
  cli: Cli,
  kind: Kind,
  action: Action,
  first: string | undefined,
  variable: string | undefined,
): string {
  if (first === undefined) {
    throw usageError(
      `Say which ${kind}, NAME, or TOOL NAME for one tool alone: ${cli.commandLine(`${kind}s ${action} NAME`)}`,
    );
  }
  if (variable === undefined) return first;
  // The second word may be the secret value itself, typed by mistake. Then it must not be kept as a name.
  if (/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(variable)) return toolSecretName(first, variable);
  const rest =
    kind === "secret"
      ? "The value is read from standard input, or asked for, and never given on the command line."
      : `The value follows it: ${cli.commandLine("settings set TOOL NAME=VALUE")}`;
  throw usageError(`The second word is the variable that the tool declares, such as API_KEY. ${rest}`);
}

/** The name of a secret that is stored for one token. `master` is the workspace's own token. */
async function nameForToken(cli: Cli, name: string, token: string): Promise<string> {
  if (!/^[A-Za-z][A-Za-z0-9_]{0,47}$/.test(name)) {
    throw usageError(
      "With --token, the secret is named as in {{caller:NAME}}: letters, digits and _, at most 48, beginning with a letter.",
    );
  }
  const { tokenSecretName } = await import("../../store/index.ts");
  if (token === masterGrant.id) return tokenSecretName(token, name);
  const { id } = theOne(cli, await withStore(cli, (store) => store.tokens.list()), token);
  return tokenSecretName(id, name);
}

async function listSecrets(cli: Cli, { secrets: kept }: ToolValues): Promise<void> {
  const all = await kept.list();
  const secrets = all.map((info) => ({ ...info, isReadable: !kept.unreadable.has(info.name) }));
  const rows = all.map(({ name, updatedAt }) => [name, new Date(updatedAt).toISOString()]);
  const none = `There are no secrets. Set one with: ${cli.commandLine("secrets set NAME")}`;
  cli.list({ secrets }, ["NAME", "SET"], rows, none, { flexible: -1 });
  if (!cli.json) for (const problem of kept.problems()) cli.talk(`warning: ${problem}`);
}

async function listSettings(cli: Cli, values: ToolValues): Promise<void> {
  const settings = await values.settings();
  const rows = settings.map(({ name, value, updatedAt }) => [name, value, new Date(updatedAt).toISOString()]);
  const none = `There are no settings. Set one with: ${cli.commandLine("settings set TOOL NAME=VALUE")}`;
  cli.list({ settings }, ["NAME", "VALUE", "SET"], rows, none, { flexible: 1 });
}

async function remove(cli: Cli, kind: Kind, name: string, values: ToolValues): Promise<void> {
  const isRemoved = await (kind === "secret" ? values.removeSecret(name) : values.removeSetting(name));
  if (!isRemoved) {
    throw new CliError(`There is no ${kind} ${name}. See: ${cli.commandLine(`${kind}s list`)}`, {
      code: `${kind}_not_found`,
      details: { name },
    });
  }
  cli.answer({ name }, () => cli.talk(`The ${kind} ${name} is removed.`));
}

/**
 * Reads a value from standard input or a prompt. A secret is never taken from the command line, which other users of
 * the machine can see.
 */
async function readValue(cli: Cli, kind: Kind, name: string): Promise<string> {
  if (!cli.surroundings.stdin.isTTY) {
    const value = (await cli.readInput()).replace(/\r?\n$/, "");
    if (value !== "") return value;
    const line = cli.commandLine(`${kind}s set ${name.replace("/", " ")}`);
    throw usageError(`Give the value on standard input: ${line} < FILE`);
  }
  if (!cli.interactive)
    throw usageError("Standard error must be a terminal too, to ask for the value there.");
  const { isCancel, password, text } = await import("@clack/prompts");
  const value = await (kind === "secret" ? password : text)({
    message: `The value of ${name}`,
    ...cli.prompt,
    validate: (given) => ((given ?? "") === "" ? "It must not be empty." : undefined),
  });
  if (isCancel(value)) throw interruptedError("Nothing was set.");
  return value;
}

function withValues(cli: Cli, use: (values: ToolValues) => Promise<void>): Promise<void> {
  return withStore(cli, async (store, directory) => {
    const { openValues } = await import("../../access/index.ts");
    return use(await openValues({ directory, store }));
  });
}

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, resolve } from "node:path";
import { parseEnv } from "node:util";
import { hashValue } from "@toolrack/core/internal";
import { reasonOf } from "../../../helpers/index.ts";
import { ConfigurationError } from "../failures.ts";
import { personAuthOf } from "./api-entry.ts";
import { callerForm, isLocal, type ServerEntry } from "./entry.ts";

type Texts = Readonly<Record<string, string>>;

/** An entry that is ready to use: variables are replaced and paths are absolute. */
export type ResolvedEntry = {
  /** Folders, as addresses: the answer when the server asks for roots and no caller can answer. */
  readonly roots: readonly string[];
} & (
  | {
      readonly kind: "process";
      /** The program to start. Undefined for an installed package with only one program, which is then started. */
      readonly command: string | undefined;
      readonly args: readonly string[];
      /** The whole environment: nothing else is inherited from this process. */
      readonly env: Texts;
      readonly cwd: string;
      readonly install: string | undefined;
    }
  | {
      readonly kind: "address";
      readonly url: URL;
      readonly headers: Texts;
      /** Undefined when the entry does not say: then it is found out when connecting. */
      readonly type: "http" | "sse" | undefined;
    }
  | ({ readonly kind: "api" } & ResolvedApi)
);

/** Gives the tokens of the person who has signed in at an API. */
export interface ApiTokens {
  /** Rejects when nobody has signed in. */
  token(): Promise<string>;
  /** To be called when the API refused the token. Returns whether another may be got without a person. */
  refuse(token: string): boolean;
}

/** An API that is ready to be called. */
export interface ResolvedApi {
  /** An absolute path, or an address. */
  readonly spec: string | URL;
  readonly baseUrl: string | undefined;
  readonly auth: Readonly<Record<string, string | Texts>>;
  /** The name of the scheme for which a person signs in. It is not in `auth`. */
  readonly signInAs: string | undefined;
  /** The tokens of the person who has signed in. */
  readonly tokens?: ApiTokens | undefined;
  /** Names in lower case. */
  readonly headers: Texts;
  readonly isReadOnly: boolean;
  /** The absolute path of the folder with the documents of a GraphQL API. */
  readonly documents: string | undefined;
}

/**
 * Replaces the variables of an entry. `where`: the beginning of error messages, which names the server and the
 * file or table of its entry. Throws a `ConfigurationError` that names the key.
 */
export async function resolveEntry(
  entry: ServerEntry,
  where: string,
  surroundings: Surroundings,
): Promise<ResolvedEntry> {
  const { directory, environment } = surroundings;
  const one = (text: string, key: string) => expand(text, `${where}.${key}`, surroundings);
  const list = (texts: readonly string[] = [], key: string) =>
    Promise.all(texts.map((text, index) => one(text, `${key}.${index}`)));
  const record = (values: Texts = {}, key: string) => expandAll(values, `${where}.${key}`, surroundings);
  const roots = await list(entry.toolrack?.roots, "toolrack.roots");
  if (entry.api !== undefined) {
    const { spec, baseUrl, auth = {}, readOnly = false, documents } = entry.api;
    const place = await one(spec, "spec");
    const { scheme: signInAs } = personAuthOf(entry) ?? {};
    const others = Object.entries(auth).filter(([name]) => name !== signInAs);
    const filled = others.map(async ([name, value]) => {
      const given = typeof value === "string" ? one(value, `auth.${name}`) : record(value, `auth.${name}`);
      return [name, await given] as const;
    });
    const headers = Object.entries(await record(entry.headers, "headers"));
    return {
      kind: "api",
      roots,
      spec: /^https?:\/\//i.test(place) ? new URL(place) : resolve(directory, place),
      baseUrl: baseUrl === undefined ? undefined : await one(baseUrl, "baseUrl"),
      auth: Object.fromEntries(await Promise.all(filled)),
      signInAs,
      headers: Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])),
      isReadOnly: readOnly,
      documents: documents === undefined ? undefined : resolve(directory, await one(documents, "documents")),
    };
  }
  if (!isLocal(entry)) {
    const url = URL.parse(await one(entry.url ?? "", "url"));
    if (url === null || !/^https?:$/.test(url.protocol)) {
      throw new ConfigurationError(`${where}.url is no address that begins with http:// or https://.`);
    }
    const own = await record(entry.headers, "headers");
    const headers = { ...own, ...takeCredentials(url, own, where) };
    return { kind: "address", roots, url, headers, type: entry.type === "stdio" ? undefined : entry.type };
  }
  const { command, args, env, envFile, cwd = ".", toolrack: { install } = {} } = entry;
  const file =
    envFile === undefined ? "" : await readEnvFile(await one(envFile, "envFile"), where, directory);
  // Every variable of a file has a value, although the type does not say so.
  const own = { ...(parseEnv(file) as Texts), ...(await record(env, "env")) };
  return {
    kind: "process",
    roots,
    command: command === undefined ? undefined : await one(command, "command"),
    args: await list(args, "args"),
    env: { ...inheritedBeside(own, environment), ...own },
    cwd: resolve(directory, await one(cwd, "cwd")),
    install,
  };
}

/** Moves credentials from the address into an Authorization header: `fetch` refuses addresses with credentials. */
function takeCredentials(url: URL, headers: Texts, where: string): Texts {
  const { username, password } = url;
  if (username === "" && password === "") return {};
  if (Object.keys(headers).some((name) => /^authorization$/i.test(name))) {
    throw new ConfigurationError(
      `${where} has credentials in its url and an Authorization header. Keep one of them.`,
    );
  }
  url.username = "";
  url.password = "";
  const pair = `${decoded(username)}:${decoded(password)}`;
  return { Authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
}

/** A text with an invalid percent sign is taken literally. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function readEnvFile(path: string, where: string, directory: string): Promise<string> {
  return readFile(resolve(directory, path), "utf8").catch((error: Error) => {
    throw new ConfigurationError(`${where}.envFile cannot be read: ${error.message}`);
  });
}

/** Where the values of variables come from. */
export interface Surroundings {
  /** The folder of the workspace. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  secret(name: string): Promise<string | undefined>;
  setting(name: string): Promise<string | undefined>;
  /** Names the caller that a connection belongs to. Default `nobody`. */
  readonly callerId?: string;
  /** The value that the caller gave. Undefined where no caller is known. */
  caller?(name: string): string | undefined;
}

/** Replaces the variables in every value of a record. `where`: the key that holds the record, for error messages. */
export async function expandAll(values: Texts, where: string, surroundings: Surroundings): Promise<Texts> {
  const members = Object.entries(values).map(
    async ([name, text]) => [name, await expand(text, `${where}.${name}`, surroundings)] as const,
  );
  return Object.fromEntries(await Promise.all(members));
}

/** How many defaults may be nested. */
const DEEPEST = 16;

/**
 * Replaces the variables of a text: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${workspaceFolder}`,
 * `${workspaceFolderBasename}`, `${userHome}`, `${secret:NAME}`, `${setting:NAME}`, `${callerId}` and `{{caller:NAME}}`. A default may contain
 * variables; they are looked up only if it is used. Throws when a variable has no value, because a text such as `${NAME}` must
 * never be sent to a server. `where`: the key that holds the text, for error messages.
 */
export async function expand(text: string, where: string, surroundings: Surroundings): Promise<string> {
  try {
    // Every second piece is the name of a caller's value. It is put in as it is: a caller cannot name variables.
    const pieces = text.split(callerForm).map(async (piece, index) => {
      if (index % 2 === 0) return expandInside(piece, surroundings, DEEPEST);
      const value = surroundings.caller?.(piece.trim());
      if (value !== undefined) return value;
      throw new ConfigurationError(`uses {{caller:${piece}}}, which only a call can give.`);
    });
    return (await Promise.all(pieces)).join("");
  } catch (thrown) {
    // Any error but a `ConfigurationError` comes from reading a secret and names it, so the place is not added.
    const text = reasonOf(thrown);
    if (!(thrown instanceof ConfigurationError)) throw new ConfigurationError(text);
    const { code, details } = thrown.why ?? {};
    throw new ConfigurationError(`${where} ${text}`, code && { code, details: { ...details, place: where } });
  }
}

/**
 * Does the work of `expand`. Throws a `ConfigurationError` without the name of the key, which `expand` puts before it.
 */
async function expandInside(text: string, surroundings: Surroundings, depth: number): Promise<string> {
  let expanded = "";
  let from = 0;
  for (let at = text.indexOf("${"); at !== -1; at = text.indexOf("${", from)) {
    const end = endOf(text, at);
    const { value, fallback = "" } = await lookUp(text.slice(at + 2, end), surroundings);
    if (value === undefined && depth === 0)
      throw new ConfigurationError(`has more than ${DEEPEST} defaults inside each other. Write fewer.`);
    expanded += text.slice(from, at);
    expanded += value ?? (await expandInside(fallback, surroundings, depth - 1));
    from = end + 1;
  }
  return expanded + text.slice(from);
}

/** The index of the closing bracket of the variable at `start`. Variables may be nested. */
function endOf(text: string, start: number): number {
  let open = 0;
  for (const { 0: sign, index } of text.slice(start).matchAll(/\$\{|\}/g)) {
    open += sign === "}" ? -1 : 1;
    if (open === 0) return start + index;
  }
  throw new ConfigurationError(
    `has a "\${" without the "}" that ends it. Write \${NAME}; a text that is to hold "\${" itself can be kept as a secret and written \${secret:NAME}.`,
  );
}

/** The value of a variable, or its default text when it has none. */
async function lookUp(
  inside: string,
  { directory, environment, secret, setting, callerId = "nobody" }: Surroundings,
): Promise<{ readonly value?: string; readonly fallback?: string }> {
  if (inside === "workspaceFolder") return { value: directory };
  if (inside === "workspaceFolderBasename") return { value: basename(directory) };
  if (inside === "userHome") return { value: homedir() };
  if (inside === "callerId") return { value: callerId };
  const [, wanted, otherwise] = /^setting:(.+?)(?::-(.*))?$/s.exec(inside) ?? [];
  if (wanted !== undefined) {
    const value = await setting(wanted);
    if (value !== undefined) return { value };
    if (otherwise !== undefined) return { fallback: otherwise };
    const remedy = `Set it: toolrack settings set ${wanted}=VALUE`;
    throw new ConfigurationError(`uses the setting "${wanted}", which is not set. ${remedy}`, {
      code: "setting_missing",
      details: { name: wanted },
    });
  }
  const isSecret = inside.startsWith("secret:");
  const [, name = "", fallback] = /^(?:env:|secret:)?(.*?)(?::-(.*))?$/s.exec(inside) ?? [];
  if (isSecret && fallback === undefined && name !== "") {
    const value = await secret(name);
    if (value !== undefined) return { value };
    const remedy = `Set it: toolrack secrets set ${name}`;
    throw new ConfigurationError(`uses the secret "${name}", which is not set. ${remedy}`, {
      code: "secret_missing",
      details: { name },
    });
  }
  const value = !isSecret && Object.hasOwn(environment, name) ? environment[name] : undefined;
  if (value !== undefined && (value !== "" || fallback === undefined)) return { value };
  const problem = problemOf(inside, name, isSecret);
  if (problem === undefined && fallback !== undefined) return { fallback };
  const unset = `\${${inside}}, but the variable ${name} is not set. Set it in the environment or in .env, or write \${${name}:-default}.`;
  const why = problem === undefined ? ({ code: "variable_missing", details: { name } } as const) : undefined;
  throw new ConfigurationError(`uses ${problem ?? unset}`, why);
}

/** What is wrong with the spelling of a variable without a value. Never shows its default, which may be a secret. */
function problemOf(inside: string, name: string, isSecret: boolean): string | undefined {
  if (name === "") {
    return `\${${inside.replace(/:-.*$/s, ":-…")}}, which has no name. Write \${NAME} for a variable of the environment or \${secret:NAME} for a secret.`;
  }
  if (isSecret) {
    return `\${secret:${name}:-…}: a secret has no default. Write \${secret:${name}}, and set it: toolrack secrets set ${name}`;
  }
  if (name.includes("${")) {
    return `a variable inside the name of another one. Only a default may hold variables: \${NAME:-\${OTHER}}.`;
  }
  if (/^(?:input|command|config|extension\w*|workspaceFolder):/.test(name)) {
    return `\${${name}}, which only an editor such as VS Code knows. Write the value itself, or keep it as a secret and write \${secret:NAME}.`;
  }
  // Shell forms: `:?`, `:=`, `:+`, `-`, `#`, `%`, `/`, `^`, `,`, `@`.
  const [, plain, sign] = /^(\w+)(:?[^\w\s.()]|:)/.exec(name) ?? [];
  if (plain === undefined) return undefined;
  return `\${${plain}${sign}…}, a form that is not known here. Write \${${plain}}, which is an error where ${plain} is not set, or \${${plain}:-default}.`;
}

/**
 * The values of the secrets and settings that an entry names, as one text: another text means that one of them has changed.
 * Never rejects.
 */
export async function namedValues(entry: ServerEntry, { secret, setting }: Surroundings): Promise<string> {
  const names = JSON.stringify(entry).matchAll(/\$\{(secret|setting):([^}]*?)(?::-|\})/g);
  const values = [...names].map(([, kind, name = ""]) => {
    const value = kind === "secret" ? secret(name) : setting(name);
    return value.catch(() => "It cannot be read.");
  });
  return hashValue(await Promise.all(values));
}

// Which variables of the rack's own environment the process of an upstream server is given. All others stay here: an entry
// names what else its server needs.

/** What every program needs to run. */
const basics: ReadonlySet<string> = new Set(
  (process.platform === "win32"
    ? "APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR"
    : "PATH HOME LANG LC_ALL LC_CTYPE TMPDIR TZ USER LOGNAME SHELL TERM"
  ).split(" "),
);

/**
 * What a program needs to reach anything from inside a company: the proxy, the certificates, and where npx, uvx and pipx
 * fetch packages. Programs spell these names in upper and lower case. A proxy's password may be among the values. Tokens of
 * npm (`npm_config__auth`, `npm_config_//…:_authToken`) are not; npm finds them in the person's `.npmrc`.
 */
const network = new RegExp(
  `^(?:${[
    "(?:https?|all|no)_proxy",
    "node_(?:extra_ca_certs|use_env_proxy|use_system_ca)",
    "ssl_cert_(?:file|dir)",
    "(?:requests|curl|aws)_ca_bundle",
    "(?:git_ssl_cainfo|pip_cert|deno_cert|deno_tls_ca_store|cargo_http_cainfo)",
    "npm_config_(?:(?:@[\\w.-]+:)?registry|proxy|https?[_-]proxy|noproxy|cafile|ca|strict[_-]ssl|userconfig)",
    "(?:uv_(?:default_index|index_url|native_tls|system_certs)|pip_(?:index_url|proxy|trusted_host))",
  ].join("|")})$`,
  "i",
);

export function isBasic(name: string): boolean {
  return basics.has(name);
}

export function isNetwork(name: string): boolean {
  return network.test(name);
}

/**
 * The inherited variables of a process. `own`: what its entry sets. A name that the entry sets in another case is not
 * inherited, because programs differ in which of the two they read.
 */
export function inheritedBeside(
  own: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const set = new Set(Object.keys(own).map((name) => name.toLowerCase()));
  const isInherited = (name: string) => isBasic(name) || (isNetwork(name) && !set.has(name.toLowerCase()));
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value !== undefined && isInherited(name) ? [[name, value]] : [],
    ),
  );
}

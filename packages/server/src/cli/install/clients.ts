import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join as joinHere, posix, resolve, win32 } from "node:path";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { isRecord } from "../../helpers/values.ts";
import type { Cli } from "../cli.ts";
import { usageError } from "../cli-error.ts";

export const clientIds = [
  "claude-desktop",
  "claude-code",
  "cursor",
  "vscode",
  "codex",
  "opencode",
  "zed",
] as const;
export type ClientId = (typeof clientIds)[number];

export type ClientEntry = Readonly<Record<string, unknown>>;

export interface Client {
  readonly name: string;
  readonly format: "json" | "toml";
  /** The key of the object that holds the entries. */
  readonly container: string;
  /** A folder that exists when the client is installed. */
  readonly mark: (places: ClientPlaces) => string;
  /** The user's own file. Of several, the last that exists is used; if none exists, the first is created. */
  readonly files: (places: ClientPlaces) => readonly string[];
  /**
   * The same for the file of a project, relative to the project's folder. Undefined when the client has no such file.
   */
  readonly projectFiles?: readonly string[];
  /** The entry with which the client starts the program. */
  readonly stdio: (words: readonly string[]) => ClientEntry;
  /** The entry with which the client connects to the server. Undefined when the client takes no address. */
  readonly http?: (url: string, token: string) => ClientEntry;
  /** Why there is no `http`. */
  readonly noHttp?: string;
  /** What the user does so that the client reads the change. */
  readonly next: string;
}

/** Files and entry formats as each client documents them. */
export const clients: Readonly<Record<ClientId, Client>> = {
  "claude-desktop": {
    name: "Claude Desktop",
    format: "json",
    container: "mcpServers",
    mark: ({ applications, join }) => join(applications, "Claude"),
    files: ({ applications, join }) => [join(applications, "Claude", "claude_desktop_config.json")],
    noHttp:
      "Claude Desktop's file takes only servers that it starts itself: an entry with an address is not used",
    stdio: started,
    next: "Quit Claude Desktop, also where its icon stays in the bar, and start it again.",
  },
  "claude-code": {
    name: "Claude Code",
    format: "json",
    container: "mcpServers",
    mark: ({ claudeCode, home, join }) => claudeCode ?? join(home, ".claude"),
    files: ({ claudeCode, home, join }) => [join(claudeCode ?? home, ".claude.json")],
    projectFiles: [".mcp.json"],
    stdio: typedStart,
    // Claude Code ignores an entry with an address but without a type.
    http: typedAddress,
    next: "Start Claude Code anew; /mcp in it shows the server.",
  },
  cursor: {
    name: "Cursor",
    format: "json",
    container: "mcpServers",
    mark: ({ home, join }) => join(home, ".cursor"),
    files: ({ home, join }) => [join(home, ".cursor", "mcp.json")],
    projectFiles: [".cursor/mcp.json"],
    stdio: started,
    http: addressed,
    next: "Restart Cursor; its settings show the server under MCP.",
  },
  vscode: {
    name: "VS Code",
    format: "json",
    container: "servers",
    mark: ({ applications, join }) => join(applications, "Code"),
    files: ({ applications, join }) => [join(applications, "Code", "User", "mcp.json")],
    projectFiles: [".vscode/mcp.json"],
    stdio: typedStart,
    http: typedAddress,
    next: "In VS Code, “MCP: List Servers” of the command palette shows the server and starts it.",
  },
  codex: {
    name: "Codex",
    format: "toml",
    container: "mcp_servers",
    mark: ({ codex, home, join }) => codex ?? join(home, ".codex"),
    files: ({ codex, home, join }) => [join(codex ?? join(home, ".codex"), "config.toml")],
    // Codex reads this file only in projects that the user trusts.
    projectFiles: [".codex/config.toml"],
    stdio: started,
    http: (url, token) => ({ url, http_headers: headers(token) }),
    next: "Start Codex anew; /mcp in it shows the server.",
  },
  opencode: {
    name: "opencode",
    format: "json",
    container: "mcp",
    mark: ({ config, join }) => join(config, "opencode"),
    files: ({ config, join }) => [
      join(config, "opencode", "opencode.json"),
      join(config, "opencode", "opencode.jsonc"),
    ],
    projectFiles: ["opencode.json", "opencode.jsonc"],
    stdio: (words) => ({ type: "local", command: [...words], enabled: true }),
    http: (url, token) => ({ type: "remote", ...addressed(url, token), enabled: true }),
    next: "Start opencode anew; `opencode mcp list` shows the server.",
  },
  zed: {
    name: "Zed",
    format: "json",
    container: "context_servers",
    mark: ({ zed }) => zed,
    files: ({ zed, join }) => [join(zed, "settings.json")],
    noHttp: "Only the way in which Zed starts the server itself is written here",
    stdio: (words) => ({ source: "custom", ...started(words) }),
    next: "Zed reads its settings at once; those of its Agent Panel show the server.",
  },
};

function typedStart(words: readonly string[]): ClientEntry {
  return { type: "stdio", ...started(words) };
}

function typedAddress(url: string, token: string): ClientEntry {
  return { type: "http", ...addressed(url, token) };
}

function started([command = "", ...args]: readonly string[]): ClientEntry {
  return { command, args };
}

function addressed(url: string, token: string): ClientEntry {
  return { url, headers: headers(token) };
}

function headers(token: string): Readonly<Record<string, string>> {
  return { Authorization: `Bearer ${token}` };
}

/** The folders in which MCP clients keep their files. */
export interface ClientPlaces {
  readonly home: string;
  /** The settings folder of programs that follow the Linux conventions on every system. */
  readonly config: string;
  /** The settings folder of desktop programs, which differs by operating system. */
  readonly applications: string;
  /** Zed's folder. On macOS no environment variable changes it. */
  readonly zed: string;
  /** The folder that CLAUDE_CONFIG_DIR names, if it is set; `codex` is the folder that CODEX_HOME names. */
  readonly claudeCode: string | undefined;
  readonly codex: string | undefined;
  readonly join: (...parts: string[]) => string;
}

/** Finds the folders from the environment, as the clients do. */
export function clientPlaces(
  environment: Readonly<Record<string, string | undefined>>,
  home: string,
  platform: NodeJS.Platform = process.platform,
): ClientPlaces {
  const { join } = platform === "win32" ? win32 : posix;
  const config = folder(environment.XDG_CONFIG_HOME) ?? join(home, ".config");
  const roaming = folder(environment.APPDATA) ?? join(home, "AppData", "Roaming");
  const system = platform === "win32" || platform === "darwin" ? platform : "linux";
  const [applications, zed] = {
    win32: [roaming, join(roaming, "Zed")] as const,
    darwin: [join(home, "Library", "Application Support"), join(home, ".config", "zed")] as const,
    linux: [config, join(config, "zed")] as const,
  }[system];
  const claudeCode = folder(environment.CLAUDE_CONFIG_DIR);
  const codex = folder(environment.CODEX_HOME);
  return { home, config, applications, zed, claudeCode, codex, join };
}

/** Ignores a variable that is empty or holds a relative path. */
function folder(value: string | undefined): string | undefined {
  return value !== undefined && (isAbsolute(value) || win32.isAbsolute(value)) ? value : undefined;
}

function placesOf({ surroundings: { env } }: Cli): ClientPlaces {
  const home = process.platform === "win32" ? env.USERPROFILE : env.HOME;
  return clientPlaces(env, home || homedir());
}

/** The client's file that has, or gets, the entry. Throws `CliError` when the client has no file for projects. */
export function clientFileOf(cli: Cli, id: ClientId, isProject: boolean): string {
  const { name, projectFiles, files } = clients[id];
  const candidates = isProject ? projectFiles?.map((file) => joinHere(cli.cwd, file)) : files(placesOf(cli));
  if (candidates === undefined) {
    throw usageError(`${name} is connected for the user only, not for a project. Leave --project out.`);
  }
  return candidates.findLast((file) => existsSync(file)) ?? candidates[0] ?? "";
}

/** Whether the client's folder or file exists on this machine. */
export function isClientThere(cli: Cli, id: ClientId): boolean {
  const { mark, files } = clients[id];
  const places = placesOf(cli);
  return [mark(places), ...files(places)].some((path) => existsSync(path));
}

/** An entry of a client's file that points to a rack. */
export type RackEntry =
  | { readonly transport: "stdio"; readonly workspace: string; readonly expert?: string }
  | { readonly transport: "http"; readonly url: string; readonly token: string };

/** What identifies this rack in an entry. */
export interface OwnRack {
  readonly workspace: string;
  /** The addresses of the rack's server. */
  readonly addresses: readonly string[];
  /** The folder in which the client starts programs, for relative paths. Undefined when it is not known. */
  readonly startedIn?: string | undefined;
}

/** Keys that decide how a server is reached. All others are the user's own settings. */
const connectionKeys = new Set(
  "type source command args url bearer_token_env_var enabled disabled".split(" "),
);

/** Keys that hold headers, of which only `Authorization` is ours. */
const headerKeys = new Set(["headers", "http_headers", "env_http_headers"]);

/** Reads an entry that points to a rack. Undefined for the entry of any other server. */
export function readRackEntry(entry: unknown): RackEntry | undefined {
  if (!isRecord(entry)) return undefined;
  const { command, args = [], url } = entry;
  if (command !== undefined) return readWords([command, args].flat());
  const [header] = [entry.headers, entry.http_headers].flatMap((headers) => authorizations(headers));
  const token = typeof header === "string" ? /^Bearer (trk_\S+)$/.exec(header)?.[1] : undefined;
  if (typeof url !== "string" || !/\/mcp(?:\/[^/]*)?$/.test(url) || token === undefined) return undefined;
  return { transport: "http", url, token };
}

/** The token of an entry. A placeholder that was copied from a page is no token. */
export function tokenOf(entry: RackEntry | undefined): string | undefined {
  return entry?.transport === "http" && /^trk_[\w-]+$/.test(entry.token) ? entry.token : undefined;
}

export function isOfRack(entry: RackEntry, { workspace, addresses, startedIn }: OwnRack): boolean {
  if (entry.transport === "stdio") {
    if (startedIn === undefined && !isAbsolute(entry.workspace)) return false;
    return resolve(startedIn ?? "", entry.workspace) === workspace;
  }
  return addresses.some(
    (address) => entry.url === `${address}/mcp` || entry.url.startsWith(`${address}/mcp/`),
  );
}

/** Whether both entries connect in the same way. Tokens and the user's own settings may differ. */
export function isSameConnection(existing: unknown, wanted: ClientEntry): boolean {
  if (!isRecord(existing)) return false;
  const { disabled, enabled, ...others } = connectionOf(existing);
  const { enabled: _, ...own } = connectionOf(wanted);
  const isOff = disabled === true || String(enabled) === "false";
  return !isOff && isDeepStrictEqual(withoutTokens(others), withoutTokens(own));
}

/** The wanted entry with the user's own settings from the existing one, unless the kind of connection changes. */
export function mergeEntry(existing: unknown, wanted: ClientEntry): ClientEntry {
  if (!isRecord(existing) || "url" in existing !== "url" in wanted) return wanted;
  const others = Object.entries(existing).flatMap(([key, value]) => {
    if (connectionKeys.has(key)) return [];
    if (!headerKeys.has(key)) return [[key, value]];
    const kept = Object.entries(headersOf(value)).filter(([name]) => !isAuthorization(name));
    return kept.length === 0 ? [] : [[key, { ...Object.fromEntries(kept), ...headersOf(wanted[key]) }]];
  });
  return { ...wanted, ...Object.fromEntries(others) };
}

/** The texts in a merged entry that the user wrote, which may be secrets. */
export function ownTexts(merged: ClientEntry, wanted: ClientEntry): string[] {
  const known = new Set(textsIn(wanted));
  return textsIn(merged).filter((text) => text !== "" && !known.has(text));
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** Reads `… mcp --dir WORKSPACE` or `… --dir WORKSPACE mcp`, however the program is started. */
function readWords(words: readonly unknown[]): RackEntry | undefined {
  if (!words.every((word) => typeof word === "string")) return undefined;
  const found = words.flatMap((word, at) => {
    if (word !== "mcp") return [];
    const from = words[at - 2] === "--dir" ? at - 2 : words[at - 1]?.startsWith("--dir=") ? at - 1 : at;
    return readOptions([...words.slice(from, at), ...words.slice(at + 1)]) ?? [];
  });
  return found[0];
}

/** Undefined when `toolrack mcp` would not take these options. */
function readOptions(args: string[]): RackEntry | undefined {
  const text = { type: "string" } as const;
  try {
    const options = { dir: text, expert: text, "no-watch": { type: "boolean" } } as const;
    const { dir, expert } = parseArgs({ args, options }).values;
    if (dir === undefined) return undefined;
    return { transport: "stdio", workspace: dir, ...(expert === undefined ? {} : { expert }) };
  } catch {
    return undefined;
  }
}

function connectionOf(entry: ClientEntry): Record<string, unknown> {
  const keys = Object.entries(entry).filter(([key]) => connectionKeys.has(key));
  const headers = [...headerKeys].map((key) => [key, authorizations(entry[key])]);
  return Object.fromEntries([...keys, ...headers]);
}

function authorizations(headers: unknown): unknown[] {
  return Object.entries(headersOf(headers)).flatMap(([name, value]) =>
    isAuthorization(name) ? [value] : [],
  );
}

function headersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

function isAuthorization(header: string): boolean {
  return header.toLowerCase() === "authorization";
}

function withoutTokens(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll(/Bearer trk_[^"\\]*/g, "Bearer trk_"));
}

import type { McpServer, McpServerTool } from "../../api/index.ts";
import { asJson, isRecord, mendJson, parseJson, t, withoutFences } from "../../text/index.ts";

export type Pasted =
  | {
      readonly ok: true;
      readonly servers: readonly { readonly key: string; readonly entry: Entry }[];
      /** Whether a single entry was pasted without a name. */
      readonly isNameless: boolean;
      /** Keys whose values are not server entries. */
      readonly skipped: readonly string[];
      /** An address alone was pasted. The entry takes it for that of an API's description, or of an MCP server. */
      readonly address?: string;
    }
  | { readonly ok: false; readonly problem: "empty" | "not-json" | "no-servers"; readonly message: string };

/**
 * Reads servers from documentation or from the file of another client: `mcpServers`, `servers` (VS Code), `mcp`
 * (opencode), `context_servers` (Zed), `apis` (our own `apis.json`), bare entries, one entry, or an address alone. Everything
 * under such a name counts as a server.
 */
export async function readPasted(text: string): Promise<Pasted> {
  const bare = withoutFences(text);
  if (bare === "") return { ok: false, problem: "empty", message: "" };
  if (/^https?:\/\/[^\s"']+$/.test(bare)) {
    const entry = entryAt(bare, /\/(?:mcp|sse)\b[^.]*$/.test(bare) ? "server" : "api");
    return {
      ok: true,
      servers: [{ key: nameFor(entry), entry }],
      isNameless: true,
      skipped: [],
      address: bare,
    };
  }
  const found = entriesOf(await mendJson(bare)) ?? entriesOf(await mendJson(`{${bare}}`));
  if (found !== undefined) return { ok: true, ...found };
  const read = parseJson(bare);
  const isJson = read.ok || read.inexact !== undefined;
  return { ok: false, problem: isJson ? "no-servers" : "not-json", message: isJson ? "" : read.message };
}

export function pasteProblem({ problem, message }: Extract<Pasted, { ok: false }>): string {
  if (problem === "empty") return "";
  return problem === "not-json" ? t("form.notJson", { problem: message }) : t("mcpServers.noServersInIt");
}

/** What an address leads to. */
export type AddressKind = "api" | "server";

export function entryAt(address: string, kind: AddressKind): Entry {
  return kind === "api" ? { spec: address } : { url: address };
}

type Found = Omit<Extract<Pasted, { ok: true }>, "ok">;

function entriesOf(value: unknown, isKnown = false): Found | undefined {
  if (!isRecord(value)) return undefined;
  if (isEntry(value)) {
    const entry = toEntry(value);
    return { servers: [{ key: nameFor(entry), entry }], isNameless: true, skipped: [] };
  }
  for (const key of ["mcpServers", "servers", "mcp_servers", "mcp", "context_servers", "apis"]) {
    const inner = value[key];
    if (isRecord(inner) && !isEntry(inner)) return entriesOf(inner, true);
  }
  const all = Object.entries(value);
  const isServer = (entry: unknown) => (isKnown ? isRecord(entry) : isEntry(entry));
  const servers = all.flatMap(([key, entry]) =>
    isRecord(entry) && isServer(entry) ? [{ key, entry: toEntry(entry) }] : [],
  );
  const skipped = all.flatMap(([key, entry]) => (isServer(entry) ? [] : [key]));
  return servers.length === 0 ? undefined : { servers, isNameless: false, skipped };
}

function nameFor({ command, args, url: address, spec, toolrack }: Entry): string {
  const isFile = typeof spec === "string" && !/^https?:/.test(spec);
  if (isFile) return clean((spec.split("/").at(-1) ?? "").replace(/\.\w+$/, ""));
  const url = address ?? spec;
  if (typeof url === "string") {
    const host = /^\w+:\/\/([^/:?#]+)/.exec(url)?.[1] ?? "";
    const word = host
      .split(".")
      .findLast((part) => !/^(com|org|net|io|dev|ai|app|www|mcp|api|\d+)$/.test(part));
    return clean(word ?? (spec === undefined ? "" : "api"));
  }
  const installed = isRecord(toolrack) ? toolrack.install : undefined;
  const all = installed === undefined ? [command, ...(Array.isArray(args) ? args : [])] : [installed];
  const words = all.filter((word) => typeof word === "string");
  const last = words.findLast((word) => /^[@\w][\w@/.-]*$/.test(word) && !word.startsWith("-")) ?? "";
  const name = last
    .split("/")
    .at(-1)!
    .replace(/@[^@]*$/, "")
    .replace(/\.\w+$/, "");
  return clean(name.replace(/^(mcp-)?server-|-?mcp(-server)?$/g, "") || name);
}

function clean(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^-+|-+$/g, "");
}

export type Entry = Readonly<Record<string, unknown>>;

/** Whether the value has a command or an address, in the form of any client, or the description of an API. */
export function isEntry(value: unknown): value is Entry {
  if (!isRecord(value)) return false;
  const { command, url, httpUrl, serverUrl, spec, api, toolrack } = value;
  return (
    isRecord(api) ||
    [command, url, httpUrl, serverUrl, spec].some((reach) => typeof reach === "string") ||
    Array.isArray(command) ||
    (isRecord(command) && typeof command.path === "string") ||
    (isRecord(toolrack) && typeof toolrack.install === "string")
  );
}

/** Translates an entry into the form of `mcpServers`. Unknown members stay unchanged. */
export function toEntry(given: Entry): Entry {
  const { command, environment, httpUrl, serverUrl, type, ...rest } = given;
  return {
    // The types `local` and `remote` of opencode repeat what the other members say.
    ...(type === undefined || type === "local" || type === "remote" ? {} : { type }),
    ...commandOf(command),
    ...rest,
    // opencode writes `environment` for `env`.
    ...(isRecord(environment) && rest.env === undefined ? { env: environment } : {}),
    // Windsurf writes `serverUrl` for `url`.
    ...(typeof serverUrl === "string" ? { url: serverUrl } : {}),
    // Gemini writes `httpUrl`, because its `url` means the older transport.
    ...(typeof httpUrl === "string" ? { url: httpUrl, type: "http" } : {}),
  };
}

function commandOf(command: unknown): Entry {
  if (command === undefined) return {};
  // opencode writes the program and its arguments as one list.
  if (Array.isArray(command)) return { command: command[0], args: command.slice(1) };
  if (!isRecord(command)) return { command };
  // Zed writes the program, its arguments and its environment as one object.
  const { path, ...rest } = command;
  return { command: path, ...rest };
}

/** The entry of a server as the JSON text of an `mcp.json` file, and of an API as that of an `apis.json`. */
export function entryAsText({ key, entry }: Pick<McpServer, "key" | "entry">): string {
  const { api, ...rest } = entry;
  if (isRecord(api)) return asJson({ apis: { [key]: { ...api, ...rest } } });
  return asJson({ mcpServers: { [key]: entry } });
}

/** The old and new definition of a tool as two texts whose lines can be compared. */
export function changesAsText(changes: McpServerTool["changes"]): { before: string; after: string } {
  const side = (which: "before" | "after") =>
    changes
      .filter((change) => change[which] !== undefined)
      .map((change) => `${change.path}: ${shown(change[which])}`)
      .join("\n");
  return { before: side("before"), after: side("after") };
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : asJson(value);
}

/** The state for people: `resting` when the process was ended because nobody called it. */
export function stateOf(server: Pick<McpServer, "state" | "resting">): McpServer["state"] | "resting" {
  const { state, resting } = server;
  return state === "ready" && resting ? "resting" : state;
}

import { isRecord } from "../../schema/is-record.ts";
export interface PastedServer {
  readonly key: string;
  readonly entry: Readonly<Record<string, unknown>>;
}

export type Pasted =
  | {
      readonly ok: true;
      readonly servers: readonly PastedServer[] /** The one server has no name yet. */;
      readonly isNameless: boolean;
    }
  | { readonly ok: false; readonly problem: "empty" | "not-json" | "no-servers"; readonly message: string };

/**
 * Reads what people copy from the documentation of a server or the file of another client: `mcpServers`, `servers`
 * (VS Code), the entries without what is around them, or one entry alone. Comments, commas too many and missing outer
 * braces are taken as they come.
 */
export function readPasted(text: string): Pasted {
  const bare = withoutComments(text).trim();
  if (bare === "") return { ok: false, problem: "empty", message: "" };
  const read = parse(bare) ?? parse(`{${bare}}`);
  if (read === undefined) return { ok: false, problem: "not-json", message: reasonOf(bare) };
  const found = entriesOf(read);
  if (found === undefined) return { ok: false, problem: "no-servers", message: "" };
  return { ok: true, ...found };
}

type Entry = Readonly<Record<string, unknown>>;

function entriesOf(value: unknown): { servers: PastedServer[]; isNameless: boolean } | undefined {
  if (!isRecord(value)) return undefined;
  if (isEntry(value)) return { servers: [{ key: nameFor(value), entry: value }], isNameless: true };
  for (const key of ["mcpServers", "servers", "mcp_servers", "mcp", "context_servers"]) {
    const inner = value[key];
    if (isRecord(inner)) return entriesOf(inner);
  }
  const servers = Object.entries(value).flatMap(([key, entry]) => (isEntry(entry) ? [{ key, entry }] : []));
  return servers.length === 0 ? undefined : { servers, isNameless: false };
}

function isEntry(value: unknown): value is Entry {
  return isRecord(value) && (typeof value.command === "string" || typeof value.url === "string");
}

/** A name that an entry suggests, where none was given. */
function nameFor({ command, args, url }: Entry): string {
  if (typeof url === "string") {
    const host = /^\w+:\/\/([^/:?#]+)/.exec(url)?.[1] ?? "";
    return clean(
      host.split(".").findLast((part) => !/^(com|org|net|io|dev|ai|app|www|mcp|api|\d+)$/.test(part)) ?? "",
    );
  }
  const words = [command, ...(Array.isArray(args) ? args : [])].filter((word) => typeof word === "string");
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function reasonOf(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (thrown) {
    return thrown instanceof Error ? thrown.message : String(thrown);
  }
}

/** The text without comments and without commas before a closing bracket; what is inside quotes stays. */
function withoutComments(text: string): string {
  return text
    .replace(/("(?:\\.|[^"\\])*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (_, quoted?: string) => quoted ?? "")
    .replace(/("(?:\\.|[^"\\])*")|,(?=\s*[}\]])|,(?=\s*$)/g, (_, quoted?: string) => quoted ?? "");
}

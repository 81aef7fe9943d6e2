import { isRecord } from "../../schema/is-record.ts";
import { mendJson, withoutFences } from "../../text/mend-json.ts";
import { type Entry, isEntry, toEntry } from "./foreign-entry.ts";

export interface PastedServer {
  readonly key: string;
  readonly entry: Entry;
}

export type Pasted =
  | {
      readonly ok: true;
      readonly servers: readonly PastedServer[];
      /** The one server has no name yet. */
      readonly isNameless: boolean;
      /** Names of what stands among the servers and is none. */
      readonly skipped: readonly string[];
    }
  | { readonly ok: false; readonly problem: "empty" | "not-json" | "no-servers"; readonly message: string };

/**
 * Reads what people copy from the documentation of a server or the file of another client: `mcpServers`, `servers`
 * (VS Code), `mcp` (opencode), `context_servers` (Zed), the entries without what is around them, or one entry alone. Code
 * fences, comments, commas too many and missing outer braces are taken as they come. What stands under a name that only
 * servers stand under is one, whatever it says: the server judges it.
 */
export async function readPasted(text: string): Promise<Pasted> {
  const bare = withoutFences(text);
  if (bare === "") return { ok: false, problem: "empty", message: "" };
  const found = entriesOf(await mendJson(bare)) ?? entriesOf(await mendJson(`{${bare}}`));
  if (found !== undefined) return { ok: true, ...found };
  const reason = reasonOf(bare);
  return { ok: false, problem: reason === "" ? "no-servers" : "not-json", message: reason };
}

type Found = Omit<Extract<Pasted, { ok: true }>, "ok">;

function entriesOf(value: unknown, isKnown = false): Found | undefined {
  if (!isRecord(value)) return undefined;
  if (isEntry(value)) {
    const entry = toEntry(value);
    return { servers: [{ key: nameFor(entry), entry }], isNameless: true, skipped: [] };
  }
  for (const key of ["mcpServers", "servers", "mcp_servers", "mcp", "context_servers"]) {
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

/** A name that an entry suggests, where none was given. */
function nameFor({ command, args, url, toolrack }: Entry): string {
  if (typeof url === "string") {
    const host = /^\w+:\/\/([^/:?#]+)/.exec(url)?.[1] ?? "";
    return clean(
      host.split(".").findLast((part) => !/^(com|org|net|io|dev|ai|app|www|mcp|api|\d+)$/.test(part)) ?? "",
    );
  }
  const installed = isRecord(toolrack) ? toolrack.install : undefined;
  const said = installed === undefined ? [command, ...(Array.isArray(args) ? args : [])] : [installed];
  const words = said.filter((word) => typeof word === "string");
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

/** Why it is no JSON; empty for what is. */
function reasonOf(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (thrown) {
    return thrown instanceof Error ? thrown.message : String(thrown);
  }
}

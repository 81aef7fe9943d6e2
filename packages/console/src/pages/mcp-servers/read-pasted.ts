import { isRecord } from "../../schema/is-record.ts";
import { mendJson, withoutFences } from "../../text/mend-json.ts";

export interface PastedServer {
  readonly key: string;
  readonly entry: Readonly<Record<string, unknown>>;
}

export type Pasted =
  | {
      readonly ok: true;
      readonly servers: readonly PastedServer[];
      /** The one server has no name yet. */
      readonly isNameless: boolean;
    }
  | { readonly ok: false; readonly problem: "empty" | "not-json" | "no-servers"; readonly message: string };

/**
 * Reads what people copy from the documentation of a server or the file of another client: `mcpServers`, `servers`
 * (VS Code), the entries without what is around them, or one entry alone. Code fences, comments, commas too many and
 * missing outer braces are taken as they come.
 */
export async function readPasted(text: string): Promise<Pasted> {
  const bare = withoutFences(text);
  if (bare === "") return { ok: false, problem: "empty", message: "" };
  const found = entriesOf(await mendJson(bare)) ?? entriesOf(await mendJson(`{${bare}}`));
  if (found !== undefined) return { ok: true, ...found };
  const reason = reasonOf(bare);
  return { ok: false, problem: reason === "" ? "no-servers" : "not-json", message: reason };
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

/** Why it is no JSON; empty for what is. */
function reasonOf(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (thrown) {
    return thrown instanceof Error ? thrown.message : String(thrown);
  }
}

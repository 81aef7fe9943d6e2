import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { isRecord } from "../../helpers/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes } from "../cli-error.ts";
import { oneLine } from "../text.ts";

/**
 * `toolrack mcp-servers import FILE`: adds the servers from another program's file. Servers that exist here stay
 * unchanged. It fails when there was something to add and nothing could be added.
 */
export async function importMcpServers(
  cli: Cli,
  path: string,
  add: (key: string, entry: object) => Promise<unknown>,
): Promise<void> {
  const added: string[] = [];
  const reasons = new Map<string, string>();
  const places = new Map<string, string>();
  let isRefused = false;
  for (const { key, entry, place } of await readServers(cli, path)) {
    const first = places.get(key);
    if (first !== undefined) {
      reasons.set(`${place}.${key}`, `It stands under "${first}" too, and that one counts.`);
      continue;
    }
    places.set(key, place);
    try {
      await add(key, entry);
      added.push(key);
    } catch (thrown) {
      if (!(thrown instanceof CliError) || thrown.code === "no_server") throw thrown;
      isRefused ||= thrown.code !== "mcp_server_exists";
      reasons.set(key, thrown.message);
    }
  }
  cli.answer({ added, skipped: Object.fromEntries(reasons) }, () => {
    cli.talk(added.length === 0 ? "Nothing was added." : `Added: ${added.map(oneLine).join(", ")}`);
    for (const [key, reason] of reasons) cli.talk(`${oneLine(key)} is left out: ${oneLine(reason)}`);
  });
  if (added.length === 0 && isRefused) cli.exitCode = exitCodes.failure;
}

interface FoundServer {
  readonly key: string;
  readonly entry: object;
  /** The key of the object in the file that lists the server. */
  readonly place: string;
}

async function readServers(cli: Cli, path: string): Promise<readonly FoundServer[]> {
  const text = await readFile(resolve(cli.cwd, path), "utf8").catch((error: Error) => {
    throw new CliError(`${path} cannot be read: ${error.message}`, { code: "unreadable_file" });
  });
  const { parseJsonc } = await import("../../helpers/index.ts");
  let document: unknown;
  try {
    document = parseJsonc(text);
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    throw new CliError(`${path} is not valid JSON: ${reason}`, { code: "invalid_file" });
  }
  const servers = serversOf(document);
  if (servers !== undefined) return servers;
  throw new CliError(
    `${path} names no MCP servers. They stand in an object under "mcpServers" (most programs), "servers" or "mcp": { "servers" } (VS Code), or "context_servers" (Zed).`,
    { code: "invalid_file" },
  );
}

/** The servers in the file of any known program; undefined when it has no list of servers. */
function serversOf(document: unknown): FoundServer[] | undefined {
  if (!isRecord(document)) return undefined;
  const { mcpServers, servers, mcp, context_servers } = document;
  const lists = {
    mcpServers,
    servers,
    "mcp.servers": isRecord(mcp) ? mcp.servers : undefined,
    context_servers,
  };
  const found = Object.entries(lists).flatMap(([place, list]) => (isRecord(list) ? [{ place, list }] : []));
  if (found.length === 0) return undefined;
  return found.flatMap(({ place, list }) =>
    Object.entries(list).map(([key, given]) => {
      const entry = place === "context_servers" ? fromZed(given) : given;
      // The server checks the entry, also when it is no object.
      return { key, entry: entry as object, place };
    }),
  );
}

/** Older versions of Zed kept the command and its arguments in an object. */
function fromZed(entry: unknown): unknown {
  if (!isRecord(entry) || !isRecord(entry.command)) return entry;
  const { path, args, env } = entry.command;
  return {
    ...entry,
    command: path,
    ...(args === undefined ? {} : { args }),
    ...(env === undefined ? {} : { env }),
  };
}

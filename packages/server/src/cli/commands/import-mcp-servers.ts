import { readFile } from "node:fs/promises";
import { isRecord } from "../../helpers/values.ts";
import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { oneLine } from "../text/printable.ts";

/**
 * `toolrack mcp-servers import FILE`: adds the servers of another program's file. Those that are here already stay as they
 * are. It has failed when there was something to add and nothing could be.
 */
export async function importMcpServers(
  cli: Cli,
  path: string,
  add: (key: string, entry: object) => Promise<unknown>,
): Promise<number> {
  const added = new Set<string>();
  const reasons = new Map<string, string>();
  const places = new Map<string, string>();
  let isRefused = false;
  for (const { key, entry, place } of await readServers(path)) {
    const first = places.get(key);
    if (first !== undefined) {
      reasons.set(`${place}.${key}`, `It stands under "${first}" too, and that one counts.`);
      continue;
    }
    places.set(key, place);
    try {
      await add(key, entry);
      added.add(key);
    } catch (thrown) {
      if (!(thrown instanceof CliError) || thrown.code === "no_server") throw thrown;
      isRefused ||= thrown.code !== "mcp_server_exists";
      reasons.set(key, thrown.message);
    }
  }
  if (cli.json) cli.printJson({ added: [...added], skipped: Object.fromEntries(reasons) });
  else {
    cli.talk(added.size === 0 ? "Nothing was added." : `Added: ${[...added].map(oneLine).join(", ")}`);
    for (const [key, reason] of reasons) {
      cli.talk(`${oneLine(key)} is left out: ${oneLine(reason)}`);
    }
  }
  return added.size === 0 && isRefused ? exitCodes.failure : exitCodes.ok;
}

interface FoundServer {
  readonly key: string;
  readonly entry: object;
  /** The key of the list that it stands in. */
  readonly place: string;
}

async function readServers(path: string): Promise<readonly FoundServer[]> {
  const text = await readFile(path, "utf8").catch((error: Error) => {
    throw new CliError(`${path} cannot be read: ${error.message}`, { code: "unreadable_file" });
  });
  const { parseJsonc } = await import("../../helpers/jsonc.ts");
  let document: unknown;
  try {
    document = parseJsonc(text);
  } catch (thrown) {
    throw new CliError(`${path} is not valid JSON: ${(thrown as Error).message}`, { code: "invalid_file" });
  }
  const servers = serversOf(document);
  if (servers !== undefined) return servers;
  throw new CliError(
    `${path} names no MCP servers. They stand in an object under "mcpServers" (most programs), "servers" or "mcp": { "servers" } (VS Code), or "context_servers" (Zed).`,
    { code: "invalid_file" },
  );
}

/** Wherever the program that wrote the file keeps them; undefined when it has no place for them. */
function serversOf(document: unknown): FoundServer[] | undefined {
  if (!isRecord(document)) return undefined;
  const { mcpServers, servers, mcp, context_servers } = document;
  const lists = {
    mcpServers,
    servers,
    "mcp.servers": isRecord(mcp) ? mcp.servers : undefined,
    context_servers,
  };
  const found = Object.entries(lists).filter(([, list]) => isRecord(list));
  if (found.length === 0) return undefined;
  return found.flatMap(([place, list]) =>
    // What is no entry is refused like any other that is wrong, with the reason.
    Object.entries(list as Record<string, object>).map(([key, given]) => {
      const entry = place === "context_servers" ? fromZed(given) : given;
      return { key, entry, place };
    }),
  );
}

/** Zed once had the command and what belongs to it in an object of its own. */
function fromZed(entry: unknown): object {
  if (!isRecord(entry) || !isRecord(entry.command)) return entry as object;
  const { path, args, env } = entry.command;
  return {
    ...entry,
    command: path,
    ...(args === undefined ? {} : { args }),
    ...(env === undefined ? {} : { env }),
  };
}

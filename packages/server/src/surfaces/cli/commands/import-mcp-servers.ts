import { readFile } from "node:fs/promises";
import { isRecord } from "../../../json/is-record.ts";
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
  const added: string[] = [];
  const skipped: Record<string, string> = {};
  let isRefused = false;
  for (const [key, entry] of Object.entries(await readServers(path))) {
    try {
      await add(key, entry);
      added.push(key);
    } catch (thrown) {
      if (!(thrown instanceof CliError) || thrown.code === "no_server") throw thrown;
      isRefused ||= thrown.code !== "mcp_server_exists";
      skipped[key] = thrown.message;
    }
  }
  if (cli.json) cli.printJson({ added, skipped });
  else {
    cli.talk(added.length === 0 ? "Nothing was added." : `Added: ${added.map(oneLine).join(", ")}`);
    for (const [key, reason] of Object.entries(skipped)) {
      cli.talk(`${oneLine(key)} is left out: ${oneLine(reason)}`);
    }
  }
  return added.length === 0 && isRefused ? exitCodes.failure : exitCodes.ok;
}

async function readServers(path: string): Promise<Record<string, object>> {
  const text = await readFile(path, "utf8").catch((error: Error) => {
    throw new CliError(`${path} cannot be read: ${error.message}`, { code: "unreadable_file" });
  });
  const { parseJsonc } = await import("../../../text/parse-jsonc.ts");
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

/** Wherever the program that wrote the file keeps them. */
function serversOf(document: unknown): Record<string, object> | undefined {
  if (!isRecord(document)) return undefined;
  const { mcpServers, servers, mcp, context_servers: zed } = document;
  const found = [mcpServers, servers, isRecord(mcp) ? mcp.servers : undefined].find(isRecord);
  // What is no entry is refused like any other that is wrong, with the reason.
  if (found !== undefined) return found as Record<string, object>;
  if (!isRecord(zed)) return undefined;
  return Object.fromEntries(Object.entries(zed).map(([key, entry]) => [key, fromZed(entry)]));
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

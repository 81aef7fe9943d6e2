import { lstat, readFile } from "node:fs/promises";
import { isRecord } from "../../../json/is-record.ts";
import { parseJsonc } from "../../../text/parse-jsonc.ts";
import { problemOfKey } from "./problem-of-key.ts";
import { readServerEntry, type ServerEntry } from "./server-entry.ts";

/** What a file said. A broken entry does not keep the others from being used. */
export interface McpFile {
  readonly entries: ReadonlyMap<string, ServerEntry>;
  /** What is wrong with the others, by key. */
  readonly problems: ReadonlyMap<string, string>;
  /** Those of the others whose key is one. */
  readonly invalid: ReadonlyMap<string, { readonly given: unknown; readonly reason: string }>;
}

const nothing: McpFile = { entries: new Map(), problems: new Map(), invalid: new Map() };

/** Reads an `mcp.json`; empty when there is none. Throws when the file as a whole cannot be read. */
export async function readMcpFile(path: string): Promise<McpFile> {
  const text = await readFile(path, "utf8").catch(async (error: NodeJS.ErrnoException) => {
    // A link to a file that is not there is no file that was taken away: while the file is replaced, it is just that.
    if (error.code === "ENOENT" && (await lstat(path).catch(() => undefined)) === undefined) return undefined;
    throw new Error(`${path} cannot be read: ${error.message}`);
  });
  if (text === undefined) return nothing;
  return toMcpFile(parse(text, path), path);
}

/**
 * The servers of a parsed file, in the form of most clients (`mcpServers`) or that of VS Code (`servers`). Where it has
 * both, they are taken together, and of two with one key the first counts.
 */
export async function toMcpFile(document: unknown, path: string): Promise<McpFile> {
  const { mcpServers, servers } = isRecord(document) ? document : {};
  const listed = mcpServers ?? servers;
  if (listed === undefined && isRecord(document) && Object.keys(document).length === 0) return nothing;
  if (!isRecord(listed)) {
    throw new Error(`${path} has no servers. It must be an object with "mcpServers": { "name": { … } }.`);
  }
  const entries = new Map<string, ServerEntry>();
  const problems = new Map<string, string>();
  const invalid = new Map<string, { readonly given: unknown; readonly reason: string }>();
  const isSecond = listed !== servers && servers !== undefined && servers !== null;
  const others = isSecond && isRecord(servers) ? servers : {};
  if (isSecond && !isRecord(servers)) {
    problems.set("servers", `"servers" of ${path} is no object, and is left out.`);
  }
  for (const key of Object.keys(others)) {
    if (!Object.hasOwn(listed, key)) continue;
    const twice = `The entry "${key}" of ${path} stands under "mcpServers" and under "servers". The one under "mcpServers" counts. Take out the other.`;
    problems.set(`servers.${key}`, twice);
  }
  const all = new Map([...Object.entries(others), ...Object.entries(listed)]);
  for (const [key, given] of all) {
    const wrongKey = problemOfKey(key);
    try {
      if (wrongKey !== undefined) throw new Error(wrongKey);
      entries.set(key, await readServerEntry(given));
    } catch (thrown) {
      const reason = `The entry "${key}" of ${path} is not valid. ${(thrown as Error).message}`;
      problems.set(key, reason);
      if (wrongKey === undefined) invalid.set(key, { given, reason });
    }
  }
  return { entries, problems, invalid };
}

function parse(text: string, path: string): unknown {
  try {
    return parseJsonc(text);
  } catch (thrown) {
    throw new Error(`${path} is not valid JSON: ${(thrown as Error).message}`);
  }
}

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { reasonOf } from "../../helpers/values.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes } from "../cli-error.ts";
import { oneLine } from "../text.ts";
import type { FoundServer } from "./gateway-imports.ts";
import { knownPlaces, serversIn } from "./mcp-server-files.ts";

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
  const notes: Record<string, readonly string[]> = {};
  let isRefused = false;
  for (const { key, entry, place, problem, notes: own = [] } of await readServers(cli, path)) {
    const first = places.get(key);
    if (first !== undefined) {
      reasons.set(`${place}.${key}`, `It stands under "${first}" too, and that one counts.`);
      continue;
    }
    places.set(key, place);
    if (problem !== undefined) {
      isRefused = true;
      reasons.set(key, problem);
      continue;
    }
    try {
      await add(key, entry);
      added.push(key);
      if (own.length > 0) notes[key] = own;
    } catch (thrown) {
      if (!(thrown instanceof CliError) || thrown.code === "no_server") throw thrown;
      isRefused ||= thrown.code !== "mcp_server_exists";
      reasons.set(key, thrown.message);
    }
  }
  cli.answer({ added, skipped: Object.fromEntries(reasons), notes }, () => {
    cli.talk(added.length === 0 ? "Nothing was added." : `Added: ${added.map(oneLine).join(", ")}`);
    for (const [key, own] of Object.entries(notes))
      for (const note of own) cli.talk(`${oneLine(key)}: ${oneLine(note.replace("KEY", key))}`);
    for (const [key, reason] of reasons) cli.talk(`${oneLine(key)} is left out: ${oneLine(reason)}`);
  });
  if (added.length === 0 && isRefused) cli.exitCode = exitCodes.failure;
}

async function readServers(cli: Cli, path: string): Promise<readonly FoundServer[]> {
  const text = await readFile(resolve(cli.cwd, path), "utf8").catch((error: Error) => {
    throw new CliError(`${path} cannot be read: ${error.message}`, { code: "unreadable_file" });
  });
  const [form, parse] = await parserOf(path);
  let document: unknown;
  try {
    document = parse(text);
  } catch (thrown) {
    const reason = reasonOf(thrown);
    throw new CliError(`${path} is not valid ${form}: ${reason}`, { code: "invalid_file" });
  }
  const servers = serversIn(document);
  if (servers !== undefined) return servers;
  throw new CliError(`${path} names no MCP servers. They stand under ${knownPlaces}.`, {
    code: "invalid_file",
  });
}

/**
 * Chooses the parser by the file's ending. The TOML and YAML parsers are imported here, because most files are
 * JSON.
 */
async function parserOf(path: string): Promise<readonly [form: string, parse: (text: string) => unknown]> {
  if (/\.toml$/i.test(path)) {
    const { getStaticTOMLValue, parseTOML } = await import("toml-eslint-parser");
    return ["TOML", (text) => getStaticTOMLValue(parseTOML(text))];
  }
  if (/\.ya?ml$/i.test(path)) return ["YAML", (await import("yaml")).parse];
  const { parseJsonc } = await import("../../helpers/index.ts");
  return ["JSON", parseJsonc];
}

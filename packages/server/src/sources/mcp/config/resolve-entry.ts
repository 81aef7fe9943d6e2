import { readFile } from "node:fs/promises";
import { isAbsolute, resolve } from "node:path";
import { parseEnv } from "node:util";
import { expand, expandAll, type Surroundings } from "./expand.ts";
import { isLocal, type ServerEntry } from "./server-entry.ts";

/** An entry that can be acted on: every variable replaced, every path absolute. */
export type ResolvedEntry = {
  /** Folders, as addresses, that the server is told of when it asks outside a call. */
  readonly roots: readonly string[];
} & (
  | {
      readonly kind: "process";
      /** Undefined: the program of the installed package. */
      readonly command: string | undefined;
      readonly args: readonly string[];
      /** All of it: nothing else of this process's environment is handed on. */
      readonly env: Readonly<Record<string, string>>;
      readonly cwd: string;
      readonly install: string | undefined;
    }
  | {
      readonly kind: "address";
      readonly url: URL;
      readonly headers: Readonly<Record<string, string>>;
      /** Undefined: to be found out. */
      readonly type: "http" | "sse" | undefined;
    }
);

/** What every program needs to run at all. Nothing in here is a secret. */
export const basics: readonly string[] =
  process.platform === "win32"
    ? [
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
      ]
    : ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL", "TERM"];

/**
 * Replaces the variables of an entry. `where` begins what a message says about a key: the file or table, and the
 * server. Throws an `Error` that names the key.
 */
export async function resolveEntry(
  entry: ServerEntry,
  where: string,
  surroundings: Surroundings,
): Promise<ResolvedEntry> {
  const { directory, environment } = surroundings;
  const one = (text: string, key: string) => expand(text, `${where}.${key}`, surroundings);
  const roots = await expandAll(entry.toolrack?.roots ?? [], `${where}.toolrack.roots`, surroundings);
  if (!isLocal(entry)) {
    const address = await one(entry.url ?? "", "url");
    const url = URL.parse(address);
    if (url === null || !/^https?:$/.test(url.protocol)) {
      throw new Error(`${where}.url is no address that begins with http:// or https://.`);
    }
    const own = await expandAll(entry.headers ?? {}, `${where}.headers`, surroundings);
    const headers = { ...own, ...takeCredentials(url, own, where) };
    return { kind: "address", roots, url, headers, type: entry.type === "stdio" ? undefined : entry.type };
  }
  const file =
    entry.envFile === undefined
      ? {}
      : await readEnvFile(await one(entry.envFile, "envFile"), where, directory);
  const own = await expandAll(entry.env ?? {}, `${where}.env`, surroundings);
  const inherited = basics.flatMap((name) => {
    const value = environment[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    kind: "process",
    roots,
    command: entry.command === undefined ? undefined : await one(entry.command, "command"),
    args: await expandAll(entry.args ?? [], `${where}.args`, surroundings),
    env: { ...Object.fromEntries(inherited), ...file, ...own },
    cwd: resolve(directory, entry.cwd === undefined ? "." : await one(entry.cwd, "cwd")),
    install: entry.toolrack?.install,
  };
}

/** A request cannot be made to an address with credentials in it: they are taken out, and sent as HTTP has them sent. */
function takeCredentials(
  url: URL,
  headers: Readonly<Record<string, string>>,
  where: string,
): Readonly<Record<string, string>> {
  const { username, password } = url;
  if (username === "" && password === "") return {};
  if (Object.keys(headers).some((name) => /^authorization$/i.test(name))) {
    throw new Error(`${where} has credentials in its url and an Authorization header. Keep one of them.`);
  }
  url.username = "";
  url.password = "";
  const pair = `${plain(username)}:${plain(password)}`;
  return { Authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
}

/** What is written with a lone percent sign is meant as it stands. */
function plain(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function readEnvFile(path: string, where: string, directory: string): Promise<Record<string, string>> {
  const place = isAbsolute(path) ? path : resolve(directory, path);
  const text = await readFile(place, "utf8").catch((error: Error) => {
    throw new Error(`${where}.envFile cannot be read: ${error.message}`);
  });
  // Node types the values as possibly missing; it only lists those that are there.
  return parseEnv(text) as Record<string, string>;
}

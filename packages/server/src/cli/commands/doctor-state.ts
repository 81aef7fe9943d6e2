import { existsSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { EncryptionKey, grantOf, osKeyring } from "../../access/index.ts";
import { isRecord, reasonOf, shellQuote } from "../../helpers/index.ts";
import { isAlive, readServerAddress } from "../../helpers/server-address.ts";
import type { App } from "../../rack/index.ts";
import { ownEntries } from "../../rack/index.ts";
import type { Cli } from "../cli.ts";

const engines = { sqlite: "SQLite", postgres: "PostgreSQL", mysql: "MySQL or MariaDB" } as const;

/** Checks that the store of calls, tokens and secrets answers. */
export async function checkStore(cli: Cli, app: App): Promise<Check> {
  const file = join(ownFolderOf(app), "toolrack.db");
  const url = process.env.DATABASE_URL ?? "";
  if (url === "" && !existsSync(file)) {
    return { name: "store", status: "ok", message: `SQLite; ${file} is made when it is first needed` };
  }
  const { databaseProblems } = await import("../../store/index.ts");
  const [problem] = url === "" ? await databaseProblems(file, true) : [];
  if (problem !== undefined) {
    const remedy = `Stop what uses the workspace, then save what can be read: ${cli.programWords} doctor --repair --dir ${shellQuote(app.workspace.directory)}`;
    return { name: "store", status: "fail", message: `${file} is damaged: ${problem}`, remedy };
  }
  const remedy =
    url === ""
      ? "Let this user read and write it, or bring a copy of it back."
      : "Check DATABASE_URL, and that the database is up.";
  return attempt("store", "fail", remedy, async () => {
    const store = await app.store();
    await store.calls.list({ limit: 1 });
    return `${engines[store.engine]}, ${url === "" ? file : placeOf(url)}`;
  });
}

/** Bytes of free disk space below which the check fails. */
const LITTLE_ROOM = 4 * 1024 * 1024;

/** Checks the free disk space. */
export async function checkDisk(app: App): Promise<Check> {
  const remedy = "Make room: records of calls and lines of the log cannot be written without.";
  return attempt("disk", "fail", remedy, async () => {
    const { bavail, bsize } = await statfs(app.workspace.directory);
    const free = `${Math.floor((bavail * bsize) / 1024 / 1024)} MiB free`;
    if (bavail * bsize < LITTLE_ROOM) throw new Error(`${free} where the workspace is`);
    return free;
  });
}

const HEALTH_TIMEOUT = 5_000;

/** Checks whether the running server of the workspace can record calls. */
export async function checkServer(app: App): Promise<Check> {
  const address = await readServerAddress(app.workspace.directory);
  if (address === undefined || !isAlive(address))
    return { name: "server", status: "ok", message: "none runs" };
  const remedy = "Its log says more. It goes on by itself when the cause is gone.";
  try {
    const response = await fetch(`${address.url}/readyz`, {
      redirect: "error",
      signal: AbortSignal.timeout(HEALTH_TIMEOUT),
    });
    // The cast is safe: the API documents this shape, and all members are optional.
    const answer = (await response.json()) as {
      status?: string;
      message?: string;
      error?: { message: string };
    };
    const message = `${address.url}: ${answer.status ?? "not ready"}`;
    if (answer.status === "ready") return { name: "server", status: "ok", message };
    const status = answer.status === "degraded" ? "warn" : "fail";
    return {
      name: "server",
      status,
      message: `${message}. ${answer.message ?? answer.error?.message}`,
      remedy,
    };
  } catch (thrown) {
    const message = `${address.url} does not answer: ${thrown instanceof Error ? thrown.message : thrown}`;
    return { name: "server", status: "warn", message, remedy: "Start it again." };
  }
}

/** Checks the key that encrypts secrets. */
export async function checkKey(app: App): Promise<Check> {
  const folder = ownFolderOf(app);
  if (!existsSync(join(folder, "key"))) {
    const place = (await hasKeyring()) ? "the keyring of the system" : "a file, as there is no keyring here";
    return { name: "key", status: "ok", message: `none yet; the first secret makes one, in ${place}` };
  }
  return attempt("key", "fail", "Secrets cannot be read without it.", async () => {
    let isInKeyring = false;
    await new EncryptionKey(folder, () => {
      isInKeyring = true;
      return osKeyring();
    }).read();
    return isInKeyring ? "in the keyring of the system" : join(folder, "key");
  });
}

/** Checks that only its owner can read the workspace's token. */
export async function checkToken(app: App): Promise<Check> {
  const file = join(ownFolderOf(app), "token");
  const mode = statSync(file, { throwIfNoEntry: false })?.mode;
  if (mode === undefined) {
    return { name: "token", status: "ok", message: "none yet; the first start of the server makes one" };
  }
  // Windows has no such mode; there the folder's rights decide.
  if (process.platform === "win32") return { name: "token", status: "ok", message: file };
  const digits = (mode & 0o777).toString(8);
  if ((mode & 0o077) === 0) return { name: "token", status: "ok", message: `${file}, mode ${digits}` };
  const message = `${file} can be read by others: its mode is ${digits}`;
  return { name: "token", status: "warn", message, remedy: `Close it: chmod 600 ${file}` };
}

const answering = {
  client: "MCP clients answer questions about calls over stdio, and over HTTP with a token that may approve",
  stdio: "MCP clients answer questions about calls over stdio only",
  inbox: "no MCP client answers questions about calls",
} as const;

/** Reports who may approve dangerous calls, beside the operator. */
export async function checkApprovals(app: App): Promise<Check> {
  const { approvals = "client" } = app.config.mcp ?? {};
  return attempt("approvals", "warn", "See the check of the store.", async () => {
    const tokens = hasStore(app) ? await (await app.store()).tokens.list() : [];
    const approvers = tokens.filter((token) => grantOf(token).isApprover).map(({ name }) => name);
    const others = approvers.length === 0 ? "no token but the workspace's own" : approvers.join(", ");
    return `${answering[approvals]} (mcp.approvals: ${approvals}); all others wait in the inbox. May approve: ${others}`;
  });
}

/** Finds entries of MCP servers that point to this rack itself. */
export async function checkOwnEntries(app: App): Promise<Check[]> {
  const rows = hasStore(app) ? await storedEntries(app) : [];
  return (await ownEntries(app, rows)).map(({ key, place, problem }): Check => {
    const where = place ?? `the server: toolrack mcp-servers remove ${key}`;
    const remedy = `It is not started. Remove it from ${where}`;
    return { name: "mcp-servers", status: "fail", message: `"${key}": ${problem}`, remedy };
  });
}

/** Empty when the store cannot be read; another check reports that. */
async function storedEntries(app: App) {
  return app.store().then(
    ({ mcpServers }) => mcpServers.list(),
    () => [],
  );
}

function hasStore(app: App): boolean {
  return (process.env.DATABASE_URL ?? "") !== "" || existsSync(join(ownFolderOf(app), "toolrack.db"));
}

async function hasKeyring(): Promise<boolean> {
  try {
    const keyring = await osKeyring();
    await keyring?.read("doctor");
    return keyring !== undefined;
  } catch {
    return false;
  }
}

/** The address without user and password. */
function placeOf(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

function ownFolderOf({ workspace }: App): string {
  return join(workspace.directory, ".toolrack");
}

/** The result of one check. `warn`: something does less than it could; `fail`: something does not work. */
export interface Check {
  readonly name: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  /** What to do about the problem. */
  readonly remedy?: string;
}

export async function attempt(
  name: string,
  otherwise: "warn" | "fail",
  remedy: string,
  check: () => Promise<string>,
): Promise<Check> {
  try {
    return { name, status: "ok", message: await check() };
  } catch (thrown) {
    const message = reasonOf(thrown);
    const isMissing = isRecord(thrown) && thrown.code === "ENOENT" && otherwise === "warn";
    return { name, status: otherwise, message: isMissing ? "not installed" : message, remedy };
  }
}

import { randomBytes } from "node:crypto";
import { chmod, link, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeOwnFolder } from "../host/make-own-folder.ts";

const SHORTEST = 16;

/**
 * The workspace's own token, made at the first start and kept where only its owner can read it. Two servers that
 * start at once agree on one.
 */
export async function ensureMasterToken(workspace: string): Promise<string> {
  const folder = join(workspace, ".toolrack");
  const file = join(folder, "token");
  const existing = await readToken(file);
  if (existing !== undefined) return existing;
  makeOwnFolder(folder);
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
    // Unlike a rename, a link never replaces the token that another process has just made.
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
  const token = await readToken(file);
  if (token === undefined) throw new Error(`The token file ${file} vanished while it was being made.`);
  return token;
}

/** Undefined when none has been made yet, or it cannot be read. Changes nothing. */
export async function readMasterToken(workspace: string): Promise<string | undefined> {
  const text = await readFile(join(workspace, ".toolrack", "token"), "utf8").catch(() => "");
  return text.trim() || undefined;
}

async function readToken(file: string): Promise<string | undefined> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const token = text.trim();
  if (token.length < SHORTEST || /\s/.test(token)) {
    throw new Error(
      `${file} holds no usable token: at least ${SHORTEST} characters without spaces. Delete it, and the next start makes a new one.`,
    );
  }
  await closeToOthers(file);
  return token;
}

async function closeToOthers(file: string): Promise<void> {
  const { mode } = await stat(file);
  // Windows keeps no such mode: there the folder's own rights decide.
  if (process.platform === "win32" || (mode & 0o077) === 0) return;
  await chmod(file, 0o600);
}

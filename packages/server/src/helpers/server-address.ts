import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { readFleetVariable, replaceFile } from "./private-files.ts";

/** The address of a workspace's server, for commands that talk to it. */
export interface ServerAddress {
  readonly url: string;
  readonly pid: number;
  /** Where the workspace lies, and the inode of its `.toolrack`. A copy of the folder has neither, a moved folder the inode. */
  readonly workspace?: string;
  readonly inode?: number;
}

/** The address of the newest server, and of earlier ones that may still run. */
interface AddressFile extends ServerAddress {
  readonly others?: readonly ServerAddress[];
}

/**
 * Writes the address to a file that only this user can read. Returns a function that removes the address
 * again; commands then talk to the newest earlier server that still runs.
 */
export async function writeServerAddress(workspace: string, url: string): Promise<() => Promise<void>> {
  const own: ServerAddress = { url, pid: process.pid, workspace, inode: await inodeOf(workspace) };
  await writeAddresses(workspace, [own, ...(await readAddresses(workspace)).filter(isAlive)]);
  return async () => {
    const others = (await readAddresses(workspace)).filter(
      (one) => one.url !== own.url || one.pid !== own.pid,
    );
    await writeAddresses(workspace, others.filter(isAlive));
  };
}

/** Undefined when there is no address. A killed server leaves its address behind. */
export async function readServerAddress(workspace: string): Promise<ServerAddress | undefined> {
  return (await readAddresses(workspace))[0];
}

/** Whether a process with this id exists. It may be another program by now. */
export function isAlive({ pid }: Pick<ServerAddress, "pid">): boolean {
  try {
    return process.kill(pid, 0);
  } catch (thrown) {
    // The process exists and belongs to another user.
    return (thrown as NodeJS.ErrnoException).code === "EPERM"; // `kill` throws nothing else.
  }
}

async function readAddresses(workspace: string): Promise<ServerAddress[]> {
  try {
    const { others = [], ...newest }: AddressFile = JSON.parse(await readFile(fileOf(workspace), "utf8"));
    const written = [newest, ...others].filter(
      ({ url, pid }) => typeof url === "string" && typeof pid === "number",
    );
    // Whoever copies a workspace while its server runs copies the address too. That server is not the copy's.
    const here = await inodeOf(workspace);
    return written.filter(
      (one) => one.inode === undefined || one.inode === here || one.workspace === workspace,
    );
  } catch {
    return [];
  }
}

async function writeAddresses(
  workspace: string,
  [newest, ...others]: readonly ServerAddress[],
): Promise<void> {
  const file = fileOf(workspace);
  if (newest === undefined) return rm(file, { force: true });
  const content: AddressFile = { ...newest, ...(others.length === 0 ? {} : { others }) };
  // A new file has the right mode, whatever mode an old one had.
  await replaceFile(file, `${JSON.stringify(content)}\n`, 0o600);
}

async function inodeOf(workspace: string): Promise<number> {
  return (await stat(dirname(fileOf(workspace)))).ino;
}

function fileOf(workspace: string): string {
  return join(workspace, ".toolrack", "server.json");
}

/**
 * The protocol, in the sense of HTTP's `Upgrade`, by which a stdio client joins a running server at `/mcp`: from then on
 * the connection carries the lines of the client and of the server, as standard input and output would.
 */
export const joinProtocol = "toolrack-stdio";

/** Returns undefined when there is no token yet, or it cannot be read. Changes nothing. */
export async function readMasterToken(workspace: string): Promise<string | undefined> {
  const given = await readFleetVariable("TOOLRACK_OPERATOR_TOKEN").catch(() => undefined);
  if (given !== undefined) return given;
  const text = await readFile(join(workspace, ".toolrack", "token"), "utf8").catch(() => "");
  return text.trim() || undefined;
}

/** A challenge for a program that claims to be the server: different each time, so that no reply can be used again. */
export function newNonce(): string {
  return randomBytes(24).toString("base64url");
}

/**
 * Proves that the server knows the workspace's token without showing it. The port is part of the proof, so that a
 * program on another port cannot pass on the server's own reply.
 */
export function serverProof(token: string, port: number, nonce: string): string {
  return createHmac("sha256", token).update(`toolrack server\n${port}\n${nonce}`).digest("base64url");
}

export function isServerProof(given: unknown, token: string, port: number, nonce: string): boolean {
  if (typeof given !== "string") return false;
  const [one, other] = [Buffer.from(given), Buffer.from(serverProof(token, port, nonce))];
  return one.length === other.length && timingSafeEqual(one, other);
}

import { randomBytes } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Where the server of a workspace is, for commands that talk to it. */
export interface ServerAddress {
  readonly url: string;
  readonly pid: number;
}

/** The newest server's, with those that were there before it. */
interface Note extends ServerAddress {
  readonly others?: readonly ServerAddress[];
}

/**
 * Notes the address where only this user can read it. Answers how to take the note away again: then the one of a server
 * that was there before, and still runs, is back.
 */
export async function writeServerAddress(workspace: string, url: string): Promise<() => Promise<void>> {
  const own: ServerAddress = { url, pid: process.pid };
  await writeNote(workspace, [own, ...(await readNote(workspace)).filter(isAlive)]);
  return async () => {
    const others = (await readNote(workspace)).filter((one) => one.url !== own.url || one.pid !== own.pid);
    await writeNote(workspace, others.filter(isAlive));
  };
}

/** Undefined when no server noted one. A server that was killed leaves its own behind. */
export async function readServerAddress(workspace: string): Promise<ServerAddress | undefined> {
  return (await readNote(workspace))[0];
}

/** Whether there is such a process; it need not be the one that wrote the note. */
export function isAlive({ pid }: Pick<ServerAddress, "pid">): boolean {
  try {
    return process.kill(pid, 0);
  } catch (thrown) {
    // It is there, and belongs to somebody else.
    return (thrown as NodeJS.ErrnoException).code === "EPERM"; // `kill` throws nothing else.
  }
}

async function readNote(workspace: string): Promise<ServerAddress[]> {
  try {
    const { others = [], ...newest }: Note = JSON.parse(await readFile(fileOf(workspace), "utf8"));
    return [newest, ...others].filter(({ url, pid }) => typeof url === "string" && typeof pid === "number");
  } catch {
    return [];
  }
}

async function writeNote(workspace: string, [newest, ...others]: readonly ServerAddress[]): Promise<void> {
  const file = fileOf(workspace);
  if (newest === undefined) return rm(file, { force: true });
  const note: Note = { ...newest, ...(others.length === 0 ? {} : { others }) };
  // A file that a killed server left may be of any mode; a new one is not. And nobody reads half of it.
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  await writeFile(draft, `${JSON.stringify(note)}\n`, { mode: 0o600, flag: "wx" });
  await rename(draft, file);
}

function fileOf(workspace: string): string {
  return join(workspace, ".toolrack", "server.json");
}

import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Where the server of a workspace is, for commands that talk to it. */
export interface ServerAddress {
  readonly url: string;
  readonly pid: number;
}

/** Notes the address where only this user can read it. Answers how to take the note away again. */
export async function writeServerAddress(workspace: string, url: string): Promise<() => Promise<void>> {
  const file = fileOf(workspace);
  const address: ServerAddress = { url, pid: process.pid };
  // A file that a killed server left may be of any mode; a new one is not.
  await rm(file, { force: true });
  await writeFile(file, `${JSON.stringify(address)}\n`, { mode: 0o600 });
  return async () => {
    // Another server may have been started on the same workspace since.
    if ((await readServerAddress(workspace))?.pid === process.pid) await rm(file, { force: true });
  };
}

/** Undefined when no server noted one. A server that was killed leaves its own behind. */
export async function readServerAddress(workspace: string): Promise<ServerAddress | undefined> {
  try {
    const { url, pid } = JSON.parse(await readFile(fileOf(workspace), "utf8"));
    return typeof url === "string" && typeof pid === "number" ? { url, pid } : undefined;
  } catch {
    return undefined;
  }
}

function fileOf(workspace: string): string {
  return join(workspace, ".toolrack", "server.json");
}

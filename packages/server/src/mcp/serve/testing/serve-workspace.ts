import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, readFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { temporaryFolder } from "../../../testing/temporary-folder.ts";

const main = resolve(import.meta.dirname, "../../../main.ts");

/** The command that runs the real program. */
export const program: readonly string[] = [process.execPath, "--conditions=toolrack-source", main];

/** The workspace with the tools that the conformance suite calls. */
export const conformanceWorkspace = join(import.meta.dirname, "conformance");

export interface ServedWorkspace {
  readonly directory: string;
  readonly url: string;
  readonly token: string;
  readonly process: ChildProcess;
  close(): Promise<void>;
}

/** Copies a workspace, because the server writes into its folder. */
export async function copyWorkspace(source: string): Promise<string> {
  const directory = temporaryFolder();
  await cp(source, directory, { recursive: true });
  return directory;
}

/** Runs `toolrack serve` on a copy of the workspace. */
export async function serveWorkspace(source: string): Promise<ServedWorkspace> {
  const directory = await copyWorkspace(source);
  const [node, ...words] = program;
  const child = spawn(node!, [...words, "serve", "--dir", directory, "--port", "0"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const url = await new Promise<string>((found, reject) => {
    let said = "";
    const listen = (text: string) => {
      said += text;
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
      if (address !== undefined) found(address);
    };
    child.stdout.setEncoding("utf8").on("data", listen);
    child.stderr.setEncoding("utf8").on("data", listen);
    child.on("exit", (code) => reject(new Error(`The server ended with ${code}: ${said}`)));
  });
  return {
    directory,
    url,
    token: (await readFile(join(directory, ".toolrack/token"), "utf8")).trim(),
    process: child,
    async close() {
      child.kill();
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      await rm(directory, { recursive: true, force: true });
    },
  };
}

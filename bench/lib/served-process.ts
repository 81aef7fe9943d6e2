import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A server in a process of its own. */
export interface ServedProcess {
  readonly process: ChildProcess;
  readonly url: string;
  readonly token: string;
}

const tool = `import { Tool } from "@toolrack/core";
export const add = Tool.define({
  name: "add",
  description: "Adds one to a number.",
  parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
  execute: async ({ input }) => String(input.n + 1),
});
`;

/** `toolrack serve` on a workspace with one small tool. */
export async function startRack(
  directory: string,
  config: object = { builtins: false },
): Promise<ServedProcess> {
  await mkdir(join(directory, "tools"), { recursive: true });
  await writeFile(join(directory, "package.json"), '{ "type": "module" }');
  await writeFile(join(directory, "toolrack.config.js"), `export default ${JSON.stringify(config)};`);
  await writeFile(join(directory, "tools/add.ts"), tool);
  const main = fileURLToPath(new URL("../../packages/server/src/main.ts", import.meta.url));
  const words = ["--conditions=toolrack-source", main, "serve", "--port", "0", "--json", "--no-watch"];
  const server = spawn(process.execPath, words, { cwd: directory, stdio: ["ignore", "pipe", "inherit"] });
  const line = await firstLine(server);
  const token = readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
  return { process: server, url: JSON.parse(line).url, token };
}

/** A program of ours that prints its address when it is ready. */
export async function startProgram(words: readonly string[]): Promise<ServedProcess> {
  const server = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
  return { process: server, url: await firstLine(server), token: "none" };
}

async function firstLine(server: ChildProcess): Promise<string> {
  const ended = once(server, "exit").then(([code]) => {
    throw new Error(`the server ended before it was ready (code ${code})`);
  });
  // Only the race asks how it ended.
  ended.catch(() => {});
  // A line event carries exactly the line.
  const [line] = (await Promise.race([once(createInterface(server.stdout!), "line"), ended])) as [string];
  // The server shows every call; a full pipe would hold it up.
  server.stdout!.resume();
  return line;
}

/** `getconf CLK_TCK` is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

/** Seconds of CPU that a process has used, by user and system. */
export function cpuOf(pid: number): number {
  // The name of the program may hold spaces; what follows it does not.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** The same of all threads that there are: to the nanosecond, where `cpuOf` counts hundredths of a second. */
export function threadsCpuOf(pid: number): number {
  const nanoseconds = readdirSync(`/proc/${pid}/task`).map((id) => {
    try {
      return Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, "utf8").split(" ")[0]);
    } catch {
      return 0; // It has just ended.
    }
  });
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e9;
}

/** Megabytes. */
export function memoryOf(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kilobytes) / 1024;
}

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { whenClosed } from "./process-tree.ts";

const started = (command: string): ChildProcess =>
  spawn("sh", ["-c", command], { stdio: ["pipe", "pipe", "pipe", "pipe"] });
const closed = (child: ChildProcess) =>
  new Promise((resolve) => whenClosed(child, (exitCode, signal) => resolve([exitCode, signal])));

test.skipIf(process.platform === "win32")(
  "what a process says last is read before it counts as gone",
  async () => {
    const child = started("echo last words; exit 3");
    let said = "";
    child.stdout?.on("data", (chunk) => {
      said += chunk;
    });
    expect(await closed(child)).toEqual([3, null]);
    expect(said).toBe("last words\n");
  },
);

test.skipIf(process.platform === "win32")(
  "one that leaves another behind that holds its streams is gone all the same, and the other learns of it",
  async () => {
    // It reads a stream of its parent until that is closed, as a worker does.
    const child = started("{ cat <&3; } >&1 & exit 0");
    const [ended] = await Promise.all([closed(child), once(child, "exit")]);
    expect(ended).toEqual([0, null]);
    expect(child.stdio.every((stream) => stream === null || stream?.destroyed)).toBe(true);
  },
);

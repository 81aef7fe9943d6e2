import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Writes lines to a program, reads lines from it until `isEnough`, closes its input and waits for its end.
 */
export async function spawnLines(
  words: readonly string[],
  messages: readonly (object | string)[],
  isEnough: (lines: readonly string[]) => boolean,
): Promise<{ readonly lines: readonly string[]; readonly errors: string; readonly code: number | null }> {
  const [command, ...args] = words;
  const child = spawn(command!, args, { stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  let errors = "";
  const linesOf = () => output.split("\n").filter((line) => line !== "");
  child.stderr.setEncoding("utf8").on("data", (text) => {
    errors += text;
  });
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
    if (isEnough(linesOf())) child.stdin.end();
  });
  for (const message of messages) {
    child.stdin.write(`${typeof message === "string" ? message : JSON.stringify(message)}\n`);
  }
  const [code] = await once(child, "close");
  return { lines: linesOf(), errors, code };
}

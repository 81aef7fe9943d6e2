import { existsSync, fstatSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

/** The environment variable that passes the two file descriptors to the restarted program. */
const VARIABLE = "TOOLRACK_OWN_STREAMS";

/**
 * Starts this program again in the same process, with descriptors of its own for the streams to the parent process. Only
 * a program that replaces this one can move descriptors, so a shell does it. Returns where that is impossible.
 */
export function restart(): void {
  const { execve } = process;
  if (process.platform === "win32" || execve === undefined) return;
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const move = 'exec "$@" 4<&0 3>&1 0</dev/null 1>&2';
  // Node would warn that `execve` is experimental, which does not concern the user.
  process.removeAllListeners("warning");
  process.on("warning", () => {});
  execve("/bin/sh", ["sh", "-c", move, "toolrack", ...words], {
    ...(process.env as Record<string, string>), // The environment holds only texts.
    [VARIABLE]: "4,3",
  });
}

/** Whether this program was started again by `restart`. */
export function hasOwnStreams(): boolean {
  return process.env[VARIABLE] !== undefined;
}

/** The descriptors that `restart` has moved, which nobody else is told of. Undefined in a program that was not restarted. */
export function takeDescriptors(): { readonly input: number; readonly output: number } | undefined {
  const [input, output] = process.env[VARIABLE]?.split(",").map(Number) ?? [];
  delete process.env[VARIABLE];
  return Number.isInteger(input) && Number.isInteger(output) ? { input: input!, output: output! } : undefined;
}

/**
 * Restarts `toolrack mcp` before anything else is loaded, if that is what it would do later: no server can be running that
 * it might join. Whoever gives other arguments, or sits at a terminal, may have to be told something first.
 */
export function restartIfAlone(args: readonly string[]): void {
  if (hasOwnStreams() || fstatSync(0).isCharacterDevice()) return;
  let folder = process.cwd();
  for (const words = [...args]; words.length > 0; ) {
    const word = words.shift()!;
    if (word === "--no-watch" || word === "--no-join") continue;
    const value = words.shift();
    if (value === undefined || (word !== "--dir" && word !== "--expert")) return;
    if (word === "--dir") folder = resolve(folder, value);
  }
  // The workspace is the folder or one above it, and a server writes its address there.
  for (; ; folder = dirname(folder)) {
    if (existsSync(join(folder, ".toolrack", "server.json"))) return;
    if (folder === dirname(folder)) break;
  }
  restart();
}

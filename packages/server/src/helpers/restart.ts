import { closeSync, existsSync, fstatSync, openSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join, resolve } from "node:path";

/** The environment variable that passes the two file descriptors to the restarted program. */
const VARIABLE = "TOOLRACK_OWN_STREAMS";

interface Descriptors {
  readonly input: number;
  readonly output: number;
}

/** Sets that a program which this one starts does not get the descriptor. The number differs between systems. */
const CLOSE_AT_EXEC: Partial<Record<NodeJS.Platform, bigint>> = { linux: 0x5451n, darwin: 0x20006601n };

/**
 * Gives the streams to the parent process descriptors of their own, and puts `/dev/null` and standard error in place of 0
 * and 1. Node has no function for it, so it calls those of the C library (1 ms; `restart` takes 40). Undefined where
 * that is impossible: before Node 26, on Windows, and where the operator allows no foreign functions.
 */
export function moveDescriptors(): Descriptors | undefined {
  const closeAtExec = CLOSE_AT_EXEC[process.platform];
  if (closeAtExec === undefined || !isBuiltin("node:ffi")) return undefined;
  const { emitWarning } = process;
  try {
    // Node would warn that foreign functions are experimental, which does not concern the user.
    process.emitWarning = () => {};
    const { dup, dup2, ioctl } = process.getBuiltinModule("node:ffi").dlopen(null, {
      dup: { arguments: ["int32"], return: "int32" },
      dup2: { arguments: ["int32", "int32"], return: "int32" },
      ioctl: { arguments: ["int32", "uint64"], return: "int32" },
    }).functions;
    const input = dup(0);
    const output = dup(1);
    for (const descriptor of [input, output])
      if (descriptor < 0 || ioctl(descriptor, closeAtExec) < 0) return undefined;
    const nothing = openSync("/dev/null", "r");
    if (dup2(nothing, 0) < 0 || dup2(2, 1) < 0) return undefined;
    closeSync(nothing);
    return { input, output };
  } catch {
    return undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

/**
 * Starts this program again in the same process, with descriptors of its own for the streams to the parent process: where
 * this program cannot move them, a shell that replaces it can. Returns where that is impossible too.
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
export function takeDescriptors(): Descriptors | undefined {
  const [input, output] = process.env[VARIABLE]?.split(",").map(Number) ?? [];
  delete process.env[VARIABLE];
  return Number.isInteger(input) && Number.isInteger(output) ? { input: input!, output: output! } : undefined;
}

/**
 * Restarts `toolrack mcp` before anything else is loaded, if that is what it would do later: it cannot move descriptors, and no
 * server can be running that it might join. Whoever gives other arguments, or sits at a terminal, may have to be told something first.
 */
export function restartIfAlone(args: readonly string[]): void {
  if (isBuiltin("node:ffi") || hasOwnStreams() || fstatSync(0).isCharacterDevice()) return;
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

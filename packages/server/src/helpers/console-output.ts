import { createReadStream, createWriteStream } from "node:fs";
import { Socket } from "node:net";
import { type Readable, Writable } from "node:stream";
import { format } from "node:util";
import type { LogLevel } from "@toolrack/core";
import type { logLine } from "@toolrack/core/internal";
import { currentCall } from "./current-call.ts";

const methods = { debug: "debug", log: "info", info: "info", warn: "warn", error: "error" } as const;

let tell: typeof logLine | undefined;

/**
 * Says how a line is told of. Whoever opens a workspace does: imported here, all of core would be loaded by commands that
 * open none, and twice by `mcp`, which starts itself anew.
 */
export function tellConsoleBy(how: typeof logLine): void {
  tell = how;
}

/** What a tool of this process prints by `console` is also a line of its call's log. It is printed as before. */
export function attributeConsole(target: Pick<Console, keyof typeof methods> = console): void {
  // The keys are those of the object above, which `entries` does not say.
  for (const [name, level] of Object.entries(methods) as [keyof typeof methods, LogLevel][]) {
    const print = target[name].bind(target);
    target[name] = (...values: unknown[]) => {
      print(...values);
      const context = currentCall.getStore();
      if (context !== undefined) tell?.(context, level, formatted(values));
    };
  }
}

/** A value may refuse to be looked at, which has not kept it from being printed. */
function formatted(values: readonly unknown[]): string {
  try {
    return format(...values);
  } catch {
    return "[unreadable]";
  }
}

/** Names the two descriptors to the program that takes the place of this one. */
const VARIABLE = "TOOLRACK_OWN_STREAMS";

interface OwnStreams {
  readonly input: Readable;
  readonly output: Writable;
}

/**
 * Streams to whoever started this process that nothing else in it can touch: descriptors 0 and 1, which every tool,
 * library and child process writes to and reads from, are `/dev/null` and the standard error. Descriptors can only be
 * moved by a program that replaces this one, so that a shell does it and starts us again in the same process. Where
 * that cannot be done the usual streams are answered, and only what tools write by `console` and `process.stdout` is
 * kept away, by the process's own protection.
 */
export function ownStreams(print: (text: string) => void): OwnStreams {
  const given = process.env[VARIABLE];
  delete process.env[VARIABLE];
  if (given !== undefined) {
    const [input, output] = given.split(",").map(Number);
    if (Number.isInteger(input) && Number.isInteger(output)) return openStreams(input!, output!);
  }
  const { execve } = process;
  if (process.platform === "win32" || execve === undefined) return usualStreams(print);
  return restart(execve);
}

function restart(execve: NonNullable<typeof process.execve>): never {
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const move = 'exec "$@" 4<&0 3>&1 0</dev/null 1>&2';
  // Node warns of `execve` itself, which is nothing to its user.
  process.removeAllListeners("warning");
  process.on("warning", () => {});
  return execve("/bin/sh", ["sh", "-c", move, "toolrack", ...words], {
    ...(process.env as Record<string, string>), // Values of the environment are texts; only unset ones are not.
    [VARIABLE]: "4,3",
  });
}

function openStreams(input: number, output: number): OwnStreams {
  return { input: readableOf(input), output: writableOf(output) };
}

/** Pipes and sockets are read without a thread for each read; files and terminals cannot be. */
function readableOf(descriptor: number): Readable {
  try {
    return new Socket({ fd: descriptor, readable: true, writable: false });
  } catch {
    return createReadStream("", { fd: descriptor, autoClose: false });
  }
}

function writableOf(descriptor: number): Writable {
  try {
    return new Socket({ fd: descriptor, readable: false, writable: true });
  } catch {
    return createWriteStream("", { fd: descriptor, autoClose: false });
  }
}

function usualStreams(print: (text: string) => void): OwnStreams {
  const output = new Writable({
    decodeStrings: false,
    write(text, _encoding, done) {
      print(String(text));
      done();
    },
  });
  return { input: process.stdin, output };
}

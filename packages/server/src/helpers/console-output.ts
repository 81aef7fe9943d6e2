import { createReadStream, createWriteStream } from "node:fs";
import { Socket } from "node:net";
import { type Readable, Writable } from "node:stream";
import { format } from "node:util";
import type { LogLevel } from "@toolrack/core";
import type { logLine } from "@toolrack/core/internal";
import { currentCall } from "./current-call.ts";
import { moveDescriptors, restart, takeDescriptors } from "./restart.ts";

const methods = { debug: "debug", log: "info", info: "info", warn: "warn", error: "error" } as const;

let log: typeof logLine | undefined;

/**
 * Sets the function that logs a line. The opener of a workspace calls it: an import here would load all of core for
 * commands that open no workspace, and twice for `mcp`, which restarts itself.
 */
export function setConsoleLog(write: typeof logLine): void {
  log = write;
}

/**
 * Patches `console` so that text that a tool prints is also added to the log of its call. It is printed as
 * before.
 */
export function attributeConsole(target: Pick<Console, keyof typeof methods> = console): void {
  // `entries` loses the types of the keys.
  for (const [name, level] of Object.entries(methods) as [keyof typeof methods, LogLevel][]) {
    const print = target[name].bind(target);
    target[name] = (...values: unknown[]) => {
      print(...values);
      const context = currentCall.getStore();
      if (context !== undefined) log?.(context, level, formatValues(values));
    };
  }
}

/** Formatting may throw for a hostile value. */
function formatValues(values: readonly unknown[]): string {
  try {
    return format(...values);
  } catch {
    return "[unreadable]";
  }
}

interface OwnStreams {
  readonly input: Readable;
  readonly output: Writable;
}

/**
 * Opens streams to the parent process that nothing else in this process can touch: tools, libraries and child
 * processes write to descriptors 0 and 1, which become `/dev/null` and standard error. Where this program
 * cannot move descriptors, a shell does it and starts us again in the same process. Where that is impossible
 * too, returns the usual streams, which `protectProcess` keeps safe only from `console` and `process.stdout`
 * of tools.
 */
export function ownStreams(print: (text: string) => void): OwnStreams {
  const given = takeDescriptors() ?? moveDescriptors();
  if (given !== undefined) return openStreams(given.input, given.output);
  restart();
  return usualStreams(print);
}

/** The streams of a program in which nothing else writes, and which therefore needs none of its own. */
export function sharedStreams(print: (text: string) => void): OwnStreams {
  return process.platform === "win32" ? usualStreams(print) : openStreams(0, 1);
}

function openStreams(input: number, output: number): OwnStreams {
  return { input: readableOf(input), output: writableOf(output) };
}

/** A socket reads pipes without a thread per read; files and terminals need a file stream. */
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

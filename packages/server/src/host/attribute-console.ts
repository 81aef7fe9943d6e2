import { format } from "node:util";
import type { LogLevel, logLine } from "@toolrack/core";
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

import { relative } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { format } from "node:util";
import type { Logger } from "@toolrack/core";
import type { App, OpenOptions } from "../index.ts";
import type { Cli } from "./cli.ts";
import { CliError } from "./cli-error.ts";
import { findWorkspace } from "./find-workspace.ts";
import { printable } from "./text/printable.ts";

export interface WithAppOptions extends Partial<OpenOptions> {
  /** Absolute; found by `--dir` when not given. */
  readonly directory?: string;
}

/** Opens the workspace, uses it, and closes it whatever happens. */
export async function withApp<Result>(
  cli: Cli,
  { directory, ...options }: WithAppOptions,
  use: (app: App) => Promise<Result>,
): Promise<Result> {
  const root = directory ?? findWorkspace(cli.directory);
  const app = await open(root, { logger: talkingLogger(cli), ...options });
  try {
    return await use(app);
  } finally {
    await Promise.race([app.close(), wait(cli.patience)]);
  }
}

async function open(root: string, options: OpenOptions): Promise<App> {
  // Imported late, so that help and usage errors do not wait for the whole program.
  const { openWorkspace } = await import("../rack/app.ts");
  try {
    return await openWorkspace(root, options);
  } catch (thrown) {
    throw configError(thrown, root) ?? thrown;
  }
}

/** The config is the only file whose failure keeps a workspace from opening. */
export function configError(thrown: unknown, root: string): CliError | undefined {
  // Recognised by its shape: surfaces do not know the sources, where the class lies.
  const { name, message, remedy, line, path } = (thrown ?? {}) as {
    name?: string;
    message?: string;
    remedy?: string;
    line?: number;
    path?: string;
  };
  if (name !== "LoadError" || remedy === undefined) return undefined;
  const file = path === undefined ? "the config" : relative(root, path);
  const where = line === undefined ? file : `${file}:${line}`;
  const details = { file, ...(line === undefined ? {} : { line }), reason: message, remedy };
  return new CliError(`${where}: ${message} ${remedy}`, { code: "config_invalid", details });
}

/** What tools log is talk. What the loader logs is left out: commands tell it in their own form where it matters. */
export function talkingLogger(cli: Cli): Logger {
  const isVerbose = process.env.TOOLRACK_DEBUG !== undefined;
  const say =
    (prefix: string) =>
    (...values: unknown[]) => {
      if (!isVerbose && String(values[0]).startsWith("[loader] ")) return;
      cli.talk(prefix + printable(format(...values)));
    };
  return {
    debug: isVerbose ? say("debug: ") : () => {},
    info: say(""),
    warn: say("warning: "),
    error: say("error: "),
  };
}

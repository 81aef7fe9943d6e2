import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { runToolName } from "../../calls/index.ts";
import type { Cli } from "../cli.ts";
import { usageError } from "../cli-error.ts";
import { parseDuration } from "../text.ts";
import { type CallCommandOptions, call } from "./call.ts";

type RunCommandOptions = Pick<CallCommandOptions, "yes" | "timeout" | "session" | "output">;

/** `toolrack run`: runs code over the tools, on the running server or here. */
export async function run(cli: Cli, file: string, { timeout, ...options }: RunCommandOptions): Promise<void> {
  const code = file === "-" ? await cli.readInput() : await readCode(cli, file);
  const limit = timeout === undefined ? {} : { timeout: parseDuration(timeout, "--timeout") };
  return call(cli, runToolName, [], { ...options, args: JSON.stringify({ code, ...limit }) });
}

async function readCode(cli: Cli, file: string): Promise<string> {
  return readFile(resolve(cli.cwd, file), "utf8").catch((error: Error) => {
    throw usageError(`The file ${file} cannot be read: ${error.message}`);
  });
}

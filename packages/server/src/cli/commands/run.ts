import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { ToolResult } from "@toolrack/core";
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
  const args = JSON.stringify({ code, ...limit });
  return call(cli, runToolName, [], { ...options, args, shown: withoutConsole });
}

/**
 * A result without what the code printed, which the terminal has shown line by line, and without the hint for models that
 * the code returned nothing.
 */
function withoutConsole({ content, metadata = {}, error }: ToolResult): string {
  const { consoleLines: lines = 0 } = error?.details ?? metadata;
  if (error === undefined && metadata.returned === false) return "";
  if (typeof lines !== "number" || lines === 0 || metadata.truncated !== undefined) return content;
  // Before them are an empty line and one that says what follows.
  return content
    .split("\n")
    .slice(0, -(lines + 2))
    .join("\n");
}

async function readCode(cli: Cli, file: string): Promise<string> {
  return readFile(resolve(cli.cwd, file), "utf8").catch((error: Error) => {
    throw usageError(`The file ${file} cannot be read: ${error.message}`);
  });
}

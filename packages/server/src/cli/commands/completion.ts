import type { Cli } from "../cli.ts";
import { completionScripts, type Shell } from "../completion/completion-scripts.ts";
import { exitCodes } from "../exit-codes.ts";

/** `toolrack completion`: a script for a shell to source. */
export async function completion(cli: Cli, shell: Shell): Promise<number> {
  cli.print(completionScripts[shell]);
  return exitCodes.ok;
}

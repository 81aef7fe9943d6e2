import type { Command } from "commander";
import { Cli } from "../cli.ts";
import { candidates } from "../completion/candidates.ts";
import { exitCodes } from "../exit-codes.ts";
import { withApp } from "../with-app.ts";

/** The hidden `toolrack __complete`: what may come next on a command line. It never fails: it only knows less. */
export async function complete(cli: Cli, program: Command, words: readonly string[]): Promise<number> {
  const loadTools = (directory: string | undefined) => {
    const where = new Cli(directory === undefined ? {} : { dir: directory }, () => {});
    return withApp(where, {}, async ({ registry }) => registry.list());
  };
  const found = await candidates(program, words, loadTools).catch(() => []);
  if (found.length > 0) cli.print(found.map(({ word, about }) => `${word}\t${about}`).join("\n"));
  return exitCodes.ok;
}

import type { Cli } from "../cli.ts";
import { exitCodes } from "../exit-codes.ts";
import { toolSummary } from "../tool-summary.ts";
import { printTools } from "../tool-table.ts";
import { withApp } from "../with-app.ts";

export interface SearchOptions {
  readonly limit: number;
}

/** `toolrack search`: the tools that fit the words, best first. */
export function search(cli: Cli, words: readonly string[], { limit }: SearchOptions): Promise<number> {
  return withApp(cli, {}, async ({ registry }) => {
    const tools = registry.search(words.join(" "), limit);
    if (cli.json) cli.printJson({ tools: tools.map(toolSummary) });
    else if (tools.length > 0) printTools(cli, tools);
    else cli.talk(`No tool fits these words. See all of them with: ${cli.commandLine("list")}`);
    return exitCodes.ok;
  });
}

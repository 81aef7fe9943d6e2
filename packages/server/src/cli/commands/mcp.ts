import { ownStreams } from "../../calls/console-output.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../exit-codes.ts";
import { findWorkspace } from "../find-workspace.ts";
import { configError, talkingLogger } from "../with-app.ts";

export interface McpCommandOptions {
  readonly expert?: string;
  readonly watch: boolean;
}

/** `toolrack mcp`: serves the client that started it until that goes away, which is no failure. */
export async function mcp(cli: Cli, { expert, watch }: McpCommandOptions): Promise<number> {
  const root = findWorkspace(cli.directory);
  if (cli.interactive)
    cli.talk("This speaks MCP over standard input and output: let an MCP client start it.");
  // Before anything of the workspace runs: from here on nothing else reaches the client.
  const streams = ownStreams((text) => cli.write(text));
  const stopping = new AbortController();
  cli.onInterrupt(() => stopping.abort());
  const { serveStdio } = await import("../../rack/serve.ts");
  try {
    await serveStdio(root, {
      logger: talkingLogger(cli),
      streams,
      watchdog: true,
      signal: stopping.signal,
      ...(expert === undefined ? {} : { expert }),
      // What a reload did is talk, which the log of the client shows.
      ...(watch ? { onReload: () => {} } : {}),
    });
  } catch (thrown) {
    throw configError(thrown, root) ?? thrown;
  }
  return exitCodes.ok;
}

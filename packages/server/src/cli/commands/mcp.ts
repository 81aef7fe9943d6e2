import { ownStreams } from "../../helpers/console-output.ts";
import type { Cli } from "../cli.ts";
import { findWorkspace, opening, talkingLogger } from "../workspace.ts";

/** `toolrack mcp`: serves the client that started it until the client disconnects, which is the normal end. */
export async function mcp(cli: Cli, { expert, watch }: McpCommandOptions): Promise<void> {
  const root = findWorkspace(cli);
  if (cli.interactive)
    cli.talk("This speaks MCP over standard input and output: let an MCP client start it.");
  // Opened before any code of the workspace runs, so that only this program can write to the client.
  const streams = ownStreams((text) => cli.write(text));
  const stopping = new AbortController();
  cli.onInterrupt(() => stopping.abort());
  const { serveStdio } = await import("../../rack/index.ts");
  const options = {
    logger: talkingLogger(cli),
    streams,
    watchdog: true,
    signal: stopping.signal,
    ...(expert === undefined ? {} : { expert }),
    // Reloads are logged, and the client shows the log.
    ...(watch ? { onReload: () => {} } : {}),
  };
  await opening(cli, root, () => serveStdio(root, options));
}

export interface McpCommandOptions {
  readonly expert?: string;
  readonly watch: boolean;
}

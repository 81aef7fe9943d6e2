import { spawn } from "node:child_process";
import { once } from "node:events";
import { ownStreams, sharedStreams } from "../../helpers/console-output.ts";
import { hasOwnStreams } from "../../helpers/restart.ts";
import { joinProtocol } from "../../helpers/server-address.ts";
import type { Cli } from "../cli.ts";
import { ServerClient } from "../server-client.ts";
import type { Rack } from "../stdio-bridge.ts";
import { findWorkspace, opening, talkingLogger } from "../workspace.ts";

export interface McpCommandOptions {
  readonly expert?: string;
  readonly watch: boolean;
  readonly join: boolean;
}

/** Milliseconds that a running server may take to let the client join. Clients wait 10 seconds or more for a start. */
const JOIN_TIMEOUT = 3_000;

/**
 * `toolrack mcp`: serves the client that started it until the client disconnects, which is the normal end. Shares the
 * server that runs on the workspace, if there is one.
 */
export async function mcp(cli: Cli, options: McpCommandOptions): Promise<void> {
  const root = findWorkspace(cli);
  if (cli.interactive)
    cli.talk("This speaks MCP over standard input and output: let an MCP client start it.");
  // The files of a joined server are loaded anew when they change. Who does not want that has a rack of their own.
  const mayJoin = options.join && options.watch && !hasOwnStreams();
  const server = mayJoin ? await joinServer(cli, options) : undefined;
  if (server === undefined) return serveAlone(cli, root, options);
  const { StdioBridge } = await import("../stdio-bridge.ts");
  const bridge = new StdioBridge(
    sharedStreams((text) => cli.write(text)),
    async () => (await joinServer(cli, options)) ?? startOwn(cli, root, options),
  );
  cli.onInterrupt(() => bridge.stop());
  cli.exitCode = await bridge.run(server);
}

async function joinServer(cli: Cli, { expert }: McpCommandOptions): Promise<Rack | undefined> {
  const server = await ServerClient.findIfAny(cli, JOIN_TIMEOUT);
  const path = expert === undefined ? "/mcp" : `/mcp/${encodeURIComponent(expert)}`;
  const socket = await server?.upgrade(path, joinProtocol, JOIN_TIMEOUT);
  if (server === undefined || socket === undefined) return undefined;
  cli.talk(`Joined the server at ${server.url}.`);
  const ended = new Promise<number>((resolve) => socket.once("close", () => resolve(0)));
  return { input: socket, output: socket, isJoined: true, ended };
}

/** Starts this program once more, without joining: its tools may write to anything, so it needs streams of its own. */
function startOwn(cli: Cli, root: string, { expert }: McpCommandOptions): Rack {
  cli.talk("The server has stopped. The session goes on without it.");
  const [command = process.execPath, ...words] = cli.surroundings.program;
  const args = [
    ...words,
    "mcp",
    "--no-join",
    "--dir",
    root,
    ...(expert === undefined ? [] : ["--expert", expert]),
  ];
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "close").then(
    ([code]) => code ?? 1,
    () => 1,
  );
  return { input: child.stdin, output: child.stdout, isJoined: false, ended };
}

async function serveAlone(cli: Cli, root: string, { expert, watch }: McpCommandOptions): Promise<void> {
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

import type { Server } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createMcpServer } from "../create-mcp-server.ts";
import { HotPath } from "../hot/hot-path.ts";
import type { McpParts } from "../mcp-parts.ts";
import { publishChanges } from "../publish-changes.ts";
import { SdkFaces } from "../sdk-faces.ts";
import type { Viewer } from "../viewer.ts";
import { wantsResources, watchListened } from "../watch-listened.ts";
import { type CurrentServer, StdioFront } from "./stdio-front.ts";
import { type StdioStreams, StdioTransport } from "./stdio-transport.ts";

/** A connection to the one client that started this process. */
export interface StdioConnection {
  /** Resolves when the connection has ended, from either side. Calls that were under way are cancelled. */
  readonly closed: Promise<void>;
  /** Takes nothing more, leaves what is under way a moment to be answered, and ends the connection. */
  close(): Promise<void>;
}

/** Serves one client over two streams, in the version of the protocol that it begins with. */
export function serveMcpStdio(parts: McpParts, viewer: Viewer, streams: StdioStreams): StdioConnection {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const watched: (() => void)[] = [];
  let current: CurrentServer | undefined;
  let isClosed = false;
  const front = new StdioFront(new HotPath(parts, new SdkFaces(parts)), viewer, () => current);
  const listen = async (message: object, handOn: (message: unknown) => void) => {
    const listened = await watchListened(parts, viewer, message);
    if (isClosed) return listened.stop();
    watched.push(listened.stop);
    handOn(listened.message);
  };
  const transport = new StdioTransport(streams, (message, answer, handOn) => {
    if (!wantsResources(message)) return front.take(message, answer, handOn);
    if (front.refuses(message, answer)) return true;
    void listen(message, handOn);
    return true;
  });
  transport.ongiveup = (reason) => front.cancelAll(reason);
  const running = (id: string | number) => front.running(id);
  const handle = serveStdio(
    ({ era }) => {
      const server = createMcpServer(parts, viewer, { era, canAsk: era === "legacy", running });
      current = { server, era };
      return server;
    },
    { transport, onerror: (error) => parts.logger.debug("MCP:", error.message) },
  );
  // Over this transport the SDK itself hands what a server says on to who listens, in both eras.
  const tell = (say: (server: Server) => Promise<void>) => {
    if (current !== undefined) void say(current.server).catch(() => {});
  };
  const stopPublishing = publishChanges(
    parts,
    {
      toolsChanged: () => {},
      promptsChanged: () => {},
      resourcesChanged: () => {},
      resourceUpdated: (uri) => tell((server) => server.sendResourceUpdated({ uri })),
    },
    { tell },
  );
  const onclose = transport.onclose;
  transport.onclose = () => {
    isClosed = true;
    onclose?.();
    front.cancelAll("the client closed the connection");
    stopPublishing();
    for (const stop of watched) stop();
    resolve();
  };
  return {
    closed,
    async close() {
      await transport.drain("the server is stopping");
      await handle.close();
    },
  };
}

import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { cancellationsIn } from "../cancellations-in.ts";
import { ChangePublisher } from "../change-publisher.ts";
import { createMcpServer } from "../create-mcp-server.ts";
import { HotPath } from "../hot/hot-path.ts";
import type { McpParts } from "../mcp-parts.ts";
import { requestIdOf } from "../request-id-of.ts";
import { SdkFaces } from "../sdk-faces.ts";
import { tellServer } from "../tell-server.ts";
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
  /** How to stop watching what a request listens to, by its id. */
  const watched = new Map<string | number, () => void>();
  let current: CurrentServer | undefined;
  let isClosed = false;
  const front = new StdioFront(
    new HotPath(parts, new SdkFaces(parts)),
    viewer,
    () => current,
    () => transport.outlet,
  );
  const listen = async (id: string | number, message: object, handOn: (message: unknown) => void) => {
    watched.set(id, () => {});
    const listened = await watchListened(parts, viewer, message);
    // Meanwhile it may have been cancelled, or the client gone.
    if (isClosed || !watched.has(id)) return listened.stop();
    watched.set(id, listened.stop);
    handOn(listened.message);
  };
  const stopListening = (id: string | number) => {
    watched.get(id)?.();
    watched.delete(id);
  };
  const transport = new StdioTransport(streams, (message, answer, handOn) => {
    if (watched.size > 0) for (const { requestId } of cancellationsIn(message)) stopListening(requestId);
    const id = wantsResources(message) ? requestIdOf(message) : undefined;
    if (id === undefined) return front.take(message, answer, handOn);
    if (front.refuses(message, answer)) return true;
    void listen(id, message, handOn);
    return true;
  });
  transport.ongiveup = (reason) => front.cancelAll(reason);
  transport.oncutoff = (reason) => parts.logger.warn(`The MCP client was cut off: ${reason}.`);
  const { outlet } = transport;
  const running = (id: string | number) => front.running(id);
  const handle = serveStdio(
    ({ era }) => {
      const server = createMcpServer(parts, viewer, { era, canAsk: era === "legacy", running, outlet });
      current = { server, era };
      return server;
    },
    { transport, onerror: (error) => parts.logger.debug("MCP:", error.message) },
  );
  // Over this transport the SDK itself hands what a server says on to who listens, in both eras.
  const publisher = new ChangePublisher(parts, (uri) => {
    // In the older versions a server tells by itself of what its client has subscribed to.
    if (current?.era === "modern") void current.server.sendResourceUpdated({ uri }).catch(() => {});
  });
  publisher.join({
    viewer,
    tell(kind) {
      if (current !== undefined) tellServer(current.server, kind);
    },
  });
  const close = async (reason: string) => {
    await transport.drain(reason);
    await handle.close();
  };
  const unwatch = parts.expertWatch.watch(viewer, () => {
    parts.logger.warn(`The expert "${viewer.expert?.name}" is gone, and the connection that served it ends.`);
    void close("the expert is gone");
  });
  const onclose = transport.onclose;
  transport.onclose = () => {
    isClosed = true;
    onclose?.();
    front.cancelAll("the client closed the connection");
    publisher.stop();
    unwatch();
    for (const id of [...watched.keys()]) stopListening(id);
    resolve();
  };
  return { closed, close: () => close("the server is stopping") };
}

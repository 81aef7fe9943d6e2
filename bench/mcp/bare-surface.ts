import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger, ToolRegistry } from "@toolrack/core";
import { masterGrant } from "../../packages/server/src/access/grants.ts";
import { CallBook } from "../../packages/server/src/calls/call-book.ts";
import { openCalls } from "../../packages/server/src/calls/call-service.ts";
import { Offerings } from "../../packages/server/src/calls/offerings.ts";
import { createMcpSurface, type McpSurface } from "../../packages/server/src/mcp/serve/surface.ts";

export const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Our MCP surface on its own: the whole pipeline, but nobody's token is checked and no call is kept. */
export function openBareSurface(registry: ToolRegistry): McpSurface {
  const finished = Promise.resolve();
  const nothing = {
    started() {},
    finished: () => finished,
    onRefused() {},
    get: async () => undefined,
    held: { isFull: false },
  } as never; // Nobody asks for more.
  const calls = openCalls({
    book: new CallBook(registry),
    store: { calls: nothing, tokens: nothing, follower: { follow: () => ({}) } as never }, // Nothing changes.
    logger: silent,
  });
  return createMcpSurface({
    registry,
    service: calls.service,
    recorder: calls.recorder,
    store: { calls: nothing, tokens: nothing },
    approvals: { subscribe: () => () => {} } as never, // There are no dangerous tools.
    offerings: new Offerings({ logger: silent }),
    logger: silent,
    config: { metaTools: "off" },
    racks: () => [],
  });
}

/** Serves it over HTTP and says its address in a line of JSON. */
export function listenBare(surface: McpSurface): void {
  const [mount] = surface.mounts();
  const server = createServer((incoming, outgoing) => void mount!.handle(incoming, outgoing, masterGrant));
  server.listen(0, "127.0.0.1", () => {
    // A server that listens on a port has such an address.
    console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
  });
}

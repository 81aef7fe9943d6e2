import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Tool, ToolRegistry } from "@toolrack/core";
import { masterGrant } from "../../packages/server/src/auth/grant.ts";
import { openCallOffice } from "../../packages/server/src/calls/open-call-office.ts";
import { Offerings } from "../../packages/server/src/offerings/offerings.ts";
import { createMcpSurface } from "../../packages/server/src/surfaces/mcp/create-mcp-surface.ts";
import { definitions } from "./messages.ts";

/** Our MCP surface on its own: the whole pipeline, but nobody's token is checked and no call is kept. */
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const [transport, count] = process.argv.slice(2);
const registry = new ToolRegistry({ logger: silent });
registry.apply({
  put: definitions(Number(count)).map(({ name, description, inputSchema }) =>
    Tool.define({
      name,
      description,
      parameters: inputSchema,
      execute: async ({ input }) => String((input as { n: number }).n + 1),
    }),
  ),
});
const nothing = { started() {}, finished: async () => {}, get: async () => undefined } as never; // Nobody asks for more.
const calls = openCallOffice({ registry, calls: nothing, logger: silent });
const surface = createMcpSurface({
  registry,
  desk: calls.desk,
  recorder: calls.recorder,
  store: { calls: nothing },
  approvals: { subscribe: () => () => {} } as never, // There are no dangerous tools.
  offerings: new Offerings({ logger: silent }),
  logger: silent,
  config: { metaTools: "off" },
});
if (transport === "stdio") {
  await surface.stdio({ input: process.stdin, output: process.stdout });
} else {
  const [mount] = surface.mounts();
  const server = createServer((incoming, outgoing) => void mount!.handle(incoming, outgoing, masterGrant));
  server.listen(0, "127.0.0.1", () => {
    // A server that listens on a port has such an address.
    console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
  });
}

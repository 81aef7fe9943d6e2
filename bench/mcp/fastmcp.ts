import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { FastMCP } from "fastmcp";
import { z } from "zod";
import { definitions } from "./messages.ts";

/** FastMCP without sessions. `node fastmcp.ts http|stdio COUNT`. */
const [transport, count] = process.argv.slice(2);
const server = new FastMCP({ name: "bench", version: "1.0.0" });
for (const { name, description } of definitions(Number(count))) {
  server.addTool({
    name,
    description,
    parameters: z.object({ n: z.int() }),
    execute: async ({ n }) => String(n + 1),
  });
}

if (transport === "stdio") {
  await server.start({ transportType: "stdio" });
} else {
  const port = await freePort();
  await server.start({
    transportType: "httpStream",
    httpStream: { port, host: "127.0.0.1", stateless: true },
  });
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }));
}

/** It cannot tell which port it was given, so that it is given one that was free a moment ago. */
function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo; // A server that listens on a port has such an address.
      probe.close(() => resolve(port));
    });
  });
}

import { FastMCP } from "fastmcp";
import { z } from "zod";
import { freePort } from "./free-port.ts";
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

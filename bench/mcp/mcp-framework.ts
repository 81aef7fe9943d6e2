import { MCPServer, MCPTool } from "mcp-framework";
import { z } from "zod/v3";
import { freePort } from "./free-port.ts";
import { definitions } from "./messages.ts";

/** mcp-framework, with its one kind of sessions. `node mcp-framework.ts http|stdio COUNT`. */
const [transport, count] = process.argv.slice(2);
const port = await freePort();
const server = new MCPServer({
  name: "bench",
  version: "1.0.0",
  transport:
    transport === "stdio"
      ? { type: "stdio" }
      : { type: "http-stream", options: { port, endpoint: "/mcp", responseMode: "batch" } },
});
for (const { name, description } of definitions(Number(count))) {
  server.addTool(
    class extends MCPTool {
      name = name;
      description = description;
      schema = { n: { type: z.number().int(), description: "a number" } };
      override useStringify = false;
      async execute({ n }: { n: number }) {
        return String(n + 1);
      }
    },
  );
}
if (transport === "stdio") {
  await server.start();
} else {
  // It stays in `start` for as long as it serves.
  void server.start();
  while (!(await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined)));
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }));
}

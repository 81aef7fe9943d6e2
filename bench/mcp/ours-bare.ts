import { Tool, ToolRegistry } from "@toolrack/core";
import { listenBare, openBareSurface, silent } from "./bare-surface.ts";
import { definitions } from "./messages.ts";

/** Tools of this process behind our MCP surface, with nothing kept. `node ours-bare.ts http|stdio COUNT`. */
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
const surface = openBareSurface(registry);
if (transport === "stdio") await surface.stdio({ input: process.stdin, output: process.stdout });
else listenBare(surface);

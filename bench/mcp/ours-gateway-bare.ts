import { join } from "node:path";
import { ToolRegistry } from "@toolrack/core";
import { openSecrets } from "../../packages/server/src/access/secrets.ts";
import { McpServers } from "../../packages/server/src/mcp/connect/mcp-servers.ts";
import { DependencyStore } from "../../packages/server/src/sandbox/dependencies.ts";
import { openStore } from "../../packages/server/src/store/store.ts";
import { listenBare, openBareSurface, silent } from "./bare-surface.ts";

/**
 * The servers of `mcp.json` in the working directory behind our MCP surface, with nothing kept of any call. What is
 * known of the servers themselves is in a store, as always. `node ours-gateway-bare.ts`.
 */
const directory = process.cwd();
const registry = new ToolRegistry({ logger: silent });
const store = await openStore({ directory });
const secrets = await openSecrets({ directory, store, keyring: async () => undefined });
const packages = new DependencyStore({ directory: join(directory, ".toolrack", "mcp"), logger: silent });
await McpServers.open({ registry, store: store.mcpServers, secrets, logger: silent, directory, packages });
listenBare(openBareSurface(registry));

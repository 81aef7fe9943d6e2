import { fileURLToPath } from "node:url";
import { DependencyStore } from "../../../sandbox/dependencies.ts";
import { installedProgram } from "../process/server-files.ts";

/** Real MCP servers from the npm registry. Each is installed in a folder of its own, which later runs use again. */
export const npmServers = {
  everything: "@modelcontextprotocol/server-everything@2026.8.31",
  filesystem: "@modelcontextprotocol/server-filesystem@2026.8.31",
  memory: "@modelcontextprotocol/server-memory@2026.8.31",
  thinking: "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
  hello: "mcp-hello-world@1.1.2",
  context7: "@upstash/context7-mcp@4.1.1",
} as const;

const logger = { debug() {}, info() {}, warn() {}, error() {} };

export const packages = new DependencyStore({
  directory: fileURLToPath(
    new URL("../../../../../../node_modules/.cache/toolrack-mcp-servers", import.meta.url),
  ),
  logger,
});

/** Installs these servers. Returns the reason if they cannot be installed; in CI it throws instead. */
export async function installNpmServers(): Promise<string | undefined> {
  try {
    for (const spec of Object.values(npmServers)) await installedProgram(packages, spec, "test");
    return undefined;
  } catch (thrown) {
    if (process.env.CI !== undefined) throw thrown;
    return `SKIPPED: the real MCP servers could not be installed. ${(thrown as Error).message}`;
  }
}

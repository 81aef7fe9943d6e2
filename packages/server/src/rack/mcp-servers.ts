import { readFileSync } from "node:fs";
import type { Logger } from "@toolrack/core";
import { Unapproved } from "../access/index.ts";
import type { Secrets } from "../access/secrets.ts";
import { McpServers } from "../mcp/connect/mcp-servers.ts";
import type { Store } from "../store/store.ts";
import type { App } from "./app.ts";

/** Hangs the tools of the workspace's upstream MCP servers up, and starts the servers without waiting for them. */
export async function openMcpServers(parts: {
  readonly app: Pick<App, "registry" | "offerings" | "workspace" | "config" | "addUsedFiles">;
  readonly store: Pick<Store, "mcpServers">;
  readonly secrets: Pick<Secrets, "get" | "set" | "replace" | "remove" | "learn" | "hold" | "values">;
  readonly logger: Logger;
}): Promise<McpServers> {
  const { app, store, secrets, logger } = parts;
  const { file, pinning } = app.config.mcp ?? {};
  const servers = await McpServers.open({
    registry: app.registry,
    offerings: app.offerings,
    store: store.mcpServers,
    secrets,
    logger,
    directory: app.workspace.directory,
    clientInfo: { name: "toolrack", version: ownVersion() },
    ...(file === undefined ? {} : { file }),
    ...(pinning === undefined ? {} : { pinning }),
    unapproved: new Unapproved(app.workspace),
  });
  app.addUsedFiles(() => servers.usedFiles());
  return servers;
}

function ownVersion(): string {
  const manifest = new URL("../../package.json", import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}

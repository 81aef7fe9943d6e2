import { join, resolve } from "node:path";
import type { Logger } from "@toolrack/core";
import type { Secrets } from "../access/index.ts";
import { Unapproved } from "../access/index.ts";
import { problemOfOwnEntry, type RackIdentity } from "../calls/index.ts";
import { readServerAddress } from "../config/index.ts";
import { productVersion } from "../helpers/index.ts";
import type { ServerEntry } from "../mcp/connect/index.ts";
import { McpServers, readMcpFile } from "../mcp/connect/index.ts";
import { DependencyStore } from "../sandbox/index.ts";
import type { Store, StoredMcpServer } from "../store/index.ts";
import type { App } from "./app.ts";

/** Registers the tools of the workspace's upstream MCP servers, and starts the servers without waiting for them. */
export async function openMcpServers(parts: {
  readonly app: Pick<App, "registry" | "offerings" | "workspace" | "config" | "addUsedFiles">;
  readonly store: Pick<Store, "mcpServers">;
  readonly secrets: Pick<Secrets, "get" | "set" | "replace" | "remove" | "learn" | "hold" | "values">;
  readonly identity: RackIdentity;
  readonly logger: Logger;
}): Promise<McpServers> {
  const { app, store, secrets, identity, logger } = parts;
  const { directory } = app.workspace;
  const { file, pinning } = app.config.mcp ?? {};
  const servers = await McpServers.open({
    registry: app.registry,
    offerings: app.offerings,
    store: store.mcpServers,
    secrets,
    logger,
    packages: new DependencyStore({
      directory: join(directory, ".toolrack", "mcp"),
      npmrc: join(directory, ".npmrc"),
      logger,
    }),
    directory,
    identity,
    clientInfo: { name: "toolrack", version: productVersion() },
    ...(file === undefined ? {} : { file }),
    ...(pinning === undefined ? {} : { pinning }),
    unapproved: new Unapproved(app.workspace),
  });
  app.addUsedFiles(() => servers.usedFiles());
  return servers;
}

/** An MCP server entry that points to this rack itself. */
export interface OwnEntry {
  readonly key: string;
  /** The file of the entry; undefined for an entry of the store. */
  readonly place?: string;
  readonly problem: string;
}

/** Finds the entries of the workspace's file and of the store that evidently point to this rack. */
export async function ownEntries(
  { workspace: { directory }, config }: Pick<App, "workspace" | "config">,
  rows: readonly StoredMcpServer[],
): Promise<OwnEntry[]> {
  const place = resolve(directory, config.mcp?.file ?? "mcp.json");
  const address = (await readServerAddress(directory))?.url;
  // Errors of the file are reported when its servers are opened.
  const entries = await readMcpFile(place).then(
    (file) => file.entries,
    () => new Map<string, ServerEntry>(),
  );
  const found = [
    ...[...entries].map(([key, entry]) => ({ key, entry, place })),
    // The store checks entries when they are added.
    ...rows.flatMap(({ key, entry }) => (entry === undefined ? [] : [{ key, entry: entry as ServerEntry }])),
  ];
  return found.flatMap(({ entry, ...where }) => {
    const problem = problemOfOwnEntry(entry, directory, address);
    return problem === undefined ? [] : [{ ...where, problem }];
  });
}

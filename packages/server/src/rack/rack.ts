import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger, ToolRegistry } from "@toolrack/core";
import { ensureMasterToken, openSecrets, type Secrets } from "../access/index.ts";
import {
  ApprovalInbox,
  type CallBook,
  type Calls,
  identityOf,
  openCalls,
  resumeCall,
} from "../calls/index.ts";
import { loadEnvironment } from "../config/index.ts";
import type { McpServers } from "../mcp/connect/index.ts";
import type { ExpertView } from "../mcp/serve/index.ts";
import { createMcpSurface, type McpSurface } from "../mcp/serve/index.ts";
import type { Expert } from "../skills/index.ts";
import { openStore, type Store } from "../store/index.ts";
import { type App, openWorkspace } from "./app.ts";
import { openMcpServers } from "./mcp-servers.ts";

export interface OpenRackOptions {
  readonly logger: Logger;
  /** Follows changes of `mcp.json`. */
  readonly watch: boolean;
}

/** A workspace with its store, approvals, calls and MCP servers: the parts that all ways of serving share. */
export interface OpenedRack {
  readonly app: App;
  readonly store: Store;
  readonly approvals: ApprovalInbox;
  readonly calls: Calls;
  /** The server must close it before it waits for calls, since some calls wait for a client. */
  readonly mcp: McpSurface;
  readonly mcpServers: McpServers;
  readonly secrets: Secrets;
  /** How many calls of dead processes were marked as interrupted. */
  readonly interrupted: number;
}

/** Milliseconds that tools may take to clean up. */
const CLEANUP_LIMIT = 6_000;

/** Opens the workspace. Puts all that must be closed on the stack `opened`, also when it rejects. */
export async function openRack(
  root: string,
  options: OpenRackOptions,
  opened: AsyncDisposableStack,
): Promise<OpenedRack> {
  const { logger } = options;
  // Loaded before the store is opened, because `.env` may name the database.
  const unloadEnvironment = await loadEnvironment(root, logger);
  opened.defer(async () => unloadEnvironment());
  const folder = join(root, ".toolrack");
  const url = process.env.DATABASE_URL;
  const store = await openStore({ directory: folder, logger, ...(url === undefined ? {} : { url }) });
  opened.defer(() => closeWithinLimit(store.close(), "The store", logger));
  const interrupted = await store.calls.settleInterrupted();
  const openedSecrets = await openSecrets({ directory: folder, store });
  for (const reason of openedSecrets.unreadable.values()) logger.warn(reason);
  // Created before the tools are loaded, so that it is masked in all their results.
  const token = await ensureMasterToken(root);
  const secrets = () => [token, ...openedSecrets.values()];
  // Set below: the workspace needs the inbox, and the inbox needs the workspace.
  let book: CallBook | undefined;
  const originOf = (callId: string) => book?.firstCallerOf(callId);
  let rack: Rack | undefined;
  let mcpServers: McpServers | undefined;
  const approvals = await ApprovalInbox.open({
    store,
    logger,
    secrets,
    originOf,
    registry: () => rack?.registry,
    formerNameOf: (toolName) => mcpServers?.formerNameOf(toolName),
    resume: async (call) => rack && resumeCall(call, rack.calls.service, store),
    timeout: () => rack?.approvalTimeout,
  });
  opened.defer(() => closeWithinLimit(approvals.close(), "The approvals", logger));

  const app = await openWorkspace(root, {
    logger,
    toolSecrets: openedSecrets,
    store,
    approval: approvals.policy,
  });
  opened.defer(() => Promise.race([app.close(), wait(CLEANUP_LIMIT, undefined, { ref: false })]));
  book = app.book;
  app.skills.follow();

  const servers = await openMcpServers({
    app,
    store,
    secrets: openedSecrets,
    identity: identityOf(root, token),
    logger,
  });
  mcpServers = servers;
  opened.defer(() => servers.close());
  if (options.watch) servers.watch();
  opened.defer(() => Promise.race([store.follower.close(), wait(CLEANUP_LIMIT, undefined, { ref: false })]));

  const calls = openCalls({
    book: app.book,
    store,
    logger,
    ...(app.config.server?.maxCallsPerTool === undefined
      ? {}
      : { maxCallsPerTool: app.config.server.maxCallsPerTool }),
  });
  rack = { registry: app.registry, calls, approvalTimeout: app.config.approvals?.timeout };
  const mcp = createMcpSurface({
    registry: app.registry,
    service: calls.service,
    recorder: calls.recorder,
    store,
    approvals,
    racks: () => servers.racks,
    offerings: app.offerings,
    logger,
    config: app.config.mcp ?? {},
    experts: (nameOrId) => expertView(app.skills.experts.find(nameOrId)),
    expertById: (id) => expertView(app.skills.experts.byId(id)),
    onExpertsChanged: (listener) => app.skills.experts.subscribe(listener),
  });
  followOthers({ store, approvals, secrets: openedSecrets, servers, logger });
  return { app, store, approvals, calls, mcp, mcpServers, secrets: openedSecrets, interrupted };
}

/** An expert as MCP clients see it. */
function expertView(expert: Expert | undefined): ExpertView | undefined {
  if (expert === undefined) return undefined;
  const { id, name, version, allows: allow } = expert;
  const instructions = expert.instructions || expert.description;
  return { id, name, version, allow, ...(instructions ? { instructions } : {}) };
}

/** What the approval inbox needs of the rack for late answers and changed arguments. */
interface Rack {
  readonly registry: ToolRegistry;
  readonly calls: Calls;
  readonly approvalTimeout: number | undefined;
}

/** Seconds between looks for calls of dead processes. */
const ORPHAN_CHECK_SECONDS = 10;

/** Follows changes of other processes on the same store, until the store's follower is closed. */
function followOthers(rack: {
  readonly store: Store;
  readonly approvals: ApprovalInbox;
  readonly secrets: Secrets;
  readonly servers: McpServers;
  readonly logger: Logger;
}): void {
  const { store, approvals, secrets, servers, logger } = rack;
  const warn = (text: string) => (error: unknown) =>
    logger.warn(`${text}: ${error instanceof Error ? error.message : String(error)}`);
  store.follower.follow("registry", {
    version: () => store.registryVersion.read(),
    refresh: () => servers.refresh(),
    failed: warn("What other processes changed could not be read"),
  });
  // Secrets that another process set are masked here too, and an MCP server may have waited for one.
  store.follower.follow("secrets", {
    refresh: () => secrets.refresh().then(() => servers.followSecrets()),
    failed: warn("Secrets that were set meanwhile could not be read"),
  });
  store.follower.follow("remains", {
    seconds: ORPHAN_CHECK_SECONDS,
    async refresh() {
      await store.calls.settleInterrupted();
      await approvals.refresh();
    },
    failed: (error) => logger.debug("What other processes did could not be taken up:", error),
  });
}

/** Milliseconds that the last writes may take when the server ends. */
const LAST_WRITES_LIMIT = 15_000;

/** Gives up waiting after a while: a database that does not answer must not keep the process from ending. */
async function closeWithinLimit(closing: Promise<void>, what: string, logger: Logger): Promise<void> {
  const late = Symbol();
  const outcome = await Promise.race([closing, wait(LAST_WRITES_LIMIT, late, { ref: false })]);
  if (outcome !== late) return;
  process.exitCode = 1;
  logger.error(
    `${what} did not close within ${LAST_WRITES_LIMIT / 1000} s. What it had not written yet may be lost.`,
  );
}

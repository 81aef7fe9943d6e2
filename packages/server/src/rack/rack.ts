import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger, ToolRegistry } from "@toolrack/core";
import { ensureMasterToken, openSecrets, type Secrets } from "../access/index.ts";
import {
  ApprovalInbox,
  type CallBook,
  type Calls,
  identityOf,
  issuesOf,
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
  /** Takes up changes of `mcp.json` as they come. */
  readonly watch: boolean;
}

/** A workspace with all that outlives a call: what every way of serving it shares. */
export interface OpenedRack {
  readonly app: App;
  readonly store: Store;
  readonly approvals: ApprovalInbox;
  readonly calls: Calls;
  /** To be closed by who serves it, before calls are waited for: some of them wait for a client. */
  readonly mcp: McpSurface;
  readonly mcpServers: McpServers;
  readonly secrets: Secrets;
  /** How many calls a process that died had left running. */
  readonly interrupted: number;
}

/** How long tools may take to clean up. */
const PATIENCE = 6_000;

/** Opens the workspace. What is to be closed is on the stack, also when it rejects. */
export async function openRack(
  root: string,
  options: OpenRackOptions,
  opened: AsyncDisposableStack,
): Promise<OpenedRack> {
  const { logger } = options;
  // Before the store, because the file may say which database it is.
  const forget = await loadEnvironment(root, logger);
  opened.defer(async () => forget());
  const folder = join(root, ".toolrack");
  const url = process.env.DATABASE_URL;
  const store = await openStore({ directory: folder, logger, ...(url === undefined ? {} : { url }) });
  opened.defer(() => within(store.close(), "The store", logger));
  const interrupted = await store.calls.settleInterrupted();
  const known = await openSecrets({ directory: folder, store });
  for (const reason of known.unreadable.values()) logger.warn(reason);
  // Made before the tools are loaded, so that none of them can show it.
  const token = await ensureMasterToken(root);
  const secrets = () => [token, ...known.values()];
  // The rack, whose calls they follow, asks the inbox.
  let book: CallBook | undefined;
  const originOf = (callId: string) => book?.firstCallerOf(callId);
  let rack: Rack | undefined;
  let mcpServers: McpServers | undefined;
  const approvals = await ApprovalInbox.open({
    store,
    logger,
    secrets,
    originOf,
    toolOf: (toolName) => rack?.registry.get(toolName),
    formerNameOf: (toolName) => mcpServers?.formerNameOf(toolName),
    resume: async (call) => rack && resumeCall(call, rack.calls.service, store),
    timeout: () => rack?.approvalTimeout,
    check: async (name, input) => (rack === undefined ? [] : issuesOf(rack.registry, name, input)),
  });
  opened.defer(() => within(approvals.close(), "The approvals", logger));

  const app = await openWorkspace(root, {
    logger,
    secrets,
    toolSecrets: known,
    store,
    approval: approvals.policy,
  });
  opened.defer(() => Promise.race([app.close(), wait(PATIENCE, undefined, { ref: false })]));
  book = app.book;
  app.skills.follow();

  const servers = await openMcpServers({
    app,
    store,
    secrets: known,
    identity: identityOf(root, token),
    logger,
  });
  mcpServers = servers;
  opened.defer(() => servers.close());
  if (options.watch) servers.watch();
  opened.defer(() => Promise.race([store.follower.close(), wait(PATIENCE, undefined, { ref: false })]));

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
  followOthers({ store, approvals, secrets: known, servers, logger });
  return { app, store, approvals, calls, mcp, mcpServers, secrets: known, interrupted };
}

/** An expert as MCP clients see it. */
function expertView(expert: Expert | undefined): ExpertView | undefined {
  if (expert === undefined) return undefined;
  const { id, name, version, allows: allow } = expert;
  const instructions = expert.instructions || expert.description;
  return { id, name, version, allow, ...(instructions ? { instructions } : {}) };
}

/** What questions that are answered late, or with other arguments, need of the rack. */
interface Rack {
  readonly registry: ToolRegistry;
  readonly calls: Calls;
  readonly approvalTimeout: number | undefined;
}

/** Seconds from one look for what processes left behind that died to the next. */
const LOOK_FOR_REMAINS = 10;

/** Takes up what other processes on the same store do, until the store's follower is closed. */
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
  // Secrets that were set elsewhere are masked here too, and a server may have waited for one.
  store.follower.follow("secrets", {
    refresh: () => secrets.refresh().then(() => servers.followSecrets()),
    failed: warn("Secrets that were set meanwhile could not be read"),
  });
  store.follower.follow("remains", {
    seconds: LOOK_FOR_REMAINS,
    async refresh() {
      await store.calls.settleInterrupted();
      await approvals.refresh();
    },
    failed: (error) => logger.debug("What other processes did could not be taken up:", error),
  });
}

/** How long what is on its way to the disk may take when the server ends. */
const LAST_WRITES = 15_000;

/** A database that does not answer must not keep the process from ending. */
async function within(closing: Promise<void>, what: string, logger: Logger): Promise<void> {
  const late = Symbol();
  const outcome = await Promise.race([closing, wait(LAST_WRITES, late, { ref: false })]);
  if (outcome !== late) return;
  process.exitCode = 1;
  logger.error(
    `${what} did not close within ${LAST_WRITES / 1000} s. What it had not written yet may be lost.`,
  );
}

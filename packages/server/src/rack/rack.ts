import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger, ToolRegistry } from "@toolrack/core";
import type { CallOrigins } from "../access/index.ts";
import { ensureMasterToken, openSecrets, type Secrets } from "../access/index.ts";
import {
  ApprovalInbox,
  type CallOffice,
  identityOf,
  issuesOf,
  openCallOffice,
  resumeCall,
} from "../calls/index.ts";
import { loadEnvironment } from "../config/index.ts";
import { Lookout } from "../helpers/index.ts";
import type { McpServers } from "../mcp/connect/index.ts";
import type { ExpertView } from "../mcp/serve/index.ts";
import { createMcpSurface, type McpSurface } from "../mcp/serve/index.ts";
import type { Expert } from "../skills/index.ts";
import { openStore, type Store } from "../store/index.ts";
import { type App, openWorkspace } from "./app.ts";
import { openMcpServers } from "./mcp-servers.ts";
import { RegistryFollower } from "./registry-follower.ts";

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
  readonly calls: CallOffice;
  /** To be closed by who serves it, before calls are waited for: some of them wait for a client. */
  readonly mcp: McpSurface;
  readonly mcpServers: McpServers;
  /** Takes up what other processes on the same store change. */
  readonly follower: RegistryFollower;
  readonly origins: CallOrigins;
  readonly secrets: Secrets;
  /** How many calls a process that died had left running. */
  readonly interrupted: number;
}

/** How often it is looked for secrets that were set, here or elsewhere. */
const LOOK_FOR_SECRETS = 1_000;
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
  let origins: CallOrigins | undefined;
  const originOf = (callId: string) => origins?.of(callId);
  let rack: Rack | undefined;
  let mcpServers: McpServers | undefined;
  opened.defer(keepKnowing(known, async () => mcpServers?.followSecrets(), logger));
  const approvals = await ApprovalInbox.open({
    store,
    logger,
    secrets,
    originOf,
    toolOf: (toolName) => rack?.registry.get(toolName),
    formerNameOf: (toolName) => mcpServers?.formerNameOf(toolName),
    resume: async (call) => rack && resumeCall(call, rack.calls.desk, store),
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
  origins = app.origins;
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
  const follower = new RegistryFollower(store.registryVersion, logger);
  opened.defer(() => Promise.race([follower.close(), wait(PATIENCE, undefined, { ref: false })]));
  follower.follow(servers);

  const calls = openCallOffice({
    registry: app.registry,
    calls: store.calls,
    tokens: store.tokens,
    origins: app.origins,
    logger,
    ...(app.config.server?.maxCallsPerTool === undefined
      ? {}
      : { maxCallsPerTool: app.config.server.maxCallsPerTool }),
  });
  rack = { registry: app.registry, calls, approvalTimeout: app.config.approvals?.timeout };
  const mcp = createMcpSurface({
    registry: app.registry,
    desk: calls.desk,
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
  opened.defer(followOthers(store, approvals, logger));
  return { app, store, approvals, calls, mcp, mcpServers, follower, origins, secrets: known, interrupted };
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
  readonly calls: CallOffice;
  readonly approvalTimeout: number | undefined;
}

/** How often what other processes did on the same store is taken up. */
const FOLLOWING = 10_000;

/** Settles what processes that died left behind, and learns of rules that others made. Answers how to end it. */
function followOthers(store: Store, approvals: ApprovalInbox, logger: Logger): () => Promise<void> {
  const lookout = new Lookout({
    async look() {
      await store.calls.settleInterrupted();
      await approvals.refresh();
    },
    failed: (error) => logger.debug("What other processes did could not be taken up:", error),
    interval: FOLLOWING,
  });
  lookout.start();
  return () => Promise.race([lookout.stop(), wait(PATIENCE, undefined, { ref: false })]);
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

/** Learns of secrets that were set, so that they are masked here too, and tells who waits for one. Answers how to end it. */
function keepKnowing(known: Secrets, onLook: () => Promise<void>, logger: Logger): () => Promise<void> {
  let looking: Promise<void> | undefined;
  let complaint = "";
  const complain = (error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    // Said once, not every time.
    if (reason !== complaint) logger.warn(`Secrets that were set meanwhile could not be read: ${reason}`);
    complaint = reason;
  };
  const timer = setInterval(() => {
    looking ??= known
      .refresh()
      .then(onLook)
      .catch(complain)
      .finally(() => {
        looking = undefined;
      });
  }, LOOK_FOR_SECRETS);
  return async () => {
    clearInterval(timer);
    await Promise.race([looking, wait(PATIENCE, undefined, { ref: false })]);
  };
}

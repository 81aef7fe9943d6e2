import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "@toolrack/core";
import {
  createAddressRules,
  ensureMasterToken,
  isInside,
  openValues,
  realPathOf,
  requireSharedToken,
  type Secrets,
  type ToolValues,
  Unapproved,
} from "../access/index.ts";
import type { Credential } from "../apis/index.ts";
import {
  ApprovalInbox,
  type Calls,
  identityOf,
  openCalls,
  operatorOrigin,
  problemOfOwnEntry,
  resumeCall,
  runToolName,
} from "../calls/index.ts";
import { type CodeRuns, canGoOn } from "../code/index.ts";
import { loadEnvironment } from "../config/index.ts";
import { type Channel, type Lanes, Nodes, openChannel } from "../fleet/index.ts";
import { defined, plainHost, productVersion, reasonOf } from "../helpers/index.ts";
import { readServerAddress } from "../helpers/server-address.ts";
import { type Forwarder, openForwarder } from "../http/wire/index.ts";
import {
  ConfigurationError,
  McpServers,
  type McpServersOptions,
  type McpServerView,
  type OpenApi,
  readMcpFile,
  type ServerEntry,
} from "../mcp/connect/index.ts";
import { createMcpSurface, type ExpertView, type McpSurface } from "../mcp/serve/index.ts";
import { DependencyStore } from "../sandbox/index.ts";
import type { Expert } from "../skills/index.ts";
import { openStore, type Store, type StoredMcpServer } from "../store/index.ts";
import { type App, openWorkspace, type Recording } from "./app.ts";
import { openLanes } from "./lanes.ts";
import { isCodeOff, openCode } from "./open-code.ts";

export interface OpenRackOptions {
  readonly logger: Logger;
  /** Follows changes of `mcp.json`. */
  readonly watch: boolean;
  readonly recording?: Recording | undefined;
  /** Performs calls of lanes and serves nobody. */
  readonly isWorker?: boolean;
  /** The lanes of a worker, which are known after it has opened. */
  readonly lanesServed?: () => readonly string[];
  /** Whether to wait for very many tools of skills. Default true; see `SkillLibrary.open`. */
  readonly isPatient?: boolean;
}

/** A workspace with its store, approvals, calls and MCP servers: the parts that all ways of serving share. */
export interface OpenedRack {
  readonly app: App;
  readonly store: Store;
  /** What the nodes on one PostgreSQL tell each other. */
  readonly channel: Channel;
  readonly nodes: Nodes;
  /** Undefined without Redis, and in a worker. */
  readonly lanes: Lanes | undefined;
  /** Sends requests on to the nodes that they belong to. Undefined when there can be no others. */
  readonly forwarder: Forwarder | undefined;
  readonly approvals: ApprovalInbox;
  readonly calls: Calls;
  /** The runs of code. Undefined when code mode is off. */
  readonly code: CodeRuns | undefined;
  /** Must be closed before the server waits for calls to end, since some calls wait for an MCP client. */
  readonly mcp: McpSurface;
  readonly mcpServers: McpServers;
  readonly values: ToolValues;
  /** How many calls of dead processes were marked as interrupted. */
  readonly interrupted: number;
}

/** Milliseconds that tools may take to clean up. */
const CLEANUP_LIMIT = 6_000;
/** Seconds between two searches for calls and chat turns of dead processes. */
export const ORPHAN_CHECK_SECONDS = 10;

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
  const directory = join(root, ".toolrack");
  const store = await openStore({ directory, logger, url: process.env.DATABASE_URL });
  opened.defer(() => closeWithinLimit(store.close(), "The store", logger));
  const channel = await openChannel(store);
  opened.defer(() => channel.close());
  const values = await openValues({ directory, store });
  const { secrets } = values;
  for (const problem of secrets.problems()) logger.warn(problem);
  // The token is created before the tools are loaded, so that it is masked in all their results.
  const token = await ensureMasterToken(root);
  if (store.engine !== "sqlite") await requireSharedToken(token, store.identity);
  // Set below: the workspace needs the inbox, and the inbox needs the workspace.
  let rack: { readonly app: App; calls?: Calls; mcpServers?: McpServers } | undefined;
  const approvals = await ApprovalInbox.open({
    store,
    logger,
    secrets: () => [token, ...secrets.values()],
    registry: () => rack?.app.registry,
    originOf: (callId) => rack?.app.book.firstCallerOf(callId),
    viaOf: (callId) => rack?.app.book.get(callId)?.via,
    formerNameOf: (toolName) => rack?.mcpServers?.formerNameOf(toolName),
    // A worker only performs what a server has admitted.
    resume: async (call) => {
      await rack?.app.skills.loading;
      return options.isWorker === true
        ? undefined
        : rack?.calls && resumeCall(call, rack.calls.service, store);
    },
    timeout: () => rack?.app.config.approvals?.timeout,
  });
  opened.defer(() => closeWithinLimit(approvals.close(), "The approvals", logger));

  const app = await openWorkspace(root, {
    logger,
    toolValues: values,
    store,
    approval: approvals.policy,
    ...defined({ recording: options.recording, isPatient: options.isPatient }),
    // The server that admitted a call writes its line.
    ...(options.isWorker && { log: false }),
  });
  opened.defer(() => Promise.race([app.close(), wait(CLEANUP_LIMIT, undefined, { ref: false })]));
  rack = { app };
  // Runs of code go on here; all other calls that dead processes left are over.
  const left = isCodeOff(app.config) ? [] : await store.calls.takeOver(runToolName, canGoOn);
  const interrupted = await store.calls.settleInterrupted();
  app.skills.follow();

  const mcpServers = await openMcpServers(app, store, {
    secrets,
    originOf: (callId) => app.book.originOf(callId),
    setting: (name) => values.getSetting(name),
    identity: identityOf(root, token),
    logger,
  });
  rack.mcpServers = mcpServers;
  opened.defer(() => mcpServers.close());
  if (options.watch) mcpServers.watch();
  opened.defer(() => Promise.race([store.follower.close(), wait(CLEANUP_LIMIT, undefined, { ref: false })]));

  const { registry, config, skills, offerings } = app;
  const starting = untilListed(mcpServers, config.mcp?.listWait);
  const { maxCallsPerTool } = config.server ?? {};
  const lanes = options.isWorker === true ? undefined : await openLanes({ app, store, values, logger });
  opened.defer(async () => lanes?.close());
  const calls = openCalls({
    book: app.book,
    store,
    logger,
    channel,
    maxCallsPerTool,
    busyFor: lanes && ((tool) => lanes.busyFor(tool)),
    isHandedOver: lanes && ((tool) => lanes.laneOf(tool) !== undefined),
    learning: config.search?.learning,
  });
  rack.calls = calls;
  const nodes = new Nodes(store, {
    role: options.isWorker === true ? "worker" : "server",
    calls: () => registry.activeCalls().length,
    ...(options.lanesServed && { more: () => ({ lanes: options.lanesServed?.() ?? [] }) }),
  });
  opened.defer(() => nodes.close());
  const forwarder = channel.isShared
    ? await openForwarder(channel, nodes, await secrets.sharedKey())
    : undefined;
  opened.defer(() => forwarder?.close());
  const code =
    options.recording === undefined ? openCode({ app, store, approvals, calls, logger }) : undefined;
  const mcp = createMcpSurface({
    registry,
    node: channel.isShared ? channel.node : undefined,
    forwarder,
    service: calls.service,
    recorder: calls.recorder,
    store,
    approvals,
    racks: () => mcpServers.racks,
    starting,
    greet: (origin, mayUse) => mcpServers.greet(origin, mayUse),
    instructionsOf: (server) => mcpServers.instructionsOf(server),
    offerings,
    logger,
    config: config.mcp ?? {},
    experts: (nameOrId) => expertView(skills.experts.find(nameOrId)),
    expertById: (id) => expertView(skills.experts.byId(id)),
    onExpertsChanged: (listener) => skills.experts.subscribe(listener),
  });
  const parts = {
    app,
    store,
    channel,
    nodes,
    lanes,
    forwarder,
    approvals,
    calls,
    code,
    mcp,
    mcpServers,
    values,
    interrupted,
  };
  // The code may use tools of MCP servers that are being started.
  void Promise.all([starting(), skills.loading]).then(() => code?.resume(left));
  followOthers(parts, logger);
  return parts;
}

/** Milliseconds. Codex, for one, gives a server 10 seconds until its first list. */
const LIST_WAIT = 5_000;

/**
 * Returns a function whose promise resolves when every MCP server that is being started has been listed or has failed,
 * or when the limit is over; see `RackServices`. Servers whose tools are known from an earlier run are not waited for.
 */
function untilListed(servers: McpServers, limit = LIST_WAIT): () => Promise<void> | undefined {
  if (limit === 0 || !servers.areListing) return () => undefined;
  const { promise, resolve } = Promise.withResolvers<void>();
  let waiting: Promise<void> | undefined = promise;
  const end = () => {
    clearTimeout(timer);
    stop();
    waiting = undefined;
    resolve();
  };
  const timer = setTimeout(end, limit).unref();
  const stop = servers.subscribe(() => {
    if (!servers.areListing) end();
  });
  return () => waiting;
}

/** An expert as MCP clients see it. */
function expertView(expert: Expert | undefined): ExpertView | undefined {
  if (expert === undefined) return undefined;
  const { id, name, version, allows: allow, instructions, description } = expert;
  return { id, name, version, allow, instructions: instructions || description || undefined };
}

/** Follows changes of other processes on the same store, until the store's follower is closed. */
function followOthers({ store, approvals, code, values, mcpServers }: OpenedRack, logger: Logger): void {
  const warn = (text: string) => (error: unknown) => logger.warn(`${text}: ${reasonOf(error)}`);
  store.follower.follow("registry", {
    version: () => store.registryVersion.read(),
    refresh: () => mcpServers.refresh(),
    failed: warn("What other processes changed could not be read"),
  });
  // Secrets that another process set are masked here too, tools are given what was set for them, and an MCP
  // server may have waited for a value.
  store.follower.follow("secrets", {
    refresh: () => values.refresh().then(() => mcpServers.followSecrets()),
    failed: warn("Settings and secrets that were set meanwhile could not be read"),
  });
  store.follower.follow("nodes", {
    seconds: ORPHAN_CHECK_SECONDS,
    async refresh() {
      const left = code === undefined ? [] : await store.calls.takeOver(runToolName, canGoOn);
      await store.calls.settleInterrupted();
      void code?.resume(left);
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

/** Registers the tools of the workspace's upstream MCP servers, and starts the servers without waiting for them. */
export async function openMcpServers(
  app: Pick<App, "registry" | "offerings" | "workspace" | "config" | "addUsedFiles">,
  store: Pick<Store, "mcpServers">,
  parts: Pick<McpServersOptions, "secrets" | "originOf" | "setting" | "identity" | "logger">,
): Promise<McpServers> {
  const { secrets, logger } = parts;
  const { registry, offerings, workspace, config } = app;
  const { directory } = workspace;
  const npmrc = join(directory, ".npmrc");
  const servers = await McpServers.open({
    ...parts,
    registry,
    offerings,
    store: store.mcpServers,
    packages: new DependencyStore({ directory: join(directory, ".toolrack", "mcp"), npmrc, logger }),
    directory,
    clientInfo: { name: "toolrack", version: productVersion() },
    file: config.mcp?.file,
    pinning: config.mcp?.pinning ?? "quarantine",
    openApi: apiOpener(app, secrets),
    unapproved: new Unapproved(workspace),
  });
  app.addUsedFiles(() => servers.usedFiles());
  return servers;
}

/**
 * Starts the MCP servers of a workspace that no server serves, and waits until they are listed or have failed. Undefined
 * when there are none. `tell` is called with them before it waits.
 */
export async function startMcpServers(
  app: App,
  logger: Logger,
  tell: (started: readonly McpServerView[]) => void,
): Promise<McpServers | undefined> {
  const { directory } = app.workspace;
  const own = join(directory, ".toolrack");
  const files = [app.config.mcp?.file ?? "mcp.json", "apis.json"];
  const isNamed = files.some((file) => existsSync(resolve(directory, file)));
  if (!isNamed && !existsSync(own)) return undefined;
  const store = await app.store();
  if (!isNamed && (await store.mcpServers.list()).length === 0) return undefined;
  const values = await openValues({ directory: own, store });
  const servers = await openMcpServers(app, store, {
    secrets: values.secrets,
    setting: (name) => values.getSetting(name),
    originOf: () => operatorOrigin,
    identity: identityOf(directory, await ensureMasterToken(directory)),
    logger,
  });
  const started = servers.list().filter(({ enabled }) => enabled);
  if (started.length > 0) tell(started);
  await untilListed(servers, app.config.mcp?.listWait)();
  return servers;
}

/** Returns the function that reads descriptions of APIs: those of the workspace's own files, and at addresses. */
function apiOpener(
  { workspace, config }: Pick<App, "workspace" | "config">,
  secrets: Pick<Secrets, "learn">,
): OpenApi {
  return async ({ spec, baseUrl, auth, headers, isReadOnly, documents, signInAs, tokens }, signal) => {
    // Loaded late: most workspaces have no API.
    const { Api, GraphqlApi } = await import("../apis/index.ts");
    const root = await realPathOf(workspace.directory);
    for (const path of [spec, documents]) {
      if (typeof path !== "string" || isInside(root, await realPathOf(path))) continue;
      throw new ConfigurationError(`${path} is outside the workspace. Copy it there, or name an address.`);
    }
    // The operator wrote these addresses, so they may be private. What a description names may not, unless allowed.
    const written = [
      spec instanceof URL ? spec : undefined,
      baseUrl === undefined ? undefined : URL.parse(baseUrl),
    ];
    const hosts = written.flatMap((url) => (url ? [plainHost(url.hostname)] : []));
    const credentials = Object.entries(auth).map(([name, value]): [string, Credential] => [
      name,
      // The entry's schema has checked which members there are.
      typeof value === "string" ? { kind: "text", value } : ({ kind: "client", ...value } as Credential),
    ]);
    if (signInAs !== undefined && tokens !== undefined)
      credentials.push([signInAs, { kind: "person", ...tokens }]);
    const settings = {
      spec:
        spec instanceof URL ? { kind: "address" as const, url: spec } : { kind: "file" as const, path: spec },
      credentials: new Map(credentials),
      rules: createAddressRules([...(config.network?.allowPrivate ?? []), ...hosts]),
    };
    const learn = (value: string) => secrets.learn("api-token", value);
    const whole = { ...settings, baseUrl, headers, isReadOnly, learn };
    return documents === undefined ? Api.open(whole, signal) : GraphqlApi.open(whole, documents, signal);
  };
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
  const { entries } = await readMcpFile(place).catch(() => ({ entries: new Map<string, never>() }));
  const found = [
    ...[...entries].flatMap(([key, one]) => ("entry" in one ? [{ key, entry: one.entry, place }] : [])),
    // The store checks entries when they are added.
    ...rows.flatMap(({ key, entry }) => (entry === undefined ? [] : [{ key, entry: entry as ServerEntry }])),
  ];
  return found.flatMap(({ entry, ...where }) => {
    const problem = problemOfOwnEntry(entry, directory, address);
    return problem === undefined ? [] : [{ ...where, problem }];
  });
}

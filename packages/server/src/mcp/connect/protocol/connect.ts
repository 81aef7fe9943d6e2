import { AsyncLocalStorage } from "node:async_hooks";
import { basename } from "node:path";
import {
  Client,
  type PriorDiscovery,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { RACKS } from "../../../calls/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import type { ResolvedEntry } from "../config/resolve-entry.ts";
import { installedProgram } from "../process/program.ts";
import { type RecentLines, StdioTransport } from "../process/stdio-transport.ts";
import { asksForCredentials, ConfigurationError } from "../upstream-state.ts";
import type { PackageStore } from "../wanted-servers.ts";
import { fetchWithRefusals, lostConnection, UpstreamError } from "./failures.ts";
import { boundedFetch, type Fetch, LONGEST_MESSAGE } from "./fetch.ts";
import { toUpstreamError } from "./json-rpc.ts";
import { type Answering, allCapabilities, type Verdict } from "./questions.ts";
import { RequestLane } from "./requests.ts";
import { UpstreamSession } from "./session.ts";
import { TASKS_EXTENSION } from "./task-runs.ts";

export interface ConnectOptions {
  /** The key of the server, for messages. */
  readonly server: string;
  readonly entry: ResolvedEntry;
  /** What is known from an earlier time. */
  readonly prior: Verdict | undefined;
  readonly fingerprint: string;
  readonly lines: RecentLines;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** The racks that a process is started by, for its environment. */
  readonly racks: string;
  /** Where packages are installed. */
  readonly packages: PackageStore;
  /** In milliseconds, for the handshake. */
  readonly timeout: number;
  /** How long somebody may think about a question of the server, in milliseconds. */
  readonly patience: number;
  readonly signal: AbortSignal;
}

type AddressEntry = ResolvedEntry & { readonly kind: "address" };

/** A server that is asked which protocol it speaks and says nothing speaks the old one. */
const LONGEST_PROBE = 10_000;

/** Starts or reaches a server and shakes hands. Rejects with an `Error` whose message says what happened. */
export async function connectUpstream(options: ConnectOptions): Promise<UpstreamSession> {
  const { entry } = options;
  if (entry.kind === "address") return connectAddress(entry, options);
  const open = await processOpener(entry, options);
  return connectProcess(open, options);
}

async function connectProcess(open: () => Line, options: ConnectOptions): Promise<UpstreamSession> {
  const prior = priorOf(options.prior);
  if (prior !== undefined) return connect(open(), "stdio", options, prior);
  try {
    return await connect(open(), "stdio", options, undefined);
  } catch (thrown) {
    // Some servers end when the first thing that they are sent is not what they expect; those speak the old protocol.
    if (!failedAtProbe(thrown) || options.signal.aborted) throw thrown;
    return connect(open(), "stdio", options, { kind: "legacy" });
  }
}

async function connectAddress(entry: AddressEntry, options: ConnectOptions): Promise<UpstreamSession> {
  const { prior, lines, signal } = options;
  const kind = entry.type ?? prior?.transport;
  const sse = () => openAddress(entry, "sse", lines);
  if (kind === "sse") return connect(sse(), "sse", options, { kind: "legacy" });
  // However many ways are tried, together they have the time of one.
  const limit = AbortSignal.timeout(options.timeout);
  try {
    return await connectHttp(entry, options, limit);
  } catch (thrown) {
    // One that was remembered to speak it is not from before it.
    if (kind === "http" || !isOldServer(thrown)) throw thrown;
    // As the protocol says for servers from before Streamable HTTP.
    const line = sse();
    return connect(line, "sse", options, { kind: "legacy" }, limit).catch((other: unknown) => {
      // Where neither is spoken, what was asked for first is what there is to say.
      throw line.hearing.isOpen || asksForCredentials(other) || signal.aborted ? other : thrown;
    });
  }
}

async function connectHttp(
  entry: AddressEntry,
  options: ConnectOptions,
  limit: AbortSignal,
): Promise<UpstreamSession> {
  const open = () => openAddress(entry, "http", options.lines);
  const prior = priorOf(options.prior);
  try {
    return await connect(open(), "http", options, prior, limit);
  } catch (thrown) {
    if (prior !== undefined || options.signal.aborted || !failedAtProbe(thrown)) throw thrown;
    return connect(open(), "http", options, { kind: "legacy" }, limit).catch((other: unknown) => {
      throw speaksNoOldProtocol(other) ? thrown : other;
    });
  }
}

async function connect(
  { transport, scope, hearing }: Line,
  kind: Verdict["transport"],
  options: ConnectOptions,
  prior: PriorDiscovery | undefined,
  limit = AbortSignal.timeout(options.timeout),
): Promise<UpstreamSession> {
  const { server, clientInfo, timeout, patience, lines, signal } = options;
  const roots = options.entry.roots.map((uri) => ({ uri }));
  const client = new Client(clientInfo, {
    capabilities: allCapabilities,
    versionNegotiation: {
      mode: "auto",
      probe: { timeoutMs: Math.min(LONGEST_PROBE, Math.ceil(timeout / 3)) },
    },
  });
  // For a server that asks before the lane is there.
  client.setRequestHandler("roots/list", () => ({ roots }));
  const giveUp = () => void transport.close().catch(() => {});
  const either = AbortSignal.any([signal, limit]);
  either.addEventListener("abort", giveUp, { once: true });
  try {
    either.throwIfAborted();
    await Promise.race([
      client.connect(transport, { timeout, ...(prior === undefined ? {} : { prior }) }),
      rejection(either),
    ]);
  } catch (thrown) {
    await transport.close().catch(() => {});
    if (signal.aborted) throw new UpstreamError("unavailable", "It was stopped while it started.");
    if (limit.aborted) {
      const message = `It did not finish the handshake within ${timeout} ms.${slowStartAdvice(options.entry)}`;
      throw new UpstreamError("timeout", message);
    }
    throw handshakeFailure(thrown, transport);
  } finally {
    either.removeEventListener("abort", giveUp);
  }
  const era = client.getProtocolEra() ?? "legacy";
  const discover = client.getDiscoverResult();
  const lane = new RequestLane({
    server,
    transport,
    modern: era === "modern" ? client.getNegotiatedProtocolVersion() : undefined,
    scope,
    hasTasks: hasTasks(era, client.getServerCapabilities()),
    clientInfo,
    roots,
    patience,
    onLog: (params) => lines.add("log", logText(params)),
  });
  const verdict: Verdict = {
    era,
    ...(era === "modern" && discover !== undefined ? { discover } : {}),
    transport: kind,
    at: prior === undefined ? Date.now() : (options.prior?.at ?? Date.now()),
    fingerprint: options.fingerprint,
  };
  return new UpstreamSession({ client, transport, lane, verdict, hearing });
}

async function processOpener(
  entry: ResolvedEntry & { readonly kind: "process" },
  { server, lines, packages, racks, signal }: ConnectOptions,
): Promise<() => Line> {
  const { install, command, args, cwd } = entry;
  const env = { ...entry.env, [RACKS]: racks };
  if (install === undefined) {
    const spec = { server, command: command ?? "", args, env, cwd };
    return () => ({ transport: new StdioTransport(spec, lines) });
  }
  const program = await installedProgram(packages, install, `mcp server ${server}`, command, signal);
  const spec = { server, command: process.execPath, args: ["--disable-sigusr1", program, ...args], env, cwd };
  return () => ({ transport: new StdioTransport(spec, lines) });
}

/** Whether it says that it can work on calls as tasks. In the older versions it says of which requests. */
function hasTasks(era: Verdict["era"], given: unknown): boolean {
  const { extensions, tasks } = isRecord(given) ? given : {};
  if (era === "modern") return isRecord(extensions) && extensions[TASKS_EXTENSION] !== undefined;
  const requests = isRecord(tasks) ? tasks.requests : undefined;
  const tools = isRecord(requests) ? requests.tools : undefined;
  return isRecord(tools) && tools.call !== undefined;
}

function priorOf(verdict: Verdict | undefined): PriorDiscovery | undefined {
  if (verdict === undefined) return undefined;
  if (verdict.discover !== undefined) return { kind: "modern", discover: verdict.discover };
  return { kind: "legacy" };
}

function isOldServer(thrown: unknown): boolean {
  const { status } = thrown instanceof UpstreamError ? thrown.facts : {};
  return status === 400 || status === 404 || status === 405;
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function logText({ level, logger, data }: Readonly<Record<string, unknown>>): string {
  const said = typeof data === "string" ? data : (JSON.stringify(data) ?? "");
  return [level, logger, said].filter((part) => typeof part === "string" && part !== "").join(" ");
}

/** Of JSON-RPC and MCP: the method, or the version of the protocol, is none that the server knows. */
const unknownThere: ReadonlySet<unknown> = new Set([-32_601, -32_022]);

/** What is said of a handshake that came to nothing. What was thrown is its cause. */
export function handshakeFailure(thrown: unknown, transport: Transport): Error {
  const version = unknownVersion(thrown);
  if (version !== undefined) return version;
  const ended = transport instanceof StdioTransport && !transport.isHungUp ? transport.ended : undefined;
  if (ended !== undefined) {
    const how = ended.signal === null ? `ended with exit code ${ended.code}` : `was ended by ${ended.signal}`;
    return new UpstreamError("unavailable", `It ${how} before the handshake was complete.`, {
      cause: thrown,
    });
  }
  if (lostConnection(thrown)?.kind === "broken") {
    const message = "The connection was closed before the handshake was complete.";
    return new UpstreamError("broken", message, { cause: thrown });
  }
  const { kind, message, facts } = toUpstreamError(thrown);
  // Whom a server does not even let in needs other credentials; of a single request it may be another matter.
  return new UpstreamError(facts.status === 403 ? "unauthorized" : kind, message, {
    ...facts,
    cause: thrown,
  });
}

/**
 * Whether all that is known is that the server could not be asked which protocol it speaks. Servers from before that
 * question treat it in every way but one, with silence, a page, a wrong status or the end of the connection, and are well.
 */
export function failedAtProbe(failure: unknown): boolean {
  const { kind, facts } = failure instanceof UpstreamError ? failure : {};
  const { status, scope, retryAfter } = facts ?? {};
  // It wants credentials, or to be left alone.
  const isTold = status === 401 || status === 429 || scope !== undefined || retryAfter !== undefined;
  // One that cannot be reached cannot be asked anything else either; the end of a process is told of as that too.
  const isAway = kind === "unavailable" && lostConnection(failure) !== undefined;
  if (isTold || isAway) return false;
  for (let at = failure; at instanceof Error; at = at.cause)
    if (at.message.startsWith("Version negotiation")) return true;
  return false;
}

/** Whether the server understood the handshake of the old protocol, and says that it does not speak it. */
export function speaksNoOldProtocol(failure: unknown): boolean {
  return failure instanceof UpstreamError && unknownThere.has(failure.code);
}

/** What the two do not have in common they will not have at the next attempt either. */
function unknownVersion(thrown: unknown): ConfigurationError | undefined {
  const message = thrown instanceof Error ? thrown.message : "";
  const [, version] = /^Server's protocol version is not supported: (.{1,100})/.exec(message) ?? [];
  if (version === undefined) return undefined;
  return new ConfigurationError(
    `It answered the handshake with version "${version}" of the protocol, which this rack does not speak. Update the rack, or use a release of the server that speaks an older version, then restart it.`,
  );
}

/** Programs that fetch what they run. */
const ofNpm: ReadonlySet<string> = new Set(["npx", "npm", "pnpx", "pnpm", "bunx", "yarn"]);
const others: ReadonlySet<string> = new Set(["uvx", "uv", "pipx"]);

/** What may help where a server said nothing in time. It begins with a space, or is empty. */
export function slowStartAdvice(entry: ResolvedEntry): string {
  const program =
    entry.kind === "process" ? basename(entry.command ?? "").replace(/\.(?:cmd|exe)$/i, "") : "";
  if (!ofNpm.has(program) && !others.has(program)) return "";
  const install = ofNpm.has(program)
    ? ', or have it installed ahead: "toolrack": { "install": "PACKAGE@VERSION" }'
    : "";
  const certificates = ofNpm.has(program) ? "NODE_EXTRA_CA_CERTS" : "SSL_CERT_FILE";
  return ` ${program} may still be fetching it, or may not reach where it is fetched from: it is given no variables but those of its entry. Behind a proxy, list HTTPS_PROXY and ${certificates} in the entry's env${install}.`;
}

/** The way to a server. */
export interface Line {
  readonly transport: Transport;
  /** Where the request is noted that a message belongs to, when each has an answer of its own. */
  readonly scope?: AsyncLocalStorage<Answering>;
  /** Undefined for a server that can always speak by itself. */
  readonly hearing?: Hearing;
}

/** Whether a server that is reached over HTTP gave us a stream on which it can speak by itself. */
export interface Hearing {
  isOpen: boolean;
}

/** The way to a server at an address. Nothing is sent there yet. */
export function openAddress(
  { url, headers }: ResolvedEntry & { readonly kind: "address" },
  kind: "http" | "sse",
  lines: RecentLines,
): Line & { readonly hearing: Hearing } {
  const requestInit = { headers: { ...headers } };
  const hearing = { isOpen: false };
  if (kind === "http") {
    const scope = new AsyncLocalStorage<Answering>();
    const refusing = fetchWithRefusals(boundedFetch(LONGEST_MESSAGE), { isSession: false, scope });
    const fetch = noting(refusing, hearing);
    return { transport: new StreamableHTTPClientTransport(url, { requestInit, fetch }), scope, hearing };
  }
  const bounded = boundedFetch(LONGEST_MESSAGE, ({ message }) => {
    lines.add("rack", message);
    void transport.close();
  });
  // There the stream is the session.
  const fetch = noting(fetchWithRefusals(bounded, { isSession: true }), hearing);
  const transport = new SSEClientTransport(url, { requestInit, fetch });
  return { transport, hearing };
}

function noting(fetch: Fetch, hearing: Hearing): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    // With an id, a stream is taken up again, mostly that of a request.
    if ((init?.method ?? "GET") === "GET" && !new Headers(init?.headers).has("last-event-id")) {
      const type = response.headers.get("content-type") ?? "";
      hearing.isOpen = response.ok && /^\s*text\/event-stream/i.test(type);
    }
    return response;
  };
}

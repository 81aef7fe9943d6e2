import { AsyncLocalStorage } from "node:async_hooks";
import {
  Client,
  type PriorDiscovery,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import type { DependencyStore } from "../../../dependencies/dependency-store.ts";
import { isRecord } from "../../../json/is-record.ts";
import type { ResolvedEntry } from "../config/resolve-entry.ts";
import { asksForCredentials, ConfigurationError } from "../failure-state.ts";
import { installedProgram } from "../process/installed-program.ts";
import type { RecentLines } from "../process/recent-lines.ts";
import { StdioTransport } from "../process/stdio-transport.ts";
import type { Answering } from "./answering.ts";
import { allCapabilities } from "./ask-caller.ts";
import { boundedFetch, LONGEST_MESSAGE } from "./bounded-fetch.ts";
import { fetchWithRefusals } from "./http-refusal.ts";
import { toUpstreamError } from "./json-rpc.ts";
import { RequestLane } from "./request-lane.ts";
import { TASKS_EXTENSION } from "./task-runs.ts";
import { UpstreamError } from "./upstream-error.ts";
import { UpstreamSession } from "./upstream-session.ts";
import type { Verdict } from "./verdict.ts";

export interface ConnectOptions {
  /** The key of the server, for messages. */
  readonly server: string;
  readonly entry: ResolvedEntry;
  /** What is known from an earlier time. */
  readonly prior: Verdict | undefined;
  readonly fingerprint: string;
  readonly lines: RecentLines;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Where packages are installed. */
  readonly packages: Pick<DependencyStore, "install">;
  /** In milliseconds, for the handshake. */
  readonly timeout: number;
  /** How long somebody may think about a question of the server, in milliseconds. */
  readonly patience: number;
  readonly signal: AbortSignal;
}

/** The way to a server. */
interface Line {
  readonly transport: Transport;
  /** Where the request is noted that a message belongs to, when each has an answer of its own. */
  readonly scope?: AsyncLocalStorage<Answering>;
}

/** A server that is asked which protocol it speaks and says nothing speaks the old one. */
const LONGEST_PROBE = 10_000;

/** Starts or reaches a server and shakes hands. Rejects with an `Error` whose message says what happened. */
export async function connectUpstream(options: ConnectOptions): Promise<UpstreamSession> {
  const { entry, prior, lines } = options;
  if (entry.kind === "process") {
    const open = await processOpener(entry, options);
    return connectProcess(open, options);
  }
  const kind = entry.type ?? prior?.transport;
  if (kind === "sse") return connect(openAddress(entry, "sse", lines), "sse", options, { kind: "legacy" });
  try {
    return await connect(openAddress(entry, "http", lines), "http", options, priorOf(prior));
  } catch (thrown) {
    // One that was remembered to speak it is not from before it.
    if (kind === "http" || !isOldServer(thrown)) throw thrown;
    // As the protocol says for servers from before Streamable HTTP.
    const older = connect(openAddress(entry, "sse", lines), "sse", options, { kind: "legacy" });
    return older.catch((other: unknown) => {
      // Where neither is spoken, what was asked for first is what there is to say.
      throw asksForCredentials(other) || options.signal.aborted ? other : thrown;
    });
  }
}

async function connectProcess(open: () => Line, options: ConnectOptions): Promise<UpstreamSession> {
  const prior = priorOf(options.prior);
  if (prior !== undefined) return connect(open(), "stdio", options, prior);
  try {
    return await connect(open(), "stdio", options, undefined);
  } catch (thrown) {
    // Some servers end when the first thing that they are sent is not what they expect; those speak the old protocol.
    const isProbe = (thrown as Error | undefined)?.message.startsWith("Version negotiation failed") === true;
    if (!isProbe || options.signal.aborted) throw thrown;
    return connect(open(), "stdio", options, { kind: "legacy" });
  }
}

async function connect(
  { transport, scope }: Line,
  kind: Verdict["transport"],
  options: ConnectOptions,
  prior: PriorDiscovery | undefined,
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
  const limit = AbortSignal.timeout(timeout);
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
      throw new UpstreamError("timeout", `It did not finish the handshake within ${timeout} ms.`);
    }
    throw describe(thrown, transport);
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
  return new UpstreamSession({ client, transport, lane, verdict });
}

async function processOpener(
  entry: ResolvedEntry & { readonly kind: "process" },
  { server, lines, packages, signal }: ConnectOptions,
): Promise<() => Line> {
  const { install, command, args, env, cwd } = entry;
  if (install === undefined) {
    const spec = { server, command: command ?? "", args, env, cwd };
    return () => ({ transport: new StdioTransport(spec, lines) });
  }
  const program = await installedProgram(packages, install, `mcp server ${server}`, command, signal);
  const spec = { server, command: process.execPath, args: [program, ...args], env, cwd };
  return () => ({ transport: new StdioTransport(spec, lines) });
}

function openAddress(
  { url, headers }: ResolvedEntry & { readonly kind: "address" },
  kind: "http" | "sse",
  lines: RecentLines,
): Line {
  const requestInit = { headers: { ...headers } };
  if (kind === "http") {
    const scope = new AsyncLocalStorage<Answering>();
    const fetch = fetchWithRefusals(boundedFetch(LONGEST_MESSAGE), { isSession: false, scope });
    return { transport: new StreamableHTTPClientTransport(url, { requestInit, fetch }), scope };
  }
  const bounded = boundedFetch(LONGEST_MESSAGE, ({ message }) => {
    lines.add("rack", message);
    void transport.close();
  });
  // There the stream is the session.
  const fetch = fetchWithRefusals(bounded, { isSession: true });
  const transport = new SSEClientTransport(url, { requestInit, fetch });
  return { transport };
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

function describe(thrown: unknown, transport: Transport): Error {
  const version = unknownVersion(thrown);
  if (version !== undefined) return version;
  const ended = transport instanceof StdioTransport && !transport.isHungUp ? transport.ended : undefined;
  if (ended !== undefined && !isProbeFailure(thrown)) {
    const how = ended.signal === null ? `ended with exit code ${ended.code}` : `was ended by ${ended.signal}`;
    return new UpstreamError("unavailable", `It ${how} before the handshake was complete.`, {
      cause: thrown,
    });
  }
  const error = toUpstreamError(thrown);
  // Whom a server does not even let in needs other credentials; of a single request it may be another matter.
  if (error.facts.status !== 403) return error;
  return new UpstreamError("unauthorized", error.message, { ...error.facts, cause: thrown });
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

function isProbeFailure(thrown: unknown): boolean {
  return (thrown as Error | undefined)?.message.startsWith("Version negotiation failed") === true;
}

function logText({ level, logger, data }: Readonly<Record<string, unknown>>): string {
  const said = typeof data === "string" ? data : (JSON.stringify(data) ?? "");
  return [level, logger, said].filter((part) => typeof part === "string" && part !== "").join(" ");
}

import { Client, type PriorDiscovery } from "@modelcontextprotocol/client";
import type { DependencyStore } from "../../../dependencies/dependency-store.ts";
import { isRecord } from "../../../json/is-record.ts";
import type { ResolvedEntry } from "../config/resolve-entry.ts";
import { asksForCredentials } from "../failure-state.ts";
import { installedProgram } from "../process/installed-program.ts";
import type { RecentLines } from "../process/recent-lines.ts";
import { StdioTransport } from "../process/stdio-transport.ts";
import { allCapabilities } from "./ask-caller.ts";
import { failedAtProbe, handshakeFailure, speaksNoOldProtocol } from "./handshake-failure.ts";
import { type Line, openAddress } from "./open-address.ts";
import { RequestLane } from "./request-lane.ts";
import { slowStartAdvice } from "./slow-start-advice.ts";
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

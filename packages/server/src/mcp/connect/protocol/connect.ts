import { basename } from "node:path";
import { Client, type PriorDiscovery } from "@modelcontextprotocol/client";
import { RACKS } from "../../../calls/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import { tasksExtension } from "../../wire/index.ts";
import type { ResolvedEntry } from "../config/resolve-entry.ts";
import { UpstreamError } from "../failures.ts";
import { installedProgram, type PackageStore } from "../process/program.ts";
import type { RecentLines } from "../process/recent-lines.ts";
import { StdioTransport } from "../process/stdio-transport.ts";
import { type AddressEntry, type Connection, openAddress } from "./http.ts";
import type { Verdict } from "./messages.ts";
import { allCapabilities } from "./questions.ts";
import { Requester } from "./requests.ts";
import { failedAtProbe, handshakeFailure, speaksNoOldProtocol } from "./sdk-errors.ts";
import { UpstreamSession } from "./session.ts";

export interface ConnectOptions {
  /** The key of the server, for messages. */
  readonly server: string;
  readonly entry: ResolvedEntry;
  /** The verdict of an earlier connection. */
  readonly prior: Verdict | undefined;
  readonly fingerprint: string;
  readonly lines: RecentLines;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** The ids of the racks that start the process, for its environment. */
  readonly racks: string;
  /** Where packages are installed. */
  readonly packages: PackageStore;
  /** In milliseconds, for the handshake. */
  readonly timeout: number;
  /** How long a person may think about a question of the server, in milliseconds. */
  readonly questionTimeout: number;
  readonly signal: AbortSignal;
}

/** A server that does not answer which protocol it speaks within this time is taken for an old one. */
const LONGEST_PROBE = 10_000;

const legacy: PriorDiscovery = { kind: "legacy" };

/** Starts or reaches a server and does the handshake. Rejects with an `Error` whose message says what happened. */
export async function connectUpstream(options: ConnectOptions): Promise<UpstreamSession> {
  const { entry } = options;
  if (entry.kind === "address") return connectAddress(entry, options);
  const open = await processOpener(entry, options);
  // Some servers of the old protocol end when the first message is not what they expect, so a second process may be needed.
  return connectEither(open, "stdio", options);
}

async function connectAddress(entry: AddressEntry, options: ConnectOptions): Promise<UpstreamSession> {
  const { prior, lines, signal } = options;
  const kind = entry.type ?? prior?.transport;
  const sse = () => openAddress(entry, "sse", lines);
  if (kind === "sse") return connect(sse(), "sse", options, legacy);
  // All attempts together have the time of one.
  const limit = AbortSignal.timeout(options.timeout);
  try {
    return await connectEither(() => openAddress(entry, "http", lines), "http", options, limit);
  } catch (thrown) {
    const { status = 0 } = thrown instanceof UpstreamError ? thrown.facts : {};
    // A server that is known to speak Streamable HTTP is not tried with SSE.
    if (kind === "http" || ![400, 404, 405].includes(status)) throw thrown;
    // The protocol says to try SSE then, for servers older than Streamable HTTP.
    const connection = sse();
    return connect(connection, "sse", options, legacy, limit).catch((other: unknown) => {
      const needsCredentials = other instanceof UpstreamError && other.asksForCredentials;
      // If the server speaks neither, the first error is the useful one.
      throw connection.serverStream.isOpen || needsCredentials || signal.aborted ? other : thrown;
    });
  }
}

/** Uses the known protocol if there is one. Otherwise tries the new one, then the old one if the probe failed. */
async function connectEither(
  open: () => Connection,
  kind: "stdio" | "http",
  options: ConnectOptions,
  limit?: AbortSignal,
): Promise<UpstreamSession> {
  const { prior: known, signal } = options;
  const { discover } = known ?? {};
  const modern = discover && ({ kind: "modern", discover } as const);
  const prior = known && (modern ?? legacy);
  try {
    return await connect(open(), kind, options, prior, limit);
  } catch (thrown) {
    if (prior !== undefined || signal.aborted || !failedAtProbe(thrown)) throw thrown;
    return connect(open(), kind, options, legacy, limit).catch((other: unknown) => {
      throw kind === "http" && speaksNoOldProtocol(other) ? thrown : other;
    });
  }
}

async function connect(
  connection: Connection,
  kind: Verdict["transport"],
  options: ConnectOptions,
  prior: PriorDiscovery | undefined,
  limit = AbortSignal.timeout(options.timeout),
): Promise<UpstreamSession> {
  const { server, clientInfo, timeout, questionTimeout, lines, signal } = options;
  const { transport, scope } = connection;
  const roots = options.entry.roots.map((uri) => ({ uri }));
  const probe = { timeoutMs: Math.min(LONGEST_PROBE, Math.ceil(timeout / 3)) };
  const client = new Client(clientInfo, {
    capabilities: allCapabilities,
    versionNegotiation: { mode: "auto", probe },
  });
  // Answers a server that asks before the requester exists.
  client.setRequestHandler("roots/list", () => ({ roots }));
  const either = AbortSignal.any([signal, limit]);
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const giveUp = () => {
    void transport.close().catch(() => {});
    reject(either.reason);
  };
  either.addEventListener("abort", giveUp, { once: true });
  try {
    either.throwIfAborted();
    const handshake = client.connect(transport, { timeout, ...(prior === undefined ? {} : { prior }) });
    await Promise.race([handshake, aborted]);
  } catch (thrown) {
    await transport.close().catch(() => {});
    if (signal.aborted) throw new UpstreamError("unavailable", "It was stopped while it started.");
    if (limit.aborted) {
      const message = `It did not finish the handshake within ${timeout} ms.${slowStartAdvice(options.entry)}`;
      throw new UpstreamError("timeout", message);
    }
    const isProcess = transport instanceof StdioTransport && !transport.wasEndedByUs;
    throw handshakeFailure(thrown, isProcess ? transport.ending : undefined);
  } finally {
    either.removeEventListener("abort", giveUp);
  }
  const era = client.getProtocolEra() ?? "legacy";
  const requester = new Requester({
    server,
    transport,
    modern: era === "modern" ? client.getNegotiatedProtocolVersion() : undefined,
    scope,
    hasTasks: hasTasks(era, client.getServerCapabilities()),
    clientInfo,
    roots,
    questionTimeout,
    onLog: ({ level, logger, data }) => {
      const text = typeof data === "string" ? data : JSON.stringify(data);
      const parts = [level, logger, text].filter((part) => typeof part === "string" && part !== "");
      lines.add("log", parts.join(" "));
    },
  });
  const verdict: Verdict = {
    era,
    discover: era === "modern" ? client.getDiscoverResult() : undefined,
    transport: kind,
    at: prior === undefined ? Date.now() : (options.prior?.at ?? Date.now()),
    fingerprint: options.fingerprint,
  };
  return new UpstreamSession(client, connection, requester, verdict);
}

async function processOpener(
  entry: ResolvedEntry & { readonly kind: "process" },
  { server, lines, packages, racks, signal }: ConnectOptions,
): Promise<() => Connection> {
  const { install, cwd } = entry;
  let { command = "", args } = entry;
  if (install !== undefined) {
    const label = `mcp server ${server}`;
    const program = await installedProgram(packages, install, label, entry.command, signal);
    command = process.execPath;
    args = ["--disable-sigusr1", program, ...args];
  }
  const spec = { server, command, args, env: { ...entry.env, [RACKS]: racks }, cwd };
  return () => ({ transport: new StdioTransport(spec, lines) });
}

/** Whether the server can run calls as tasks. Older versions declare this for each kind of request. */
function hasTasks(era: Verdict["era"], given: unknown): boolean {
  const { extensions, tasks } = isRecord(given) ? given : {};
  if (era === "modern") return isRecord(extensions) && extensions[tasksExtension] !== undefined;
  const requests = isRecord(tasks) ? tasks.requests : undefined;
  const tools = isRecord(requests) ? requests.tools : undefined;
  return isRecord(tools) && tools.call !== undefined;
}

/** Programs that download the package that they run. */
const npmRunners: ReadonlySet<string> = new Set(["npx", "npm", "pnpx", "pnpm", "bunx", "yarn"]);
const pythonRunners: ReadonlySet<string> = new Set(["uvx", "uv", "pipx"]);

/** Advice for a server that did not answer in time. Begins with a space, or is empty. */
function slowStartAdvice(entry: ResolvedEntry): string {
  const command = entry.kind === "process" ? (entry.command ?? "") : "";
  const program = basename(command).replace(/\.(?:cmd|exe)$/i, "");
  if (!npmRunners.has(program) && !pythonRunners.has(program)) return "";
  const [certificates, install] = npmRunners.has(program)
    ? ["NODE_EXTRA_CA_CERTS", ', or have it installed ahead: "toolrack": { "install": "PACKAGE@VERSION" }']
    : ["SSL_CERT_FILE", ""];
  return ` ${program} may still be fetching it, or may not reach where it is fetched from: it is given no variables but those of its entry. Behind a proxy, list HTTPS_PROXY and ${certificates} in the entry's env${install}.`;
}

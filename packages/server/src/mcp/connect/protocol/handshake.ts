import { basename } from "node:path";
import { RACKS, racksFor } from "../../../calls/index.ts";
import { asRecord, isRecord, reasonOf, unlessAborted } from "../../../helpers/index.ts";
import { isClientInfo, legacyVersions, metaKeys, modernVersion, rpcCodes } from "../../wire/index.ts";
import type { ResolvedEntry } from "../config/resolve-entry.ts";
import { ConfigurationError, type ProcessEnd, processEnded, sentence, UpstreamError } from "../failures.ts";
import type { UpstreamLimits } from "../limits.ts";
import type { RecentLines } from "../process/recent-lines.ts";
import { installedProgram } from "../process/server-files.ts";
import { StdioTransport } from "../process/stdio-transport.ts";
import type { ServerContext } from "../server-context.ts";
import { ApiTransport } from "./api.ts";
import { type AddressEntry, HttpTransport } from "./http.ts";
import { lostConnection } from "./http-errors.ts";
import type { Message, Transport, Verdict } from "./messages.ts";
import { allCapabilities } from "./questions.ts";
import { type ServerProfile, UpstreamSession } from "./session.ts";

export interface ConnectOptions {
  /** The key of the server, for error messages. */
  readonly server: string;
  readonly entry: ResolvedEntry;
  /** The verdict of an earlier connection. */
  readonly prior: Verdict | undefined;
  /** The only version of the protocol that the entry allows. Undefined: the newest that both sides speak. */
  readonly protocol: string | undefined;
  readonly fingerprint: string;
  readonly lines: RecentLines;
  readonly context: Pick<ServerContext, "clientInfo" | "identity" | "packages" | "openApi">;
  readonly limits: Pick<UpstreamLimits, "connect" | "question">;
  readonly signal: AbortSignal;
}

/**
 * In milliseconds. A server that does not answer within this time which protocol it speaks is taken for a
 * server of the old protocol.
 */
const LONGEST_PROBE = 10_000;

/** Starts or reaches a server and does the handshake. Rejects with an `Error` whose message says what happened. */
export async function connectUpstream(options: ConnectOptions): Promise<UpstreamSession> {
  const { entry, prior } = options;
  if (entry.kind === "address") return connectAddress(entry, options);
  if (entry.kind === "api") {
    const { context, lines } = options;
    const transport = new ApiTransport((signal) => context.openApi(entry, signal), lines);
    return connect(() => transport, "api", options, legacyVerdict("api", options));
  }
  return connect(await processOpener(entry, options), "stdio", options, prior);
}

async function connectAddress(entry: AddressEntry, options: ConnectOptions): Promise<UpstreamSession> {
  const { prior, protocol, signal } = options;
  const kind = entry.type ?? prior?.transport;
  const sse = new HttpTransport(entry, "sse");
  const legacy = legacyVerdict("sse", options);
  if (kind === "sse") return connect(() => sse, "sse", options, legacy);
  // The attempts over Streamable HTTP and over SSE share one time limit.
  const limit = AbortSignal.timeout(options.limits.connect);
  try {
    return await connect(() => new HttpTransport(entry, "http"), "http", options, prior, limit);
  } catch (thrown) {
    const { status = 0 } = thrown instanceof UpstreamError ? thrown.facts : {};
    // A server that is known to speak Streamable HTTP is not tried with SSE, on which only older versions are spoken.
    if (kind === "http" || protocol === modernVersion || ![400, 404, 405].includes(status)) throw thrown;
    // The protocol says to try SSE then, for servers older than Streamable HTTP.
    return connect(() => sse, "sse", options, legacy, limit).catch((other: unknown) => {
      const needsCredentials = other instanceof UpstreamError && other.asksForCredentials;
      // If the server speaks neither transport, the first error is the useful one.
      throw sse.hasOpened || needsCredentials || signal.aborted ? other : thrown;
    });
  }
}

function legacyVerdict(transport: Verdict["transport"], { fingerprint }: ConnectOptions): Verdict {
  return { era: "legacy", transport, at: Date.now(), fingerprint };
}

/** Opens a transport and does the handshake. `prior`: the protocol that the server is known to speak. */
async function connect(
  open: () => Transport,
  kind: Verdict["transport"],
  options: ConnectOptions,
  prior: Verdict | undefined,
  limit = AbortSignal.timeout(options.limits.connect),
): Promise<UpstreamSession> {
  const { entry, limits, lines, signal, fingerprint } = options;
  const transport = open();
  const first: Verdict = { era: "modern", transport: kind, at: prior?.at ?? Date.now(), fingerprint };
  const onLog = ({ level, logger, data }: Message) => {
    const text = typeof data === "string" ? data : JSON.stringify(data);
    const parts = [level, logger, text].filter((part) => typeof part === "string" && part !== "");
    lines.add("log", parts.join(" "));
  };
  const roots = entry.roots.map((uri) => ({ uri }));
  const { clientInfo } = options.context;
  const own = { server: options.server, questionTimeout: limits.question };
  const session = new UpstreamSession(first, { ...own, transport, clientInfo, roots, onLog });
  const either = AbortSignal.any([signal, limit]);
  const handshake = async () => {
    either.throwIfAborted();
    await transport.start();
    await shakeHands(session, prior, options);
  };
  try {
    await unlessAborted(handshake(), either);
    return session;
  } catch (thrown) {
    const wasEnded = session.isClosed;
    await session.close();
    if (signal.aborted) throw new UpstreamError("unavailable", "It was stopped while it started.");
    if (limit.aborted) {
      const message = `It did not finish the handshake within ${limits.connect} ms.${slowStartAdvice(entry)}`;
      const why = { code: "handshake_slow", details: { limit: limits.connect } } as const;
      throw new UpstreamError("timeout", message, { why });
    }
    // Some servers of the old protocol end when the first message is not what they expect, so a second process is needed.
    const mayBeOld = prior === undefined && options.protocol === undefined;
    if (kind === "stdio" && wasEnded && mayBeOld && session.isModern)
      return connect(open, kind, options, legacyVerdict(kind, options));
    throw handshakeFailure(thrown, wasEnded ? transport.ending : undefined);
  }
}

/**
 * Uses the protocol of the entry, or the known one, if there is one. Otherwise asks for the new one, and takes the old
 * one if that fails.
 */
async function shakeHands(
  session: UpstreamSession,
  prior: Verdict | undefined,
  { limits, context: { clientInfo }, protocol }: ConnectOptions,
): Promise<void> {
  const { verdict } = session;
  let failure: unknown;
  if (protocol === undefined ? prior?.era !== "legacy" : protocol === modernVersion) {
    const probe = Math.min(LONGEST_PROBE, Math.ceil(limits.connect / 3));
    try {
      const discover = prior?.discover ?? asRecord(await askVersions(session, probe));
      const { supportedVersions, capabilities, instructions, _meta } = discover;
      if (Array.isArray(supportedVersions) && supportedVersions.includes(modernVersion)) {
        const serverInfo = asRecord(_meta)[metaKeys.server];
        session.agreeOn(
          { ...verdict, discover },
          profileOf(modernVersion, { capabilities, instructions, serverInfo }),
        );
        return;
      }
    } catch (thrown) {
      if (session.isClosed || isFinal(thrown)) throw thrown;
      failure = thrown;
    }
    if (protocol !== undefined) throw pinFailure(protocol, failure);
  }
  // No version is agreed on yet, so that the transport must not name one.
  session.verdict = { ...verdict, era: "legacy" };
  const [newest] = legacyVersions;
  const params = { protocolVersion: protocol ?? newest, capabilities: allCapabilities, clientInfo };
  try {
    const result = asRecord(await session.exchange({ method: "initialize", params }));
    const { protocolVersion: version, capabilities, serverInfo } = result;
    if (typeof version !== "string" || !isRecord(capabilities) || !isClientInfo(serverInfo)) {
      const text = "Its answer to initialize does not have the form that MCP gives it.";
      throw new UpstreamError("broken", text);
    }
    if (!legacyVersions.some((known) => known === version)) {
      // Trying again cannot help when the two sides share no version.
      throw new ConfigurationError(
        `It answered the handshake with version "${version.slice(0, 100)}" of the protocol, which this rack does not speak. Update the rack, or use a release of the server that speaks an older version, then restart it.`,
      );
    }
    if (protocol !== undefined && version !== protocol)
      throw unspoken(protocol, `answers with version "${version}"`);
    session.agreeOn({ ...verdict, era: "legacy" }, profileOf(version, result));
  } catch (thrown) {
    // A server that does not know the old protocol speaks only the new one. Then the reason why the new one
    // failed is the useful error.
    throw failure !== undefined && speaksNoOldProtocol(thrown) ? failure : thrown;
  }
  await session.notify({ method: "notifications/initialized" });
}

/** Asks which versions the server speaks. One that refuses the version and names it as its own is asked once more. */
function askVersions(session: UpstreamSession, timeout: number): Promise<unknown> {
  const request = { method: "server/discover", params: {}, timeout };
  return session.exchange(request).catch((thrown: unknown) => {
    const { code, data } = thrown instanceof UpstreamError ? thrown : {};
    const { supported } = asRecord(data);
    const isOwn = Array.isArray(supported) && supported.includes(modernVersion);
    if (code === rpcCodes.unsupportedVersion && isOwn) return session.exchange(request);
    throw thrown;
  });
}

/** The error for a server that does not speak the version that its entry pins. Trying again cannot help. */
function unspoken(protocol: string, fact: string): ConfigurationError {
  return new ConfigurationError(
    `Its entry allows only version "${protocol}" of the protocol, and it ${sentence(fact)} Take toolrack.protocol out of the entry, or write a version there that the server speaks.`,
  );
}

/** `failure`: why the server did not answer the question which versions it speaks; undefined when it did. */
function pinFailure(protocol: string, failure: unknown): unknown {
  if (failure === undefined) return unspoken(protocol, "does not speak it");
  // A server that is silent or answers nonsense may be fine the next time.
  const isRefused = failure instanceof UpstreamError && failure.kind === "refused";
  return isRefused ? unspoken(protocol, `refuses it: ${failure.message}`) : failure;
}

function profileOf(
  protocolVersion: string,
  { capabilities, instructions, serverInfo }: Message,
): ServerProfile {
  const { name, version = "" } = isClientInfo(serverInfo) ? serverInfo : {};
  return {
    protocolVersion,
    capabilities: asRecord(capabilities),
    serverInfo: name === undefined ? undefined : { name, version },
    instructions: typeof instructions === "string" ? instructions : undefined,
  };
}

/**
 * Whether asking for the new protocol failed for a reason that would stop the old one too: the server wants credentials,
 * asks to wait, or cannot be reached. Older servers answer the question with silence, a web page, a wrong status or the
 * end of the connection, and may still work.
 */
function isFinal(failure: unknown): boolean {
  if (!(failure instanceof UpstreamError)) return true;
  const { status, scope, retryAfter } = failure.facts;
  const isRefused = status === 401 || status === 429 || scope !== undefined || retryAfter !== undefined;
  return isRefused || failure.kind === "unavailable";
}

/** Whether the server understood the handshake of the old protocol and refused it as unknown. */
function speaksNoOldProtocol(failure: unknown): boolean {
  if (!(failure instanceof UpstreamError)) return false;
  return failure.code === rpcCodes.methodNotFound || failure.code === rpcCodes.unsupportedVersion;
}

/** Describes a failed handshake. `ended`: how the server's process ended, if it did. */
function handshakeFailure(thrown: unknown, ended: ProcessEnd | undefined): Error {
  if (thrown instanceof ConfigurationError) return thrown;
  if (ended !== undefined) return processEnded(ended, " before the handshake was complete", thrown);
  if (!(thrown instanceof UpstreamError))
    return new UpstreamError("unavailable", reasonOf(thrown), { cause: thrown });
  const { kind, message, facts } = thrown;
  if (lostConnection(thrown.cause)?.kind === "broken")
    return new UpstreamError("broken", "The connection was closed before the handshake was complete.");
  // A 403 to the handshake means wrong credentials. For a single request, 403 may mean something else.
  const isUnwelcome = facts.status === 403;
  return new UpstreamError(isUnwelcome ? "unauthorized" : kind, message, { ...facts, cause: thrown });
}

async function processOpener(
  entry: ResolvedEntry & { readonly kind: "process" },
  { server, lines, context: { packages, identity }, signal }: ConnectOptions,
): Promise<() => StdioTransport> {
  const { install, cwd } = entry;
  let { command = "", args } = entry;
  if (install !== undefined) {
    const label = `mcp server ${server}`;
    const program = await installedProgram(packages, install, label, entry.command, signal);
    command = process.execPath;
    args = ["--disable-sigusr1", program, ...args];
  }
  const spec = { server, command, args, env: { ...entry.env, [RACKS]: racksFor(identity) }, cwd };
  return () => new StdioTransport(spec, lines);
}

/** Programs that download the npm package that they run. */
const npmRunners: ReadonlySet<string> = new Set(["npx", "npm", "pnpx", "pnpm", "bunx", "yarn"]);
const pythonRunners: ReadonlySet<string> = new Set(["uvx", "uv", "pipx"]);

/** Advice for a server that did not answer in time. Begins with a space, or is empty. */
function slowStartAdvice(entry: ResolvedEntry): string {
  const command = entry.kind === "process" ? (entry.command ?? "") : "";
  const program = basename(command).replace(/\.(?:cmd|exe)$/i, "");
  if (!npmRunners.has(program) && !pythonRunners.has(program)) return "";
  const [certificates, install] = npmRunners.has(program)
    ? ["NODE_EXTRA_CA_CERTS", ' Or have it installed ahead: "toolrack": { "install": "PACKAGE@VERSION" }.']
    : ["SSL_CERT_FILE", ""];
  return ` ${program} may still be fetching it, or may not reach where it is fetched from. Behind a proxy or a certificate authority of your own, start the rack with HTTPS_PROXY, ${certificates} and the like, or set them in the entry's env.${install}`;
}

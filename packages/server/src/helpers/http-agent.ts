/// <reference path="./undici-parts.d.ts" />
import type { Socket } from "node:net";
import type { Dispatcher, Pool } from "undici";

interface AgentOptions {
  /** How long it may take to open a connection, in milliseconds. 0: as long as it takes. */
  readonly connectTimeout: number;
  /** How long a connection that nobody uses stays open, in milliseconds, unless the server tells how long it keeps it. */
  readonly keepAliveTimeout: number;
}

/**
 * Opens an agent that keeps connections for further requests and follows no redirects. Only what sends requests is loaded:
 * all of undici takes 10 MB and 35 ms more. With NODE_USE_ENV_PROXY requests go through the proxy that the environment
 * names, as those of `node:http` do, which takes all of it.
 */
export async function openAgent({ connectTimeout, keepAliveTimeout }: AgentOptions): Promise<Dispatcher> {
  const { default: buildConnector } = await import("undici/lib/core/connect.js");
  const open = buildConnector({ timeout: connectTimeout });
  const connect: typeof open = (options, callback) =>
    open(options, (...[error, socket]) => {
      if (error !== null) return callback(error, null);
      watch(socket);
      callback(null, socket);
    });
  const options = { connect, keepAliveTimeout };
  if (process.env.NODE_USE_ENV_PROXY !== "1") {
    const { default: Agent } = await import("undici/lib/dispatcher/agent.js");
    return new Agent(options);
  }
  const { EnvHttpProxyAgent, Pool } = await import("undici");
  const clientFactory = (origin: URL, given: object) =>
    withTunnels(
      new Pool(origin, { ...given, ...(connectTimeout > 0 && { headersTimeout: connectTimeout }) }),
    );
  return new EnvHttpProxyAgent({ ...options, clientFactory });
}

/** Tells what is wrong with a proxy. Left to itself, undici asks one that hangs up again and again, without end. */
function withTunnels(proxy: Pool): Pool {
  const connect = proxy.connect.bind(proxy);
  const open = async (options: Dispatcher.ConnectOptions) => {
    const tunnel = await connect(options).catch((thrown) => {
      const { code } = Object(thrown);
      if (code === "UND_ERR_SOCKET") throw new Error("the proxy hung up");
      throw code === "UND_ERR_HEADERS_TIMEOUT" ? new Error("the proxy does not answer") : thrown;
    });
    if (tunnel.statusCode === 200) return tunnel;
    tunnel.socket.on("error", () => {}).destroy();
    throw new Error(`the proxy answered ${tunnel.statusCode}`);
  };
  // undici's agent for proxies uses this form of it, which gives a promise.
  proxy.connect = open as Pool["connect"];
  return proxy;
}

const closedBetween = new WeakSet<object>();
const CLOSED: readonly unknown[] = ["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"];
const CONTINUE = /^HTTP\/1\.[01] 100\b/;

/**
 * Whether the error is that of a connection that had served a request before, and broke before anything of the next
 * response came: the server may close a connection at the moment in which it is used again.
 */
export function brokeBetween(error: object): boolean {
  return closedBetween.has(error);
}

function watch(socket: Socket): void {
  const read = socket.read.bind(socket);
  let hasServed = false;
  /** What had been written when something was last read. It differs while a request waits for its response. */
  let written = 0;
  socket.read = (size) => {
    const bytes = read(size);
    if (bytes === null || socket.bytesWritten === written) return bytes;
    written = socket.bytesWritten;
    hasServed = true;
    // undici breaks the connection at the status 100, which some servers send unasked, but passes over 102, which means as
    // little.
    if (CONTINUE.test(bytes.toString("latin1", 0, 13))) bytes.write("2", 11);
    return bytes;
  };
  socket.prependListener("error", (thrown) => {
    const isWaiting = socket.bytesWritten !== written;
    if (hasServed && isWaiting && CLOSED.includes(Object(thrown).code)) closedBetween.add(thrown);
  });
}

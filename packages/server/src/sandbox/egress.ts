import { createHash } from "node:crypto";
import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import { connect, type LookupFunction, type Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { createAddressRules } from "../access/index.ts";
import { parseGrants } from "../config/index.ts";
import { defined, plainHost, reasonOf } from "../helpers/index.ts";

/** Connections through one proxy at once, so that no tool can use up the connections of the server. */
const mostConnections = 256;

interface EgressProxy {
  readonly socketPath: string;
  close(): void;
}

/**
 * The only way out of a sandbox: an HTTP proxy on a unix socket that is mounted into it. Names are resolved here, and
 * the connection goes to exactly the address that was checked.
 */
export async function openEgressProxy(
  socketPath: string,
  hosts: readonly string[],
  resolve: ResolveName = (name) => lookup(name, { all: true }),
): Promise<EgressProxy> {
  const admit = admissionFor(hosts, resolve);
  const sockets = new Set<Duplex>();
  const server: Server = createServer((incoming, response) => void forward(admit, incoming, response));
  server.on("connect", (incoming, client, head) => void tunnel(admit, incoming, client, head, sockets));
  server.maxConnections = mostConnections;
  server.on("connection", (socket) => track(sockets, socket));
  server.on("clientError", (_error, socket) => socket.destroy());
  server.listen(socketPath);
  await once(server, "listening");
  // The sandbox has another user. The directory of the socket keeps everybody else out.
  await chmod(socketPath, 0o777);
  server.unref();
  return {
    socketPath,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** All addresses of a name. */
type ResolveName = (name: string) => Promise<LookupAddress[]>;

class Refusal extends Error {}

/** Resolves a host to the addresses that may be reached. Throws a `Refusal`, or the resolver's error. */
type Admission = (host: string, port: number) => Promise<LookupFunction>;

function admissionFor(hosts: readonly string[], resolve: ResolveName): Admission {
  const grants = parseGrants(hosts);
  const rules = createAddressRules(grants.mayBePrivate);
  return async (host, port) => {
    if (!grants.allows(host, port))
      throw new Refusal(
        `${host}:${port} is not granted. Granted: ${hosts.join(", ")}. Declare the host in the tool and let the operator grant it`,
      );
    const name = plainHost(host);
    const found = await resolve(name);
    const allowed = found.filter(({ address }) => rules.refusal(name, address) === undefined);
    const first = allowed[0];
    if (first === undefined) {
      const address = found[0]?.address ?? "";
      throw new Refusal(
        `${host} leads to ${address}, and ${rules.refusal(name, address)}. Names may lead there only when that address is granted too`,
      );
    }
    return (_name, options, callback) =>
      options.all ? callback(null, allowed) : callback(null, first.address, first.family);
  };
}

async function tunnel(
  admit: Admission,
  incoming: IncomingMessage,
  client: Duplex,
  head: Buffer,
  sockets: Set<Duplex>,
): Promise<void> {
  client.on("error", () => client.destroy());
  const target = parseUrl(`http://${incoming.url}`);
  try {
    if (target === undefined) throw new Refusal("The address to connect to makes no sense");
    const port = portOf(incoming.url ?? "", target);
    const upstream = connect({
      host: plainHost(target.hostname),
      port,
      lookup: await admit(target.hostname, port),
    });
    track(sockets, upstream);
    client.on("close", () => upstream.destroy());
    await once(upstream, "connect");
    // Only now: until then the client must still be told why the host was not reached.
    upstream.on("error", () => client.destroy());
    upstream.on("close", () => client.destroy());
    client.write("HTTP/1.1 200 Connection established\r\n\r\n");
    upstream.write(head);
    upstream.pipe(client).pipe(upstream);
  } catch (error) {
    const { status, text } = describe(error);
    client.end(
      `HTTP/1.1 ${status} ${reasonPhrase(text)}\r\ncontent-type: text/plain; charset=utf-8\r\nx-toolrack-egress: refused\r\nconnection: close\r\n\r\n${text}`,
    );
  }
}

async function forward(admit: Admission, incoming: IncomingMessage, response: ServerResponse) {
  const target = parseUrl(incoming.url ?? "");
  try {
    if (target?.protocol !== "http:") throw new Refusal("Only http:// addresses can be asked for in plain");
    const port = target.port === "" ? 80 : Number(target.port);
    const upstream = request(
      {
        host: plainHost(target.hostname),
        port,
        path: `${target.pathname}${target.search}`,
        method: incoming.method,
        headers: {
          ...endToEnd(incoming.headers),
          // The body is forwarded as it comes, so its framing must stay.
          ...defined({ "transfer-encoding": incoming.headers["transfer-encoding"] }),
          host: target.host,
        },
        lookup: await admit(target.hostname, port),
      },
      (answer) => {
        answer.on("error", () => response.destroy());
        try {
          response.writeHead(answer.statusCode ?? 502, endToEnd(answer.headers));
          answer.pipe(response);
        } catch (error) {
          // Node refuses to send some headers that servers send.
          upstream.destroy();
          fail(response, error);
        }
      },
    );
    upstream.on("error", (error) => fail(response, error));
    upstream.on("upgrade", (_answer, socket) => {
      socket.destroy();
      fail(response, new Error("the host wants to speak another protocol"));
    });
    response.on("close", () => upstream.destroy());
    incoming.pipe(upstream);
  } catch (error) {
    fail(response, error);
  }
}

/** Headers that are meant only for the next hop. */
const hopByHop =
  "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split(
    " ",
  );

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = (headers.connection ?? "")
    .toLowerCase()
    .split(",")
    .map((name) => name.trim());
  const left = Object.entries(headers).filter(([name]) => !hopByHop.includes(name) && !named.includes(name));
  return Object.fromEntries(left);
}

function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy();
  const { status, text } = describe(error);
  response.writeHead(status, {
    "content-type": "text/plain; charset=utf-8",
    "x-toolrack-egress": "refused",
    connection: "close",
  });
  response.end(text);
}

function describe(error: unknown): { status: number; text: string } {
  if (error instanceof Refusal) return { status: 403, text: `Refused: ${error.message}.` };
  return { status: 502, text: `Not reached: ${reasonOf(error)}` };
}

/** A status line may hold only printable ASCII. */
function reasonPhrase(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?").slice(0, 300);
}

function parseUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** `URL` drops the port of `host:80`, as it is the default one. */
function portOf(authority: string, target: URL): number {
  return Number(target.port || (/:(\d+)$/.exec(authority)?.[1] ?? 443));
}

function track(sockets: Set<Duplex>, socket: Duplex | Socket): void {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
}

/** One proxy for each set of grants, opened when the first worker with them starts. */
export class EgressProxies {
  readonly #directory: string;
  readonly #proxies = new Map<string, Promise<EgressProxy>>();

  /** The directory must be closed to other users, and its path short: unix socket addresses have a limit. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  async socketFor(hosts: readonly string[]): Promise<string> {
    const grants = [...new Set(hosts)].sort();
    const name = createHash("sha256").update(JSON.stringify(grants)).digest("hex").slice(0, 16);
    let proxy = this.#proxies.get(name);
    if (proxy === undefined) {
      proxy = openEgressProxy(join(this.#directory, `${name}.sock`), grants);
      this.#proxies.set(name, proxy);
      proxy.catch(() => this.#proxies.delete(name));
    }
    return (await proxy).socketPath;
  }

  async close(): Promise<void> {
    const proxies = await Promise.allSettled(this.#proxies.values());
    for (const proxy of proxies) if (proxy.status === "fulfilled") proxy.value.close();
  }
}

/** The unix socket of the egress proxy inside a sandbox, and the port where clients in it look for a proxy. */
export interface EgressAddress {
  readonly socketPath: string;
  readonly port: number;
}

/** The environment that makes clients in the sandbox use the proxy. The port is on the sandbox's own loopback. */
export function egressEnvironment({ port }: EgressAddress): Record<string, string> {
  const proxy = `http://127.0.0.1:${port}`;
  return {
    NODE_USE_ENV_PROXY: "1",
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    http_proxy: proxy,
    https_proxy: proxy,
  };
}

/**
 * Runs inside the sandbox, which gets only the text of this function: it may use its arguments and Node, and nothing of
 * this module. Proxy variables cannot name a unix socket, so a port leads to it.
 */
export function forwardEgress(
  { socketPath, port }: EgressAddress,
  onRefusal: (text: string) => void,
  onListening: () => void,
): void {
  const net = process.getBuiltinModule("node:net");
  // These read the proxy variables when they are loaded. The variables are then removed, so that other clients go
  // through these two: some would send https unencrypted.
  process.getBuiltinModule("node:http");
  process.getBuiltinModule("node:https");
  for (const name of Object.keys(process.env)) if (/proxy/i.test(name)) delete process.env[name];
  const server = net.createServer((client) => {
    const upstream = net.connect(socketPath);
    upstream.once("data", (chunk) => {
      const text = chunk.toString("latin1");
      if (text.includes("\r\nx-toolrack-egress: refused\r\n"))
        onRefusal(text.slice("HTTP/1.1 403 ".length, text.indexOf("\r\n")));
    });
    client.pipe(upstream).pipe(client);
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
  });
  server.listen(port, "127.0.0.1", onListening);
  server.unref();
}

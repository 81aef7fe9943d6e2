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
  type ServerResponse,
} from "node:http";
import { connect, type LookupFunction } from "node:net";
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
 * The only way out of a sandbox: an HTTP proxy on a unix socket that is mounted into the sandbox. The proxy
 * resolves names itself and connects to exactly the address that it checked.
 */
export async function openEgressProxy(
  socketPath: string,
  hosts: readonly string[],
  resolve: ResolveName = (name) => lookup(name, { all: true }),
): Promise<EgressProxy> {
  const admit = admissionFor(hosts, resolve);
  const sockets = new Set<Duplex>();
  const track = (socket: Duplex) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  };
  const server = createServer((incoming, response) => void forward(admit, incoming, response));
  server.on("connect", (incoming, client, head) => void tunnel(admit, incoming, client, head, track));
  server.maxConnections = mostConnections;
  server.on("connection", track);
  server.on("clientError", (_error, socket) => socket.destroy());
  server.listen(socketPath);
  await once(server, "listening");
  // Processes in the sandbox run as another user, so every user may open the socket. The socket's directory
  // keeps the other users of this machine out.
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

type ResolveName = (name: string) => Promise<LookupAddress[]>;

class Refusal extends Error {}

/**
 * Returns how to connect to a host: its `lookup` gives only addresses that may be reached. Rejects with a
 * `Refusal`, or with the resolver's error.
 */
type Admission = (
  host: string,
  port: number,
) => Promise<{ host: string; port: number; lookup: LookupFunction }>;

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
    const lookup: LookupFunction = (_name, options, callback) =>
      options.all ? callback(null, allowed) : callback(null, first.address, first.family);
    return { host: name, port, lookup };
  };
}

async function tunnel(
  admit: Admission,
  { url: authority = "" }: IncomingMessage,
  client: Duplex,
  head: Buffer,
  track: (socket: Duplex) => void,
): Promise<void> {
  client.on("error", () => client.destroy());
  try {
    const target = URL.parse(`http://${authority}`);
    if (target === null) throw new Refusal("The address to connect to makes no sense");
    // `URL` drops the port of `host:80`, as it is the default one.
    const port = Number(target.port || (/:(\d+)$/.exec(authority)?.[1] ?? 443));
    const upstream = connect(await admit(target.hostname, port));
    track(upstream);
    client.on("close", () => upstream.destroy());
    await once(upstream, "connect");
    // Added only now: an error before the connection goes to `catch` below, which tells the client why the
    // host was not reached.
    upstream.on("error", () => client.destroy());
    upstream.on("close", () => client.destroy());
    client.write("HTTP/1.1 200 Connection established\r\n\r\n");
    upstream.write(head);
    upstream.pipe(client).pipe(upstream);
  } catch (error) {
    const { status, headers, text } = refusalOf(error);
    // A status line may hold only printable ASCII.
    const phrase = text.replace(/[^\x20-\x7e]/g, "?").slice(0, 300);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    client.end(`HTTP/1.1 ${status} ${phrase}\r\n${lines.join("")}\r\n${text}`);
  }
}

async function forward(admit: Admission, incoming: IncomingMessage, response: ServerResponse) {
  const fail = (error: unknown) => {
    if (response.headersSent) return void response.destroy();
    const { status, headers, text } = refusalOf(error);
    response.writeHead(status, headers).end(text);
  };
  try {
    const target = URL.parse(incoming.url ?? "");
    if (target?.protocol !== "http:") throw new Refusal("Only http:// addresses can be asked for in plain");
    const headers = {
      ...endToEnd(incoming.headers),
      // The body is forwarded unchanged, so the header that describes its framing is kept.
      ...defined({ "transfer-encoding": incoming.headers["transfer-encoding"] }),
      host: target.host,
    };
    const admitted = await admit(target.hostname, Number(target.port || 80));
    const path = `${target.pathname}${target.search}`;
    const upstream = request({ ...admitted, path, method: incoming.method, headers }, (answer) => {
      answer.on("error", () => response.destroy());
      try {
        response.writeHead(answer.statusCode ?? 502, endToEnd(answer.headers));
        answer.pipe(response);
      } catch (error) {
        // Node refuses to send some headers that servers send.
        upstream.destroy();
        fail(error);
      }
    });
    upstream.on("error", fail);
    upstream.on("upgrade", (_answer, socket) => {
      socket.destroy();
      fail(new Error("the host wants to speak another protocol"));
    });
    response.on("close", () => upstream.destroy());
    incoming.pipe(upstream);
  } catch (error) {
    fail(error);
  }
}

/** Headers that are meant only for the next hop. */
const hopByHop =
  "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade";

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = (headers.connection ?? "").toLowerCase().split(",");
  const dropped = new Set([...hopByHop.split(" "), ...named.map((name) => name.trim())]);
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !dropped.has(name)));
}

function refusalOf(error: unknown): { status: number; headers: Record<string, string>; text: string } {
  const isRefusal = error instanceof Refusal;
  return {
    status: isRefusal ? 403 : 502,
    headers: {
      "content-type": "text/plain; charset=utf-8",
      "x-toolrack-egress": "refused",
      connection: "close",
    },
    text: isRefusal ? `Refused: ${error.message}.` : `Not reached: ${reasonOf(error)}`,
  };
}

/** One proxy for each set of granted hosts, opened when the first process with these grants starts. */
export class EgressProxies {
  readonly #directory: string;
  readonly #proxies = new Map<string, Promise<EgressProxy>>();

  /** The directory must be closed to other users, and its path short: unix socket addresses have a limit. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Returns the path of the proxy's unix socket; undefined when no host is granted. */
  async socketFor(hosts: readonly string[]): Promise<string | undefined> {
    if (hosts.length === 0) return undefined;
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

/** The proxy's unix socket inside a sandbox, and the port on the sandbox's own loopback that leads to it. */
export const egressAddress = { socketPath: "/egress.sock", port: 3128 };

const proxyUrl = `http://127.0.0.1:${egressAddress.port}`;

/** The environment that makes clients in the sandbox use the proxy. */
export const egressEnvironment: Readonly<Record<string, string>> = {
  NODE_USE_ENV_PROXY: "1",
  HTTP_PROXY: proxyUrl,
  HTTPS_PROXY: proxyUrl,
  http_proxy: proxyUrl,
  https_proxy: proxyUrl,
};

export interface EnterOptions {
  /** The id of the user that the process becomes, when it starts as root inside its namespaces. */
  readonly uid?: number;
  readonly egress?: typeof egressAddress;
}

/**
 * Runs first in every worker and in the starter process of every program. Becomes the user `uid`, and opens a
 * port that leads to the proxy's unix socket, because proxy variables cannot name a socket. Only the text of
 * this function is sent into the sandbox: it may use its arguments and Node, and nothing of this module.
 */
export function enterSandbox(
  { uid, egress }: EnterOptions,
  onReady: () => void,
  onRefusal: (text: string) => void,
): void {
  if (uid !== undefined) {
    process.setgroups?.([uid]);
    process.setgid?.(uid);
    process.setuid?.(uid);
  }
  if (egress === undefined) return void onReady();
  const net = process.getBuiltinModule("node:net");
  // Node's two HTTP modules read the proxy variables when they are loaded. Then the variables are deleted, so
  // that other HTTP clients use these modules instead of the variables: some clients would send https
  // requests to the proxy unencrypted.
  process.getBuiltinModule("node:http");
  process.getBuiltinModule("node:https");
  for (const name of Object.keys(process.env)) if (/proxy/i.test(name)) delete process.env[name];
  const server = net.createServer((client) => {
    const upstream = net.connect(egress.socketPath);
    upstream.once("data", (chunk) => {
      const text = chunk.toString("latin1");
      if (!text.includes("\r\nx-toolrack-egress: refused\r\n")) return;
      // A refused tunnel says why in its status line, a refused request in its body.
      const [reason] = /(?:Refused|Not reached): [^\r\n]*/.exec(text) ?? [];
      onRefusal(reason ?? text.slice("HTTP/1.1 403 ".length, text.indexOf("\r\n")));
    });
    client.pipe(upstream).pipe(client);
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
  });
  server.listen(egress.port, "127.0.0.1", onReady);
  server.unref();
}

/**
 * The hosts that a tool may reach: those that it declares and the operator grants. Where one covers the
 * other, as `*.example.com` covers `api.example.com`, the narrower counts. A tool that declares none may
 * reach all granted hosts.
 */
export function grantedHosts(declared: readonly string[] | undefined, granted: readonly string[]): string[] {
  if (declared === undefined) return [...new Set(granted)].sort();
  const hosts = declared.flatMap((wanted) =>
    granted.flatMap((given) => {
      if (covers(given, wanted)) return [wanted];
      return covers(wanted, given) ? [given] : [];
    }),
  );
  return [...new Set(hosts)].sort();
}

/** Hosts that a tool declares and no grant covers even in part. */
export function missingHosts(declared: readonly string[] | undefined, granted: readonly string[]): string[] {
  return (declared ?? []).filter(
    (wanted) => !granted.some((given) => covers(given, wanted) || covers(wanted, given)),
  );
}

/** Whether `given` includes every host that `wanted` names. No port stands for the usual ports of the web. */
function covers(given: string, wanted: string): boolean {
  const [givenName, givenPort] = split(given);
  const [wantedName, wantedPort] = split(wanted);
  const isUsual = givenPort === "" && ["80", "443"].includes(wantedPort);
  if (givenPort !== wantedPort && !isUsual) return false;
  if (givenName === wantedName || givenName === "*") return true;
  return givenName.startsWith("*.") && wantedName.endsWith(givenName.slice(1));
}

function split(host: string): [name: string, port: string] {
  const [, name = host, port = ""] = /^(.*?)(?::(\d+))?$/.exec(host.toLowerCase()) ?? [];
  return [name, port];
}

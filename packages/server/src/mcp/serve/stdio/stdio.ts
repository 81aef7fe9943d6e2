import { AsyncResource } from "node:async_hooks";
import {
  CLIENT_CAPABILITIES_META_KEY,
  isJSONRPCNotification,
  isJSONRPCRequest,
  PROTOCOL_VERSION_META_KEY,
  ProtocolErrorCode,
  SUPPORTED_PROTOCOL_VERSIONS,
  UnsupportedProtocolVersionError,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { EndedCall } from "../../../calls/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import type { Era } from "../../wire/index.ts";
import type { Outlet } from "../carry.ts";
import { ChangePublisher, wantsResources, watchListened } from "../changes.ts";
import type { Exchange } from "../exchange.ts";
import { type HotCall, type HotList, HotPath, modernVersion, readHotRequest } from "../hot.ts";
import type { Viewer } from "../lists.ts";
import { cancellationOf, cancellationsIn, requestIdOf, tellServer } from "../messages.ts";
import { createMcpServer, type McpParts, type RackServer, SdkFaces } from "../surface.ts";
import { type StdioStreams, StdioTransport } from "./transport.ts";

/** A connection to the one client that started this process. */
export interface StdioConnection {
  /** Resolves when the connection has ended, from either side. Calls that were under way are cancelled. */
  readonly closed: Promise<void>;
  /** Takes nothing more, leaves what is under way a moment to be answered, and ends the connection. */
  close(): Promise<void>;
}

/** Serves one client over two streams, in the version of the protocol that it begins with. */
export function serveMcpStdio(parts: McpParts, viewer: Viewer, streams: StdioStreams): StdioConnection {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  /** How to stop watching what a request listens to, by its id. */
  const watched = new Map<string | number, () => void>();
  let current: CurrentServer | undefined;
  let isClosed = false;
  const front = new StdioFront(
    new HotPath(parts, new SdkFaces(parts)),
    viewer,
    () => current,
    () => transport.outlet,
  );
  const listen = async (id: string | number, message: object, handOn: (message: unknown) => void) => {
    watched.set(id, () => {});
    const listened = await watchListened(parts, viewer, message);
    // Meanwhile it may have been cancelled, or the client gone.
    if (isClosed || !watched.has(id)) return listened.stop();
    watched.set(id, listened.stop);
    handOn(listened.message);
  };
  const stopListening = (id: string | number) => {
    watched.get(id)?.();
    watched.delete(id);
  };
  const transport = new StdioTransport(streams, (message, answer, handOn) => {
    if (watched.size > 0) for (const { requestId } of cancellationsIn(message)) stopListening(requestId);
    const id = wantsResources(message) ? requestIdOf(message) : undefined;
    if (id === undefined) return front.take(message, answer, handOn);
    if (front.refuses(message, answer)) return true;
    void listen(id, message, handOn);
    return true;
  });
  transport.ongiveup = (reason) => front.cancelAll(reason);
  transport.oncutoff = (reason) => parts.logger.warn(`The MCP client was cut off: ${reason}.`);
  const { outlet } = transport;
  const running = (id: string | number) => front.running(id);
  const handle = serveStdio(
    ({ era }) => {
      const server = createMcpServer(parts, viewer, { era, canAsk: era === "legacy", running, outlet });
      current = { server, era };
      return server;
    },
    { transport, onerror: (error) => parts.logger.debug("MCP:", error.message) },
  );
  // Over this transport the SDK itself hands what a server says on to who listens, in both eras.
  const publisher = new ChangePublisher(parts, (uri) => {
    // In the older versions a server tells by itself of what its client has subscribed to.
    if (current?.era === "modern") void current.server.sendResourceUpdated({ uri }).catch(() => {});
  });
  publisher.join({
    viewer,
    tell(kind) {
      if (current !== undefined) tellServer(current.server, kind);
    },
  });
  const close = async (reason: string) => {
    await transport.drain(reason);
    await handle.close();
  };
  const unwatch = parts.expertWatch.watch(viewer, () => {
    parts.logger.warn(`The expert "${viewer.expert?.name}" is gone, and the connection that served it ends.`);
    void close("the expert is gone");
  });
  const onclose = transport.onclose;
  transport.onclose = () => {
    isClosed = true;
    onclose?.();
    front.cancelAll("the client closed the connection");
    publisher.stop();
    unwatch();
    for (const id of [...watched.keys()]) stopListening(id);
    resolve();
  };
  return { closed, close: () => close("the server is stopping") };
}

/** What is to become of a message: it goes on, is answered with an error, or is passed over. */
type Verdict =
  | { readonly kind: "pass" }
  | { readonly kind: "refuse"; readonly id: string | number; readonly answer: object }
  | { readonly kind: "drop" };

const pass: Verdict = { kind: "pass" };
const drop: Verdict = { kind: "drop" };

/**
 * Which version of the protocol a connection speaks, by what its client has said so far. The SDK settles it by the first
 * message after `server/discover`, whatever that is, and then gives requests of the other version to a server that
 * cannot ask their client anything. So what would settle it by mistake, and what comes in the other version, is kept
 * from it.
 */
class StdioSpeech {
  #era: Era | "asking" | undefined;

  isSettled(era: Era): boolean {
    return this.#era === era;
  }

  hear(message: object): Verdict {
    // What is no message settles nothing, and answers are of no version.
    if (this.#era === "modern" || !(isJSONRPCRequest(message) || isJSONRPCNotification(message))) return pass;
    const { method, params } = message;
    const id = isJSONRPCRequest(message) ? message.id : undefined;
    const meta: unknown = params?._meta;
    const version = isRecord(meta) ? meta[PROTOCOL_VERSION_META_KEY] : undefined;
    if (this.#era === "legacy") {
      return version !== modernVersion || method === "server/discover" ? pass : refuse(id, otherVersion);
    }
    if (version === undefined) {
      if (this.#era === "asking" && method !== "initialize") return refuse(id, noEnvelope);
      this.#era = "legacy";
    } else if (version === modernVersion && isRecord(meta) && isRecord(meta[CLIENT_CAPABILITIES_META_KEY])) {
      this.#settle(method, id);
    }
    return pass;
  }

  #settle(method: string, id: unknown): void {
    if (method === "server/discover") this.#era = "asking";
    // A notification settles nothing for who has asked before.
    else if (id !== undefined || this.#era === undefined) this.#era = "modern";
  }
}

const { code, message, data } = new UnsupportedProtocolVersionError(
  {
    supported: SUPPORTED_PROTOCOL_VERSIONS.filter((version) => version !== modernVersion),
    requested: modernVersion,
  },
  "This connection began with an older version of the protocol, and stays with it.",
);
const otherVersion = { code, message, data };

const noEnvelope = {
  code: ProtocolErrorCode.InvalidParams,
  message: `A request needs the _meta of ${modernVersion}, with which this connection began. Older versions begin with initialize.`,
};

function refuse(id: string | number | undefined, error: object): Verdict {
  return id === undefined ? drop : { kind: "refuse", id, answer: { jsonrpc: "2.0", id, error } };
}

/** The server that the SDK has made for the connection, and the version that it speaks. */
interface CurrentServer {
  readonly server: RackServer;
  readonly era: Era;
}

type Answer = (id: string | number, line: string) => void;

/** Lets the SDK have a message after all. */
type HandOn = (message: unknown) => void;

/** The short way on a connection with one client. */
class StdioFront {
  readonly #hot: HotPath;
  readonly #viewer: Viewer;
  readonly #current: () => CurrentServer | undefined;
  readonly #outlet: () => Outlet;
  /** When there is room for the list that was asked for last. */
  #room: Promise<void> | undefined;
  readonly #speech = new StdioSpeech();
  /** Calls that were begun here and are to be answered here, by the ids of their requests. */
  readonly #calls = new Map<string | number, Exchange<EndedCall>>();
  /**
   * Calls that the SDK was given and has not come for yet. An id may be used again once it is cancelled, so that there
   * may be several of it; the SDK comes for them in the order in which it was given them.
   */
  readonly #handedOn = new Map<string | number, Exchange<EndedCall>[]>();
  /** Lists that are about to be answered. What stands for each is another object for each request. */
  readonly #lists = new Map<string | number, object>();

  constructor(hot: HotPath, viewer: Viewer, current: () => CurrentServer | undefined, outlet: () => Outlet) {
    this.#hot = hot;
    this.#viewer = viewer;
    this.#current = current;
    this.#outlet = outlet;
  }

  /** The call that a request has begun, for the SDK to go on with. */
  running(id: string | number): Exchange<EndedCall> | undefined {
    const waiting = this.#handedOn.get(id);
    const exchange = waiting?.shift();
    if (waiting?.length === 0) this.#handedOn.delete(id);
    return exchange;
  }

  /** Cancels what was begun here. Whether it is still answered is up to who writes. */
  cancelAll(reason: string): void {
    for (const exchange of this.#calls.values()) exchange.cancel(reason);
    for (const exchange of [...this.#handedOn.values()].flat()) exchange.cancel(reason);
  }

  /** Answers a message, now or later, when it is one for the short way or for nobody. Says whether it is. */
  take(message: object, answer: Answer, handOn: HandOn): boolean {
    if (this.#cancel(message)) return true;
    const request = readHotRequest(message);
    const current = this.#current();
    if (request === undefined || current === undefined) return this.refuses(message, answer);
    const era = request.envelope === undefined ? "legacy" : "modern";
    // Before the client and the server have agreed on a version, only the SDK knows what to say.
    if (!this.#speech.isSettled(era) || era !== current.era) return this.refuses(message, answer);
    if (current.server.getNegotiatedProtocolVersion() === undefined) return false;
    if (request.kind === "list") {
      void this.#list(request, era, message, answer, handOn);
      return true;
    }
    return this.#call(request, current, message, answer, handOn);
  }

  /** Refuses a message of another version than the connection's. Says whether it has. */
  refuses(message: object, answer: Answer): boolean {
    const verdict = this.#speech.hear(message);
    if (verdict.kind === "refuse") answer(verdict.id, JSON.stringify(verdict.answer));
    return verdict.kind !== "pass";
  }

  async #list(request: HotList, era: Era, message: unknown, answer: Answer, handOn: HandOn): Promise<void> {
    const { id } = request;
    const asked = {};
    this.#lists.set(id, asked);
    // Where it cannot be made here, the SDK says why.
    const bytes = await this.#hot.list(request, era, this.#viewer).catch(() => undefined);
    // Lists are long, and asked for with a few words: none is written before there is room for it.
    if (bytes !== undefined && (this.#room !== undefined || this.#outlet().isFull)) await this.#roomForList();
    // What was cancelled is not answered, also where another request has its id by now.
    if (this.#lists.get(id) !== asked) return;
    this.#lists.delete(id);
    if (bytes === undefined) handOn(message);
    else answer(id, `{"result":${bytes.toString()},"jsonrpc":"2.0","id":${JSON.stringify(id)}}`);
  }

  /** One after the other, in the order in which they were asked for. */
  #roomForList(): Promise<void> {
    const room = (this.#room ?? Promise.resolve()).then(() => this.#outlet().room());
    this.#room = room;
    void room.then(() => {
      if (this.#room === room) this.#room = undefined;
    });
    return room;
  }

  #call(
    request: HotCall,
    { server, era }: CurrentServer,
    message: unknown,
    answer: Answer,
    handOn: HandOn,
  ): boolean {
    const info = server.getClientVersion();
    const known = {
      abilities: server.getClientCapabilities() ?? {},
      clientName: info === undefined ? "" : `${info.name} ${info.version}`,
    };
    const exchange = this.#hot.begin(request, this.#viewer, {
      subject: request.params.name,
      ...(request.envelope ?? known),
      wants: { progress: false, messages: era === "legacy", level: server.logLevel },
    });
    if (exchange === undefined) return false;
    const { id } = request;
    this.#calls.set(id, exchange);
    const itself = new AsyncResource("toolrack.mcp");
    exchange.whenStirred(() => {
      // A call that was cancelled is not answered.
      if (this.#calls.get(id) !== exchange) return;
      this.#calls.delete(id);
      const outcome = this.#hot.outcome(exchange, id, era, this.#viewer);
      if (outcome.kind === "answered") {
        answer(id, outcome.text);
        return;
      }
      this.#handedOn.set(id, [...(this.#handedOn.get(id) ?? []), exchange]);
      // What stirred is in the middle of the tool's own work, which whatever the SDK does is no part of.
      itself.runInAsyncScope(handOn, undefined, message);
    });
    return true;
  }

  /** Says whether what is cancelled is known here alone. */
  #cancel(message: unknown): boolean {
    if (this.#calls.size + this.#lists.size + this.#handedOn.size === 0) return false;
    const cancelled = cancellationOf(message);
    if (cancelled === undefined) return false;
    const { requestId, reason = "the client cancelled it" } = cancelled;
    if (this.#lists.delete(requestId)) return true;
    const exchange = this.#calls.get(requestId);
    this.#calls.delete(requestId);
    exchange?.cancel(reason);
    if (exchange !== undefined) return true;
    // The SDK has to hear of it too, and finds the cancelled call when it comes for it.
    this.#handedOn.get(requestId)?.at(-1)?.cancel(reason);
    return false;
  }
}

import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { ClientConnection, Origin } from "../../calls/index.ts";
import { PassingMap } from "../../helpers/index.ts";
import {
  type ClientAbilities,
  type ClientInfo,
  expected,
  isAbilities,
  isClientInfo,
  type ListName,
  legacyVersions,
  type RpcId,
  type RpcParams,
  type RpcRequest,
  type RpcResponse,
} from "../wire/index.ts";
import { type EraCodec, legacyCodec, paramError, toRpcError } from "./answers.ts";
import type { Caller } from "./caller.ts";
import type { WriteFlow } from "./writer.ts";

/**
 * The client that sent a request. It describes itself in each request (modern era) or once per session
 * (legacy era).
 */
export interface Peer {
  readonly caller: Caller;
  readonly codec: EraCodec;
  /** The agreed version of the protocol; undefined when none was agreed on. */
  readonly version: string | undefined;
  readonly abilities: ClientAbilities;
  readonly client: ClientInfo | undefined;
  readonly logLevel: string | undefined;
  /** Set only for a client of the legacy era that opened a session. */
  readonly session?: ClientSession;
  /** The headers of an HTTP request of the modern era; some repeat arguments of a call. */
  readonly headers?: IncomingHttpHeaders;
}

/** An answer as JSON, whole or in pieces. */
export type AnswerText = string | readonly (string | Buffer)[];

/** Sends answers to the client. Several requests may share one reply. Never throws. */
export interface Reply {
  /** The headers of the HTTP request that is answered. */
  readonly headers?: IncomingHttpHeaders | undefined;
  /** The session or the stdio connection that the request came over. */
  readonly connection?: ClientConnection | undefined;
  /** Whether the client keeps up with reading. Undefined until something has been written. */
  readonly flow: WriteFlow | undefined;
  /** Resolves when the client has read enough for a long message to be sent. Undefined: send it now. */
  waitForRoom(): Promise<void> | undefined;
  /** Sends a notification or a question that belongs to an open request. */
  send(message: object): void;
  /** Ends a request, without an answer when the client cancelled the request or has gone. */
  end(answer: AnswerText | undefined, status: number): void;
}

/** Which notifications the client wants to receive while its request is open. */
export interface Wants {
  readonly progress: boolean;
  readonly messages: boolean;
  /**
   * The lowest level of the tool's log lines that the client wants. Undefined: the client wants no log lines.
   */
  readonly level?: string | undefined;
}

/**
 * The notifications that a request receives if it asks for neither progress nor a log level: messages in the legacy
 * era, none in the modern era.
 */
const defaultWants = {
  legacy: { progress: false, messages: true },
  modern: { progress: false, messages: false },
} as const satisfies Record<string, Wants>;

/** The member of `_meta` by which a client names the session of a request. */
export const sessionKey = "toolrack/sessionID";

/** The open requests of a client, by id. The client may cancel them. */
export type RequestTable = PassingMap<RpcId, ClientRequest>;

/** One open request. It is answered at most once. */
export class ClientRequest {
  readonly id: RpcId;
  readonly method: string;
  readonly params: RpcParams;
  readonly meta: RpcParams;
  readonly peer: Peer;
  readonly caller: Caller;
  readonly reply: Reply;
  readonly wants: Wants;
  /** Whether the request was answered or withdrawn. */
  isOver = false;
  /** Cancels the work for the request. The request is still answered with the outcome. */
  onCancel: ((reason: string) => void) | undefined;
  /** Ends a request that never ends by itself, such as a subscription. The stopping server does not wait for such a request. */
  stop: (() => void) | undefined;
  readonly #table: RequestTable | undefined;

  constructor({ id, method, params, meta }: RpcRequest, peer: Peer, reply: Reply, table?: RequestTable) {
    const { caller, codec, logLevel: level } = peer;
    const progress = meta.progressToken !== undefined;
    this.id = id;
    this.method = method;
    this.params = params;
    this.meta = meta;
    this.peer = peer;
    this.caller = caller;
    this.reply = reply;
    this.wants =
      !progress && level === undefined
        ? defaultWants[codec.era]
        : { progress, messages: codec.era === "legacy" || level !== undefined, level };
    this.#table = table;
    table?.set(id, this);
  }

  /** Who sent the request, and how it reached the rack. */
  get origin(): Origin {
    const { caller, admin: isAdmin, id: owner } = this.caller.grant;
    const { headers, connection } = this.reply;
    const session = this.meta[sessionKey];
    return {
      ...{ caller, isAdmin, owner, headers, connection },
      sessionID: typeof session === "string" ? session : "",
    };
  }

  result(result: object): void {
    this.answer(this.peer.codec.encode(this.method, result));
  }

  /** Answers with a result that is JSON already. */
  answer(result: string | Buffer): void {
    const rest = `,"jsonrpc":"2.0","id":${JSON.stringify(this.id)}}`;
    this.#end(typeof result === "string" ? `{"result":${result}${rest}` : ['{"result":', result, rest], 200);
  }

  fail(thrown: unknown): void {
    const { codec } = this.peer;
    const error = toRpcError(thrown);
    this.#end(codec.encodeError(this.id, error), codec.statusOf(error));
  }

  /** Cancels the work without an answer: the client cancelled the request or has gone. */
  withdraw(reason: string): void {
    this.#end(undefined, 200);
    this.onCancel?.(reason);
  }

  #end(answer: AnswerText | undefined, status: number): void {
    if (this.isOver) return;
    this.isOver = true;
    if (this.#table?.entries.get(this.id) === this) this.#table.entries.delete(this.id);
    this.reply.end(answer, status);
  }
}

/** Why requests are withdrawn when the client's connection has ended, over HTTP and over stdio. */
export const connectionClosed = "the client closed the connection";
export const inputClosed = "the client closed its side";

/** A connected client that is told of changes. Its methods never throw. */
export interface Listener {
  listChanged(kind: ListName): void;
  /** Called for every resource whose content changed, also those the client does not listen to. */
  resourceUpdated(uri: string): void;
  /** Called when the server stops. */
  stopped?(): void;
}

/** How long a client may take to answer a question, in milliseconds. */
export const answerTimeout = 10 * 60_000;

type OpenQuestion = Pick<PromiseWithResolvers<unknown>, "resolve" | "reject">;

/**
 * The state of a client of the legacy era between its requests, for one HTTP session or one stdio connection.
 * `send` delivers messages that belong to no request.
 */
export class ClientSession implements Peer, Listener, ClientConnection {
  readonly id: string;
  readonly codec = legacyCodec;
  readonly caller: Caller;
  readonly session = this;
  readonly requests: RequestTable = new PassingMap();
  version: string | undefined;
  abilities: ClientAbilities = {};
  client: ClientInfo | undefined;
  /** The lowest level of log messages that the client wants with all its requests. */
  logLevel: string | undefined;
  /** The resources that the client has subscribed to, each with a function that stops watching it. */
  readonly watched = new Map<string, () => void>();
  readonly #send: (message: object) => void;
  readonly #questions = new Map<RpcId, OpenQuestion>();
  #asked = 0;
  #closed: string | undefined;
  readonly #whenClosed = new Set<() => void>();

  /** `prefix`: the beginning of the session's id. */
  constructor(caller: Caller, send: (message: object) => void, prefix = "") {
    this.id = prefix + randomUUID();
    this.caller = caller;
    this.#send = send;
  }

  /** Takes the parameters of `initialize`. Throws an `RpcError` when they are invalid. */
  initialize(params: RpcParams): void {
    const { protocolVersion, capabilities, clientInfo } = params;
    if (typeof protocolVersion !== "string") {
      throw paramError("initialize", "protocolVersion", expected("string", protocolVersion));
    }
    if (!isAbilities(capabilities))
      throw paramError("initialize", "capabilities", expected("object", capabilities));
    if (!isClientInfo(clientInfo))
      throw paramError("initialize", "clientInfo", expected("object", clientInfo));
    this.version = legacyVersions.includes(protocolVersion) ? protocolVersion : legacyVersions[0];
    this.abilities = capabilities;
    this.client = clientInfo;
  }

  listChanged(kind: string): void {
    this.#send({ jsonrpc: "2.0", method: `notifications/${kind}/list_changed` });
  }

  resourceUpdated(uri: string): void {
    if (!this.watched.has(uri)) return;
    this.#send({ jsonrpc: "2.0", method: "notifications/resources/updated", params: { uri } });
  }

  /**
   * Asks a question as part of the client's request. Rejects when the client answers late or with an error.
   */
  async ask(request: ClientRequest, method: string, params: object, signal: AbortSignal): Promise<unknown> {
    if (this.#closed !== undefined) throw new Error(`Nothing can be asked: ${this.#closed}.`);
    const id = this.#asked++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const withdraw = (reason: unknown) => {
      const params = { requestId: id, reason: String(reason) };
      request.reply.send({ jsonrpc: "2.0", method: "notifications/cancelled", params });
      reject(new Error(String(reason)));
    };
    const onAbort = () => withdraw(signal.reason);
    const timer = setTimeout(withdraw, answerTimeout, "Request timed out");
    this.#questions.set(id, { resolve, reject });
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      if (signal.aborted) onAbort();
      else request.reply.send({ jsonrpc: "2.0", id, method, params });
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      this.#questions.delete(id);
    }
  }

  /** Takes the client's answer to a question. Ignores it when that question is not open. */
  answer({ id, result, error }: RpcResponse): void {
    const open = id === undefined ? undefined : this.#questions.get(id);
    if (error === undefined) open?.resolve(result);
    else open?.reject(new Error(error.message));
  }

  whenClosed(listener: () => void): () => void {
    if (this.#closed === undefined) this.#whenClosed.add(listener);
    else listener();
    return () => void this.#whenClosed.delete(listener);
  }

  /** Rejects all open questions and ends all resource subscriptions. */
  close(reason: string): void {
    this.#closed = reason;
    for (const listener of [...this.#whenClosed]) listener();
    this.#whenClosed.clear();
    for (const { reject } of this.#questions.values()) reject(new Error(`No answer: ${reason}.`));
    for (const stop of this.watched.values()) stop();
    this.watched.clear();
  }
}

import {
  type ClientAbilities,
  type ClientInfo,
  clientNameOf,
  type EraCodec,
  expected,
  isAbilities,
  isClientInfo,
  legacyCodec,
  metaOf,
  negotiated,
  type RpcId,
  type RpcParams,
  type RpcRequest,
  type RpcResponse,
  resultText,
  type WriteFlow,
} from "../wire/index.ts";
import type { Caller } from "./caller.ts";
import type { Listener } from "./changes.ts";
import type { Wants } from "./dialog.ts";
import { misfit, toRpcError } from "./errors.ts";

/** Who sent a request: for clients of the modern era as the request says, for others as their session knows. */
export interface Peer {
  readonly caller: Caller;
  readonly codec: EraCodec;
  /** The version of the protocol that was agreed on; undefined where none has been. */
  readonly version: string | undefined;
  readonly abilities: ClientAbilities;
  readonly clientName: string;
  readonly logLevel: string | undefined;
  /** Of a client of the legacy era that can be asked and told things beside its requests. */
  readonly session?: ClientSession;
}

/** The way back to the client. It may be that of several requests. Never throws. */
export interface Reply {
  /** Undefined as long as nothing has been written that the client might not read. */
  readonly flow: WriteFlow | undefined;
  /** Resolves when there is room for something long. Undefined: there is room now. */
  turn(): Promise<void> | undefined;
  /** Tells or asks the client something that belongs to a request which is under way. */
  send(message: object): void;
  /** `message` is the whole answer as JSON, perhaps in pieces. */
  answer(id: RpcId, message: string | readonly (string | Buffer)[], status: number): void;
  /** There is no answer: the client has cancelled the request. */
  nothing(id: RpcId): void;
}

/** Requests under way by their ids, where a client may cancel them. */
export type RequestTable = Map<RpcId, ClientRequest>;

/** One request that is under way. It is answered at most once. */
export class ClientRequest {
  readonly id: RpcId;
  readonly method: string;
  readonly params: RpcParams;
  readonly peer: Peer;
  readonly caller: Caller;
  readonly reply: Reply;
  /** It was answered, or nobody waits for the answer. */
  isOver = false;
  /** How the work behind it is cancelled. */
  onCancel: ((reason: string) => void) | undefined;
  /** Ends it from the server's side. Only of a request that has no end of its own, so that nobody waits for it. */
  stop: (() => void) | undefined;
  readonly #table: RequestTable | undefined;

  constructor({ id, method, params }: RpcRequest, peer: Peer, reply: Reply, table?: RequestTable) {
    this.id = id;
    this.method = method;
    this.params = params;
    this.peer = peer;
    this.caller = peer.caller;
    this.reply = reply;
    this.#table = table;
    table?.set(id, this);
  }

  get wants(): Wants {
    const { codec, logLevel } = this.peer;
    const progress = metaOf(this.params).progressToken !== undefined;
    if (!progress && logLevel === undefined) return plainWants[codec.era];
    return { progress, messages: codec.era === "legacy" || logLevel !== undefined, level: logLevel };
  }

  result(result: object): void {
    this.answer(this.peer.codec.encode(this.method, result));
  }

  /** The same for a result that is JSON already. */
  answer(result: string | Buffer): void {
    if (!this.#end()) return;
    const message =
      typeof result === "string"
        ? resultText(this.id, result)
        : ['{"result":', result, `,"jsonrpc":"2.0","id":${JSON.stringify(this.id)}}`];
    this.reply.answer(this.id, message, 200);
  }

  fail(thrown: unknown): void {
    if (!this.#end()) return;
    const error = toRpcError(thrown);
    const { codec } = this.peer;
    this.reply.answer(this.id, codec.encodeError(this.id, error), codec.statusOf(error));
  }

  /** Cancels the work. It is still answered with what comes of that. */
  cancel(reason: string): void {
    this.onCancel?.(reason);
  }

  /** The same for a client that does not wait for the answer any longer, or has gone. */
  withdraw(reason: string): void {
    if (this.#end()) this.reply.nothing(this.id);
    this.onCancel?.(reason);
  }

  #end(): boolean {
    if (this.isOver) return false;
    this.isOver = true;
    if (this.#table?.get(this.id) === this) this.#table.delete(this.id);
    return true;
  }
}

/** Of a request that asks for nothing: in the legacy era messages may come beside any answer. */
const plainWants = {
  legacy: { progress: false, messages: true },
  modern: { progress: false, messages: false },
} as const satisfies Record<string, Wants>;

/** How long a client may take to answer a question, in milliseconds. */
export const patience = 10 * 60_000;

type OpenQuestion = Pick<PromiseWithResolvers<unknown>, "resolve" | "reject">;

/**
 * What the rack knows of a client of the legacy era from one request to the next: a session over HTTP, or a connection
 * over stdio. `send` reaches the client beside its requests.
 */
export class ClientSession implements Peer, Listener {
  readonly codec = legacyCodec;
  readonly caller: Caller;
  readonly session = this;
  readonly requests = new Map<RpcId, ClientRequest>();
  version: string | undefined;
  abilities: ClientAbilities = {};
  client: ClientInfo | undefined;
  clientName = "";
  /** Set by the client for all its requests. */
  logLevel: string | undefined;
  /** The resources that the client has subscribed to, each with a function that stops watching it. */
  readonly watched = new Map<string, () => void>();
  readonly #send: (message: object) => void;
  readonly #questions = new Map<RpcId, OpenQuestion>();
  #asked = 0;
  #closed: string | undefined;

  constructor(caller: Caller, send: (message: object) => void) {
    this.caller = caller;
    this.#send = send;
  }

  /** Takes what the client says of itself. Throws an `RpcError` when it says it wrongly. */
  initialize(params: RpcParams): void {
    const { protocolVersion, capabilities, clientInfo } = params;
    if (typeof protocolVersion !== "string") {
      throw misfit("initialize", "protocolVersion", expected("string", protocolVersion));
    }
    if (!isAbilities(capabilities))
      throw misfit("initialize", "capabilities", expected("object", capabilities));
    if (!isClientInfo(clientInfo)) throw misfit("initialize", "clientInfo", expected("object", clientInfo));
    this.version = negotiated(protocolVersion);
    this.abilities = capabilities;
    this.client = clientInfo;
    this.clientName = clientNameOf(clientInfo);
  }

  listChanged(kind: string): void {
    this.#send({ jsonrpc: "2.0", method: `notifications/${kind}/list_changed` });
  }

  resourceUpdated(uri: string): void {
    if (!this.watched.has(uri)) return;
    this.#send({ jsonrpc: "2.0", method: "notifications/resources/updated", params: { uri } });
  }

  /** Asks the client in the course of one of its requests. Rejects when it answers with an error, or not in time. */
  async ask(request: ClientRequest, method: string, params: object, signal: AbortSignal): Promise<unknown> {
    if (this.#closed !== undefined) throw new Error(`Nothing can be asked: ${this.#closed}.`);
    const id = this.#asked++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const withdraw = (reason: unknown) => {
      const told = { requestId: id, reason: String(reason) };
      request.reply.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: told });
      reject(new Error(String(reason)));
    };
    const onAbort = () => withdraw(signal.reason);
    const timer = setTimeout(withdraw, patience, "Request timed out");
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

  /** Takes the client's answer to a question. One to nothing is passed over. */
  answer({ id, result, error }: RpcResponse): void {
    const open = id === undefined ? undefined : this.#questions.get(id);
    if (error === undefined) open?.resolve(result);
    else open?.reject(new Error(error.message));
  }

  /** Nobody is left to be asked, or to be told of resources. */
  close(reason: string): void {
    this.#closed = reason;
    for (const { reject } of this.#questions.values()) reject(new Error(`No answer: ${reason}.`));
    for (const stop of this.watched.values()) stop();
    this.watched.clear();
  }
}

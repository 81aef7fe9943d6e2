import type { ServerResponse } from "node:http";
import {
  type EraCodec,
  EventStream,
  errorText,
  type RpcError,
  type RpcId,
  resultText,
  rpcCodes,
  sendJson,
  sendNoEvents,
  type WriteFlow,
} from "../wire/index.ts";
import type { ClientRequest, Reply } from "./session.ts";
import { type HttpSession, noSession } from "./sessions.ts";

interface HttpReplyOptions {
  /** The session in whose name it is answered. */
  readonly session: HttpSession | undefined;
  /** How many requests came in one body; undefined for one that is not in a batch. */
  readonly batch?: number;
  /** Hears why the client was cut off. */
  readonly cutOff: (reason: string) => void;
  /** Everything has been answered that was asked. */
  readonly done: () => void;
}

/**
 * The answer to one POST. It is one message, unless something is told or asked before: then it is a stream, as is the
 * answer to a batch, which ends with the last answer that somebody still waits for.
 */
export class HttpReply implements Reply {
  /** What is answered here and ends with the connection. */
  readonly requests: ClientRequest[] = [];
  readonly #outgoing: ServerResponse;
  readonly #options: HttpReplyOptions;
  readonly #isBatch: boolean;
  #stream: EventStream | undefined;
  #waiting: number;

  constructor(outgoing: ServerResponse, options: HttpReplyOptions) {
    this.#outgoing = outgoing;
    this.#options = options;
    this.#isBatch = options.batch !== undefined;
    this.#waiting = options.batch ?? 1;
  }

  get flow(): WriteFlow | undefined {
    return this.#stream?.writer.flow;
  }

  /** Every answer has a connection for itself. */
  turn(): undefined {}

  send(message: object): void {
    this.#open().writer.send(message);
  }

  result(id: RpcId, result: string | Buffer) {
    if (typeof result === "string") return this.#answer(200, resultText(id, result));
    if (this.#isStream) return this.#answer(200, resultText(id, result.toString()));
    const pieces = ['{"result":', result, `,"jsonrpc":"2.0","id":${JSON.stringify(id)}}`];
    sendJson(this.#outgoing, 200, pieces, this.#headers);
    this.#settle();
  }

  error(id: RpcId, error: RpcError, codec: EraCodec): void {
    const { message, data } = error;
    const text = errorText(id, { code: codec.codeOf(error), message, data });
    this.#answer(codec.era === "modern" ? (statuses.get(error.code) ?? 200) : 200, text);
  }

  nothing(): void {
    if (!this.#isStream && this.#waiting === 1) {
      if (this.#options.session?.isGone === true) {
        sendJson(this.#outgoing, noSession.status, errorText(null, noSession));
      } else sendNoEvents(this.#outgoing, this.#headers);
    }
    this.#settle();
  }

  /** Refuses a request of a batch that was not begun. */
  refuse(id: RpcId, error: RpcError): void {
    this.#open().writer.write(errorText(id, error));
  }

  get #isStream(): boolean {
    return this.#stream !== undefined;
  }

  get #headers(): readonly string[] {
    const { session } = this.#options;
    return session === undefined ? none : ["mcp-session-id", session.id];
  }

  #open(): EventStream {
    const { cutOff } = this.#options;
    this.#stream ??= new EventStream(this.#outgoing, { cutOff, headers: this.#headers });
    return this.#stream;
  }

  #answer(status: number, text: string): void {
    if (this.#isStream || this.#isBatch) this.#open().writer.write(text);
    else sendJson(this.#outgoing, status, text, this.#headers);
    this.#settle();
  }

  #settle(): void {
    this.#waiting--;
    if (this.#waiting > 0) return;
    this.#stream?.end();
    this.#options.done();
  }
}

const none: readonly string[] = [];

/** The statuses that the modern era gives to errors of requests which were understood. */
const statuses: ReadonlyMap<number, number> = new Map([
  [rpcCodes.methodNotFound, 404],
  [rpcCodes.missingCapability, 400],
]);

import type { Readable, Writable } from "node:stream";
import { headOfLongMessage } from "../../helpers/index.ts";
import {
  batchedVersion,
  clientNameOf,
  type Era,
  errorText,
  hasEnvelope,
  legacyVersions,
  longestMessage,
  MessageWriter,
  metaKeys,
  metaOf,
  modernVersion,
  PacedLines,
  RpcError,
  type RpcId,
  type RpcMessage,
  type RpcNotification,
  type RpcRequest,
  readEnvelope,
  readRpc,
  refusedIdOf,
  reusedId,
  rpcCodes,
  unsupportedVersion,
  type WriteFlow,
  wantsRefusal,
} from "../wire/index.ts";
import { BatchReply, batchProblem } from "./batch.ts";
import type { Caller } from "./caller.ts";
import { dispatch, hear } from "./dispatch.ts";
import { toRpcError } from "./errors.ts";
import type { McpServing } from "./serving.ts";
import { ClientRequest, ClientSession, type Peer, type Reply } from "./session.ts";

export interface StdioStreams {
  readonly input: Readable;
  readonly output: Writable;
}

/** How much a client may leave unread, in characters, before nothing more is taken of what it asks. */
const FULL = 4 * 1024 * 1024;
/** How much it may leave unread before it is cut off. */
const MOST_UNREAD = 64 * 1024 * 1024;
/** How many of its requests may wait for their answers while it does not read those that there are. */
const MOST_WAITING = 1_000;
/**
 * How long after the end of the input, or after the last answer since, an answer may take, in milliseconds. Clients kill
 * a server that has not ended after two seconds.
 */
const PATIENCE = 1_000;
/** How long calls that were given up may take to be answered. */
const LAST_WORDS = 250;

/**
 * A connection to the one client that started this process, one message on each line. A line that is none is refused,
 * and never ends the connection. When the input ends, what it asked for is still answered if that is quick: a file or
 * another program may have been the one to ask.
 */
export class StdioConnection implements Reply {
  readonly #serving: McpServing;
  readonly #caller: Caller;
  readonly #output: Writable;
  readonly #session: ClientSession;
  readonly #reader: PacedLines;
  readonly #writer: MessageWriter;
  readonly #leave: (() => void)[] = [];
  readonly #closed = Promise.withResolvers<void>();
  /** Undefined until the client has said; `asking` while it has only asked which versions there are. */
  #era: Era | "asking" | undefined;
  #isClosed = false;
  /** Why nothing more is taken. */
  #ending: string | undefined;
  #drained: Promise<void> | undefined;
  #whenSettled = () => {};

  constructor(serving: McpServing, caller: Caller, { input, output }: StdioStreams) {
    this.#serving = serving;
    this.#caller = caller;
    this.#output = output;
    this.#session = new ClientSession(caller, (message) => this.send(message));
    this.#writer = new MessageWriter(output, {
      frame: ["", "\n"],
      most: MOST_UNREAD,
      freed: () => this.#reader.goOn(),
      overflowed: (unread) => this.#cutOff(unread),
    });
    this.#reader = new PacedLines(input, longestMessage, {
      onLine: (line) => this.#read(line),
      onGarbled: (line) => this.#refuseGarbled(line),
      onTooLong: (start, end) => this.#refuseLong(start, end),
      end: () => void this.#end("the client closed its side"),
      close: () => {
        if (this.#ending === undefined) this.#finish();
      },
      error: (error) => this.#serving.logger.debug("MCP:", error.message),
      isFull: () =>
        (this.#session.requests.size >= MOST_WAITING && this.flow.isFull) || this.#writer.unread > FULL,
    });
    this.#reader.start();
    // The program that started us has gone.
    output.on("error", () => this.#finish());
    output.on("close", () => this.#finish());
    const endWithExpert = () => {
      serving.logger.warn(
        `The expert "${caller.expert?.name}" is gone, and the connection that served it ends.`,
      );
      void this.#end("the expert is gone");
    };
    this.#leave.push(serving.expertWatch.watch(caller, endWithExpert));
  }

  /** Resolves when the connection has ended, from either side. Calls that were under way are cancelled. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get flow(): WriteFlow {
    return this.#writer.flow;
  }

  turn(): Promise<void> | undefined {
    return this.#writer.flow.turn();
  }

  send(message: object): void {
    if (!this.#isClosed) this.#writer.send(message);
  }

  answer(_: RpcId, message: string | readonly (string | Buffer)[]): void {
    this.#write(typeof message === "string" ? message : message.join(""));
    this.#settled();
  }

  nothing(): void {
    this.#settled();
  }

  /** Takes nothing more, leaves what is under way a moment to be answered, and ends the connection. */
  close(): Promise<void> {
    return this.#end("the server is stopping");
  }

  #read(line: string): void {
    if (line.trim() === "") return;
    const value = parsed(line);
    if (value === undefined) {
      this.#refuse(null, rpcCodes.parseError, "A line of the input is not JSON.");
      return;
    }
    const isBatched = this.#session.version === batchedVersion;
    if (isBatched && Array.isArray(value) && value.length > 0) this.#takeBatch(value);
    else this.#take(value);
  }

  #take(value: unknown): void {
    const message = readRpc(value);
    if (message === undefined) {
      if (wantsRefusal(value)) this.#write(errorText(refusedIdOf(value), noMessage));
      return;
    }
    if (message.kind === "request" && this.#session.requests.has(message.id)) {
      // The request that had the id first is still to be answered.
      this.#write(errorText(message.id, reusedId(message.id)));
      return;
    }
    this.#handle(message);
  }

  #takeBatch(values: readonly unknown[]): void {
    const problem = batchProblem(values);
    if (problem !== undefined) {
      this.#refuse(null, rpcCodes.invalidRequest, problem);
      return;
    }
    const batch = new BatchReply(this, () => {
      if (batch.answers.length > 0) this.#write(`[${batch.answers.join(",")}]`);
      this.#settled();
    });
    const messages = values.flatMap((value) => {
      const message = readRpc(value);
      const isRefused = message === undefined && wantsRefusal(value);
      if (isRefused) batch.answers.push(errorText(refusedIdOf(value), noMessage));
      return message ?? [];
    });
    batch.take(messages, {
      requests: this.#session.requests,
      begin: (message) => this.#handle(message, batch),
      hear: (message) => this.#handle(message, batch),
    });
  }

  #handle(message: RpcMessage, reply: Reply = this) {
    if (message.kind === "response") return this.#session.answer(message);
    const { requests, codec } = this.#session;
    try {
      const peer = this.#peerOf(message);
      if (message.kind === "notification") return hear(message, requests);
      if (message.method === "initialize") this.#session.initialize(message.params);
      dispatch(this.#serving, new ClientRequest(message, peer, reply, requests));
    } catch (thrown) {
      if (message.kind === "notification") hear(message, requests);
      else reply.answer(message.id, codec.encodeError(message.id, toRpcError(thrown)), 200);
    }
  }

  /**
   * Who sends a message, by the version of the protocol that the client began with; a request of another version is
   * refused, since that server could not ask its client anything. Throws an `RpcError`.
   */
  #peerOf({ kind, method, params }: RpcRequest | RpcNotification): Peer {
    const meta = metaOf(params);
    if (this.#era === "legacy") {
      if (meta[metaKeys.version] === modernVersion && method !== "server/discover") throw otherVersion;
      return this.#session;
    }
    if (!hasEnvelope(meta)) {
      if (this.#era === undefined || (this.#era === "asking" && method === "initialize")) {
        this.#era = "legacy";
        this.#leave.push(this.#serving.changes.join(this.#caller, this.#session));
        return this.#session;
      }
      throw method === "initialize" ? unsupportedVersion(params.protocolVersion) : noEnvelope;
    }
    const { version, abilities, client, logLevel } = readEnvelope(meta);
    if (version !== modernVersion) throw unsupportedVersion(version);
    if (method === "server/discover") this.#era ??= "asking";
    // A notification settles nothing for a client that has asked before.
    else if (kind === "request" || this.#era === undefined) this.#era = "modern";
    const { modern: codec } = this.#serving;
    return { caller: this.#caller, codec, version, abilities, clientName: clientNameOf(client), logLevel };
  }

  #settled(): void {
    if (this.#ending !== undefined) this.#whenSettled();
  }

  /** Refuses what was never taken: a request that has the same id, and is under way, is still to be answered. */
  #refuse(id: RpcId | null, code: number, message: string): void {
    this.#write(errorText(id, { code, message }));
  }

  #write(line: string): void {
    if (!this.#isClosed) this.#writer.write(line);
  }

  #refuseGarbled(line: string): void {
    const message = readRpc(parsed(line));
    const id = message?.kind === "request" ? message.id : null;
    // An id that cannot be read itself is nobody's.
    const isReadable = !String(id).includes("\uFFFD");
    this.#refuse(isReadable ? id : null, rpcCodes.parseError, "A line of the input is not text in UTF-8.");
  }

  #refuseLong(start: string, end: string): void {
    const { id = null, method } = headOfLongMessage(start, end);
    const text = `A message is longer than ${longestMessage} bytes, the most that is taken.`;
    this.#refuse(method === undefined ? null : id, rpcCodes.invalidRequest, text);
  }

  /** There is no use in keeping anything for a client that does not read. */
  #cutOff(unread: number): void {
    this.#serving.logger.warn(`The MCP client was cut off: it left ${unread} characters unread.`);
    this.#finish();
    this.#output.destroy();
  }

  async #end(reason: string): Promise<void> {
    if (this.#isClosed) return;
    this.#drained ??= this.#drain(reason);
    await this.#drained;
    this.#finish();
  }

  async #drain(reason: string): Promise<void> {
    this.#ending = reason;
    this.#reader.stop();
    // Nobody is left to answer what we have asked.
    this.#session.close(reason);
    await this.#answered(PATIENCE);
    if (this.#isDone) return;
    for (const request of [...this.#session.requests.values()]) request.cancel(reason);
    await this.#answered(LAST_WORDS);
  }

  get #isDone(): boolean {
    if (this.#isClosed) return true;
    for (const { stop } of this.#session.requests.values()) if (stop === undefined) return false;
    return true;
  }

  /** Resolves when all is answered, or when nothing has been for so long. */
  #answered(limit: number): Promise<void> | undefined {
    if (this.#isDone) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, limit);
      this.#whenSettled = () => {
        if (!this.#isDone) return void timer.refresh();
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #finish(): void {
    if (this.#isClosed) return;
    for (const request of [...this.#session.requests.values()]) {
      request.stop?.();
      request.withdraw("the client closed the connection");
    }
    this.#isClosed = true;
    this.#whenSettled();
    this.#reader.stop();
    // What is written is handed to the system before whoever waits for the end may end the process.
    this.#writer.flush();
    this.#session.close("the client closed the connection");
    for (const leave of this.#leave) leave();
    this.flow.freed();
    this.#closed.resolve();
  }
}

const noMessage = new RpcError(
  rpcCodes.invalidRequest,
  "A line of the input is not a valid JSON-RPC message.",
);

const otherVersion = new RpcError(
  rpcCodes.unsupportedVersion,
  "This connection began with an older version of the protocol, and stays with it.",
  { supported: legacyVersions, requested: modernVersion },
);

const noEnvelope = new RpcError(
  rpcCodes.invalidParams,
  `A request needs the _meta of ${modernVersion}, with which this connection began. Older versions begin with initialize.`,
);

/** Undefined for what is no JSON. */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex, Readable, Writable } from "node:stream";
import { joinProtocol } from "../../helpers/server-address.ts";
import {
  batchedVersion,
  type Era,
  errorText,
  legacyVersions,
  longestMessage,
  longMessageRefusal,
  metaKeys,
  modernVersion,
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
  wantsRefusal,
} from "../wire/index.ts";
import { toRpcError } from "./answers.ts";
import { BatchReply, batchProblem } from "./batch.ts";
import type { Caller } from "./caller.ts";
import { dispatch, handleNotification } from "./dispatch.ts";
import { refused } from "./http-checks.ts";
import type { McpServing } from "./mcp-services.ts";
import { PacedLines } from "./paced-lines.ts";
import {
  type AnswerText,
  ClientRequest,
  ClientSession,
  connectionClosed,
  inputClosed,
  type Peer,
  type Reply,
} from "./session.ts";
import { MessageWriter, type WriteFlow } from "./writer.ts";

export interface StdioStreams {
  readonly input: Readable;
  readonly output: Writable;
}

/** How many characters of output the client may leave unread before the server stops reading its input. */
const FULL = 4 * 1024 * 1024;
/** How many characters of output the client may leave unread before it is disconnected. */
const MOST_UNREAD = 64 * 1024 * 1024;
/**
 * How many requests of the client may be open, while it leaves output unread, before the server stops reading
 * its input.
 */
const MOST_WAITING = 1_000;
/**
 * How long to wait for the next answer after the input has ended, in milliseconds. Clients kill a server that has not
 * ended after two seconds.
 */
const ANSWER_TIMEOUT = 1_000;
/** How long to wait for the answers of cancelled calls, in milliseconds. */
const CANCEL_TIMEOUT = 250;

/**
 * The connection to the client that started this process, with one message on each line. An invalid line is refused and
 * does not end the connection. When the input ends, quick requests are still answered, because the input may be a file
 * or the output of another program.
 */
export class StdioConnection implements Reply {
  readonly connection: ClientSession;
  readonly #serving: McpServing;
  readonly #caller: Caller;
  readonly #output: Writable;
  readonly #session: ClientSession;
  readonly #reader: PacedLines;
  readonly #writer: MessageWriter;
  readonly #unsubscribe: (() => void)[] = [];
  readonly #closed = Promise.withResolvers<void>();
  /**
   * The era of the protocol that the client speaks. Undefined until its first message; `asking` while the
   * client has only called `server/discover`.
   */
  #era: Era | "asking" | undefined;
  #isClosed = false;
  /** Why the connection is ending. Set when no more input is read. */
  #endReason: string | undefined;
  #drained: Promise<void> | undefined;
  #whenSettled = () => {};

  constructor(serving: McpServing, caller: Caller, { input, output }: StdioStreams) {
    this.#serving = serving;
    this.#caller = caller;
    this.#output = output;
    this.#session = new ClientSession(caller, (message) => this.send(message));
    this.connection = this.#session;
    this.#writer = new MessageWriter(output, {
      frame: ["", "\n"],
      most: MOST_UNREAD,
      overflowed: (unread) => this.#cutOff(unread),
    });
    this.#reader = new PacedLines(input, longestMessage, {
      onLine: this.#read,
      onGarbled: (line) => this.#refuseGarbled(line),
      onTooLong: (start, end) => this.#refuseLong(start, end),
      end: () => void this.#end(inputClosed),
      close: () => {
        if (this.#endReason === undefined) this.#finish();
      },
      error: (error) => this.#serving.logger.debug("MCP:", error.message),
      isFull: () =>
        (this.#session.requests.entries.size >= MOST_WAITING && this.flow.isFull) ||
        this.#writer.unread > FULL,
      whenFreed: (act) => this.flow.whenFreed(act),
    });
    this.#reader.start();
    // These events mean that the program that started us has gone.
    output.on("error", () => this.#finish());
    output.on("close", () => this.#finish());
    const endWithExpert = () => {
      serving.logger.warn(
        `The expert "${caller.expert?.name}" is gone, and the connection that served it ends.`,
      );
      void this.#end("the expert is gone");
    };
    this.#unsubscribe.push(serving.expertWatch.watch(caller, endWithExpert));
  }

  /** Resolves when either side has ended the connection. Calls that still run are cancelled. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get flow(): WriteFlow {
    return this.#writer.flow;
  }

  waitForRoom(): Promise<void> | undefined {
    return this.#writer.flow.waitForRoom();
  }

  send(message: object): void {
    if (!this.#isClosed) this.#writer.send(message);
  }

  end(answer: AnswerText | undefined): void {
    if (answer !== undefined && !this.#isClosed) {
      this.#writer.write(typeof answer === "string" ? answer : answer.join(""));
    }
    if (this.#endReason !== undefined) this.#whenSettled();
  }

  /** Stops reading, waits a moment for answers to open requests, and ends the connection. */
  close(): Promise<void> {
    return this.#end("the server is stopping");
  }

  readonly #read = (line: string) => {
    if (line.trim() === "") return;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      return this.#refuse(null, { code: rpcCodes.parseError, message: "A line of the input is not JSON." });
    }
    if (this.#session.version === batchedVersion && Array.isArray(value) && value.length > 0) {
      return this.#takeBatch(value);
    }
    const message = readRpc(value);
    if (message === undefined) {
      if (wantsRefusal(value)) this.#refuse(refusedIdOf(value), noMessage);
    } else if (message.kind === "request" && this.#session.requests.entries.has(message.id)) {
      this.#refuse(message.id, reusedId(message.id));
    } else this.#handle(message);
  };

  #takeBatch(values: readonly unknown[]) {
    const problem = batchProblem(values);
    if (problem !== undefined) {
      return this.#refuse(null, { code: rpcCodes.invalidRequest, message: problem });
    }
    const batch = new BatchReply(this, () =>
      this.end(batch.answers.length === 0 ? undefined : `[${batch.answers.join(",")}]`),
    );
    const messages = values.flatMap((value) => {
      const message = readRpc(value);
      const isRefused = message === undefined && wantsRefusal(value);
      if (isRefused) batch.answers.push(errorText(refusedIdOf(value), noMessage));
      return message ?? [];
    });
    batch.take(messages, this.#session.requests, (message) => this.#handle(message, batch));
  }

  #handle(message: RpcMessage, reply: Reply = this) {
    if (message.kind === "response") return this.#session.answer(message);
    const { requests, codec } = this.#session;
    try {
      const peer = this.#peerOf(message);
      if (message.kind === "notification") return handleNotification(message, requests);
      if (message.method === "initialize") this.#session.initialize(message.params);
      // Calls are as fast as they can be: the client was seen when it listed the tools.
      if (message.method !== "tools/call")
        this.#serving.clients.see(peer.client, peer.codec.era, this.#caller, message.method, "stdio");
      dispatch(this.#serving, new ClientRequest(message, peer, reply, requests));
    } catch (thrown) {
      if (message.kind === "notification") handleNotification(message, requests);
      else reply.end(codec.encodeError(message.id, toRpcError(thrown)), 200);
    }
  }

  /**
   * The sender of a message. The client's first message other than `server/discover` decides the era of the
   * connection. Throws an `RpcError` for a request of the other era.
   */
  #peerOf({ kind, method, params, meta }: RpcRequest | RpcNotification): Peer {
    if (this.#era === "legacy") {
      if (meta[metaKeys.version] === modernVersion && method !== "server/discover") throw otherVersion;
      return this.#session;
    }
    if (meta[metaKeys.version] === undefined) {
      if (this.#era === undefined || (this.#era === "asking" && method === "initialize")) {
        this.#era = "legacy";
        this.#unsubscribe.push(this.#serving.changes.join(this.#caller, this.#session));
        return this.#session;
      }
      throw method === "initialize" ? unsupportedVersion(params.protocolVersion) : noEnvelope;
    }
    const { version, abilities, client, logLevel } = readEnvelope(meta);
    if (version !== modernVersion) throw unsupportedVersion(version);
    if (method === "server/discover") this.#era ??= "asking";
    // After `server/discover` only a request decides the era, not a notification.
    else if (kind === "request" || this.#era === undefined) this.#era = "modern";
    const { modern: codec } = this.#serving;
    return { caller: this.#caller, codec, version, abilities, client, logLevel };
  }

  /** Writes an error without touching the request table: an open request may have the same id. */
  #refuse(id: RpcId | null, error: Pick<RpcError, "code" | "message">): void {
    if (!this.#isClosed) this.#writer.write(errorText(id, error));
  }

  #refuseGarbled(line: string): void {
    let id: RpcId | null = null;
    try {
      const message = readRpc(JSON.parse(line));
      // A garbled id belongs to no request.
      if (message?.kind === "request" && !String(message.id).includes("\uFFFD")) id = message.id;
    } catch {
      // The line is not JSON either, so it has no id.
    }
    this.#refuse(id, { code: rpcCodes.parseError, message: "A line of the input is not text in UTF-8." });
  }

  #refuseLong(start: string, end: string): void {
    if (!this.#isClosed) this.#writer.write(longMessageRefusal(start, end));
  }

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
    this.#endReason = reason;
    this.#reader.stop();
    // The client can no longer answer our questions.
    this.#session.close(reason);
    await this.#waitForAnswers(ANSWER_TIMEOUT);
    if (this.#isDone) return;
    for (const request of [...this.#session.requests.entries.values()]) request.onCancel?.(reason);
    await this.#waitForAnswers(CANCEL_TIMEOUT);
  }

  get #isDone(): boolean {
    if (this.#isClosed) return true;
    for (const { stop } of this.#session.requests.entries.values()) if (stop === undefined) return false;
    return true;
  }

  /** Resolves when all requests are answered, or no request has been answered for `limit` milliseconds. */
  #waitForAnswers(limit: number): Promise<void> | undefined {
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
    for (const request of [...this.#session.requests.entries.values()]) {
      request.stop?.();
      request.withdraw(connectionClosed);
    }
    this.#isClosed = true;
    this.#whenSettled();
    this.#reader.stop();
    // Flushed before `closed` resolves, because the process may exit then.
    this.#writer.flush();
    this.#session.close(connectionClosed);
    for (const stop of this.#unsubscribe) stop();
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

/** How long a client may take to close its side after the last line to it, in milliseconds. */
const HALF_OPEN_TIMEOUT = 1_000;

/**
 * The stdio clients that share this server: each is a `toolrack mcp` that passes its lines on over a connection of its
 * own instead of opening the workspace a second time.
 */
export class JoinedClients {
  readonly #serving: McpServing;
  readonly #connections = new Set<StdioConnection>();
  #isClosed = false;

  constructor(serving: McpServing) {
    this.#serving = serving;
  }

  /**
   * Takes the connection over from HTTP, and serves the client on it until either side ends it. Throws when the server
   * is stopping.
   */
  add(outgoing: ServerResponse, stream: Duplex, caller: Caller): void {
    if (this.#isClosed) throw refused(503, "The server is stopping and takes no new clients.");
    if (stream instanceof Socket) outgoing.detachSocket(stream);
    stream.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${joinProtocol}\r\n\r\n`,
    );
    const connection = new StdioConnection(this.#serving, caller, { input: stream, output: stream });
    this.#connections.add(connection);
    void connection.closed.then(() => {
      this.#connections.delete(connection);
      stream.end();
      const timer = setTimeout(() => stream.destroy(), HALF_OPEN_TIMEOUT);
      stream.once("close", () => clearTimeout(timer)).resume();
    });
  }

  /** Ends all connections, each after a moment for answers to its open requests. The clients go on by themselves. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#connections].map((connection) => connection.close()));
  }
}

import type { ServerResponse } from "node:http";
import { EventStream, errorText, type RpcId, sendJson, sendNoEvents, type WriteFlow } from "../wire/index.ts";
import type { ClientRequest, Reply } from "./session.ts";
import { type HttpSession, noSession } from "./sessions.ts";

interface HttpReplyOptions {
  /** The session in whose name it is answered. */
  readonly session: HttpSession | undefined;
  /** Hears why the client was cut off. */
  readonly cutOff: (reason: string) => void;
  /** Everything has been answered that was asked. */
  readonly done: () => void;
}

/** The answer to one POST: one message, unless something is told or asked before. Then it is a stream. */
export class HttpReply implements Reply {
  /** What is answered here and ends with the connection. */
  readonly requests: ClientRequest[] = [];
  readonly #outgoing: ServerResponse;
  readonly #options: HttpReplyOptions;
  readonly #headers: readonly string[];
  #stream: EventStream | undefined;
  #isOver = false;

  constructor(outgoing: ServerResponse, options: HttpReplyOptions) {
    this.#outgoing = outgoing;
    this.#options = options;
    this.#headers = options.session === undefined ? none : ["mcp-session-id", options.session.id];
  }

  get flow(): WriteFlow | undefined {
    return this.#stream?.writer.flow;
  }

  /** Every answer has a connection for itself. */
  turn(): undefined {}

  send(message: object): void {
    // What comes too late, such as that a question is withdrawn, has no way to the client any more.
    if (this.#isOver) return;
    const { cutOff } = this.#options;
    this.#stream ??= new EventStream(this.#outgoing, { cutOff, headers: this.#headers });
    this.#stream.writer.send(message);
  }

  answer(_: RpcId, message: string | readonly (string | Buffer)[], status: number): void {
    if (this.#stream === undefined) sendJson(this.#outgoing, status, message, this.#headers);
    else this.#end(this.#stream, [typeof message === "string" ? message : message.join("")]);
    this.#done();
  }

  /** Answers a batch. */
  answerAll(messages: readonly string[], status: number) {
    if (messages.length === 0) return this.nothing();
    if (this.#stream === undefined)
      sendJson(this.#outgoing, status, `[${messages.join(",")}]`, this.#headers);
    else this.#end(this.#stream, messages);
    this.#done();
  }

  nothing(): void {
    const isGone = this.#options.session?.isGone === true;
    if (this.#stream !== undefined) this.#stream.end();
    else if (isGone) sendJson(this.#outgoing, noSession.status, errorText(null, noSession));
    else sendNoEvents(this.#outgoing, this.#headers);
    this.#done();
  }

  #done(): void {
    this.#isOver = true;
    this.#options.done();
  }

  #end(stream: EventStream, messages: readonly string[]): void {
    for (const message of messages) stream.writer.write(message);
    stream.end();
  }
}

const none: readonly string[] = [];

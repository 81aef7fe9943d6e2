import type { ServerResponse } from "node:http";
import { EventStream, errorText, type RpcId, sendJson, sendNoEvents, type WriteFlow } from "../wire/index.ts";
import type { ClientRequest, Reply } from "./session.ts";
import { type HttpSession, noSession } from "./sessions.ts";

interface HttpReplyOptions {
  /** The session that the request belongs to. */
  readonly session: HttpSession | undefined;
  /** Called with the reason when the client is cut off. */
  readonly cutOff: (reason: string) => void;
  /** Called when every request of the POST has been answered. */
  readonly done: () => void;
}

/** The answer to one POST: one JSON message, or a stream when something was sent before the answer. */
export class HttpReply implements Reply {
  /** The requests that are answered here. They are withdrawn when the connection ends. */
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

  /** Every POST has its own response, so there is always room. */
  waitForRoom(): undefined {}

  send(message: object): void {
    // After the answer the response is closed. A late message, such as a withdrawn question, is dropped.
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

  answerAll(messages: readonly string[], status: number) {
    if (messages.length === 0) return this.endWithoutAnswer();
    if (this.#stream === undefined)
      sendJson(this.#outgoing, status, `[${messages.join(",")}]`, this.#headers);
    else this.#end(this.#stream, messages);
    this.#done();
  }

  endWithoutAnswer(): void {
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

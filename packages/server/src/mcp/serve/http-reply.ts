import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { ClientConnection } from "../../calls/index.ts";
import { whenGone } from "../../http/wire/index.ts";
import { errorText, rpcCodes } from "../wire/index.ts";
import { type AnswerText, type ClientRequest, connectionClosed, type Reply } from "./session.ts";
import { MessageWriter, type WriteFlow } from "./writer.ts";

/** How much a client may leave unread before it is disconnected. */
interface UnreadLimits {
  /** How many bytes of output the client may leave unread, not counting the message that is written last. */
  readonly most: number;
  /** How long the client may read nothing at all, in milliseconds. */
  readonly patience: number;
}

export interface EventStreamOptions {
  /** Called with the reason when the client is disconnected. */
  readonly cutOff: (reason: string) => void;
  readonly headers?: HeaderList;
  readonly limits?: UnreadLimits;
}

/** Header names and values in turn: the form that Node writes fastest. */
export type HeaderList = readonly string[];

const none: HeaderList = [];
const streamHeaders: HeaderList = [
  ...["Content-Type", "text/event-stream", "Cache-Control", "no-cache, no-transform"],
  ...["X-Accel-Buffering", "no"],
];
const usualLimits: UnreadLimits = { most: 16 * 1024 * 1024, patience: 5 * 60_000 };
const KEEP_ALIVE = 15_000;

/** Sends messages as events on one response. A client that exceeds the `UnreadLimits` is disconnected. */
export class EventStream {
  readonly writer: MessageWriter;
  readonly #outgoing: ServerResponse;

  constructor(
    outgoing: ServerResponse,
    { cutOff, headers = none, limits = usualLimits }: EventStreamOptions,
  ) {
    const giveUp = (reason: string) => {
      cutOff(reason);
      outgoing.destroy();
    };
    this.#outgoing = outgoing;
    this.writer = new MessageWriter(outgoing, {
      frame: ["event: message\ndata: ", "\n\n"],
      most: limits.most,
      overflowed: (unread) => giveUp(`it left ${unread} bytes unread`),
    });
    outgoing.writeHead(200, [...streamHeaders, ...headers]);
    outgoing.flushHeaders();
    // The timeout starts again whenever the client reads or something is written. It matters only while bytes are unread.
    outgoing.setTimeout(limits.patience, () => {
      if (outgoing.writableLength > 0) giveUp(`it took nothing for ${limits.patience / 1000} seconds`);
    });
    const keepAlive = setInterval(() => {
      if (!outgoing.writableNeedDrain) outgoing.write(": keepalive\n\n");
    }, KEEP_ALIVE).unref();
    outgoing.once("close", () => clearInterval(keepAlive)).once("finish", () => clearInterval(keepAlive));
  }

  end(): void {
    this.writer.flush();
    this.#outgoing.end();
  }
}

/** Sends one message as JSON. */
export function sendJson(
  outgoing: ServerResponse,
  status: number,
  body: AnswerText,
  headers: HeaderList = none,
): void {
  const pieces = typeof body === "string" ? [body] : body;
  let length = 0;
  for (const piece of pieces) length += Buffer.byteLength(piece);
  const own = ["Content-Type", "application/json", "Content-Length", String(length)];
  outgoing.writeHead(status, [...own, ...headers]);
  if (typeof body === "string") {
    // Text in ASCII is the same in Latin 1, which is copied as it is.
    outgoing.end(body, length === body.length ? "latin1" : "utf8");
    return;
  }
  outgoing.cork();
  for (const piece of pieces) outgoing.write(piece);
  outgoing.end();
  outgoing.uncork();
}

/** The answer to a request of an unknown session. The status tells the client to open a new session. */
export const noSession = {
  status: 404,
  code: rpcCodes.unavailable,
  message: "There is no such session. Initialize a new one.",
};

/** The members of an `HttpSession` that a reply uses. */
interface ReplySession extends ClientConnection {
  /** Whether the session has ended. */
  readonly isGone: boolean;
  /** Counts the session as busy until this response is closed. */
  keepBusy(outgoing: ServerResponse): void;
}

/** Counts the answers that are still to be sent, so that the stopping server can wait for them. */
export interface OwedAnswers {
  /** Called with the reason when a client is disconnected. */
  readonly cutOff: (reason: string) => void;
  count: number;
  /** Called when the count comes down to zero. */
  whenNone: (() => void) | undefined;
}

/** The answer to one POST: a JSON message, or a stream if notifications or questions precede the answer. */
export class HttpReply implements Reply {
  /** The requests that this reply answers. They are withdrawn when the client closes the connection. */
  readonly requests: ClientRequest[] = [];
  readonly headers: IncomingHttpHeaders;
  readonly connection: ReplySession | undefined;
  readonly #owed: OwedAnswers;
  readonly #outgoing: ServerResponse;
  readonly #headers: HeaderList;
  readonly #release: () => void;
  #stream: EventStream | undefined;
  #isOver = false;
  #isOwed = true;

  constructor(
    owed: OwedAnswers,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    session: ReplySession | undefined,
  ) {
    this.headers = incoming.headers;
    this.#owed = owed;
    this.#outgoing = outgoing;
    this.connection = session;
    this.#headers = session === undefined ? none : ["mcp-session-id", session.id];
    owed.count++;
    session?.keepBusy(outgoing);
    // Requests are withdrawn even in a session, because a client cannot ask again for an answer that it
    // missed.
    this.#release = whenGone(incoming, outgoing, () => {
      for (const request of this.requests) request.withdraw(connectionClosed);
    });
  }

  get flow(): WriteFlow | undefined {
    return this.#stream?.writer.flow;
  }

  /** Never waits: every POST has a response of its own, so there is always room. */
  waitForRoom(): undefined {}

  send(message: object): void {
    // After the answer the response is closed. A late message, such as a withdrawn question, is dropped.
    if (this.#isOver) return;
    const { cutOff } = this.#owed;
    this.#stream ??= new EventStream(this.#outgoing, { cutOff, headers: this.#headers });
    this.#stream.writer.send(message);
  }

  end(answer: AnswerText | undefined, status: number): void {
    if (this.#stream !== undefined) {
      if (answer !== undefined)
        this.#stream.writer.write(typeof answer === "string" ? answer : answer.join(""));
      this.#stream.end();
    } else if (answer !== undefined) sendJson(this.#outgoing, status, answer, this.#headers);
    else if (this.connection?.isGone) sendJson(this.#outgoing, noSession.status, errorText(null, noSession));
    // A cancelled request is answered with a stream without any event.
    else this.#outgoing.writeHead(200, [...streamHeaders, ...this.#headers]).end();
    this.#isOver = true;
    this.#release();
    if (this.#isOwed) this.settle();
  }

  /** Sends the answers to a batch: one by one when a stream is open, otherwise all in one message. */
  endBatch(answers: readonly string[], status: number): void {
    for (const answer of answers) this.#stream?.writer.write(answer);
    const isEmpty = this.#stream !== undefined || answers.length === 0;
    this.end(isEmpty ? undefined : `[${answers.join(",")}]`, status);
  }

  /** Stops counting the answer as owed: it was sent, or it is a stream that never ends by itself. */
  settle(): void {
    const owed = this.#owed;
    this.#isOwed = false;
    owed.count--;
    if (owed.count === 0) owed.whenNone?.();
  }
}

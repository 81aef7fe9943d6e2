import { isAscii } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { MIMEType } from "node:util";
import { WriteFlow } from "./flow.ts";
import { isNews, rpcCodes } from "./json-rpc.ts";

export interface RefusedBody {
  readonly status: number;
  readonly code: number;
  readonly message: string;
  readonly headers?: HeaderList;
}

const decoder = new TextDecoder("utf-8", { fatal: true });
const UTF8 = /^utf-?8$/i;

/** The text of a request's body. Counts while it reads and never holds more than `limit` bytes. */
export function readBody(incoming: IncomingMessage, limit: number): Promise<string | RefusedBody> {
  return new Promise((resolve) => {
    // The first outcome counts, so that nobody has to stop listening: the request is gone with its answer.
    let chunks: Buffer[] = [];
    let size = 0;
    // A client that left before anybody listened says nothing any more.
    if (incoming.destroyed) return resolve(broken);
    // A connection that breaks is an error of the request.
    incoming.on("error", () => resolve(broken));
    const refusal = refusalOf(incoming, limit);
    if (refusal !== undefined) {
      // What is left of a body that nobody reads is let through, so that the answer reaches a client that still sends.
      incoming.resume();
      return resolve(refusal);
    }
    incoming.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) {
        chunks.push(chunk);
        return;
      }
      chunks = [];
      resolve(tooLarge(limit));
    });
    incoming.on("end", () => {
      if (size <= limit) resolve(decoded(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)));
    });
  });
}

/** What is wrong with a body can often be told before it comes. */
function refusalOf({ headers }: IncomingMessage, limit: number): RefusedBody | undefined {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    return {
      status: 415,
      code: rpcCodes.invalidRequest,
      message: `The body came with Content-Encoding: ${encoding}, which this server does not read. Send it as it is, without that header.`,
      headers: ["Accept-Encoding", "identity"],
    };
  }
  const charset = mediaType(headers["content-type"])?.charset;
  if (charset !== undefined && !UTF8.test(charset)) {
    return {
      status: 415,
      code: rpcCodes.invalidRequest,
      message: `The body came with charset=${charset.slice(0, 100)}, and messages are read as UTF-8 alone. Send it in UTF-8.`,
    };
  }
  const length = headers["content-length"];
  // Any client may send a kilobyte: short numbers need not be read. What is sent is counted too.
  return length !== undefined && length.length > 3 && Number(length) > limit ? tooLarge(limit) : undefined;
}

function decoded(bytes: Buffer): string | RefusedBody {
  // Most messages are, and then the bytes are the characters.
  if (isAscii(bytes)) return bytes.toString("latin1");
  try {
    return decoder.decode(bytes);
  } catch {
    return { status: 400, code: rpcCodes.parseError, message: "The body is not text in UTF-8." };
  }
}

const broken: RefusedBody = {
  status: 400,
  code: rpcCodes.parseError,
  message: "The connection broke before the whole body had come.",
};

function tooLarge(limit: number): RefusedBody {
  return {
    status: 413,
    code: rpcCodes.invalidRequest,
    message: `The body is larger than ${limit} bytes, the most that this server takes.`,
  };
}

const JSON_TYPE = "application/json";
const EVENTS_TYPE = "text/event-stream";
const USUAL_ACCEPT = `${JSON_TYPE}, ${EVENTS_TYPE}`;

export function isJson(type: string | undefined): boolean {
  return type === JSON_TYPE || mediaType(type)?.essence === JSON_TYPE;
}

/** Undefined for what is no media type at all. */
function mediaType(type: string | undefined): { essence: string; charset: string | undefined } | undefined {
  if (type === undefined || type === JSON_TYPE) return undefined;
  try {
    const { essence, params } = new MIMEType(type);
    return { essence, charset: params.get("charset")?.trim() };
  } catch {
    return undefined;
  }
}

/** Whether a client takes answers in one message as well as in a stream. */
export function acceptsBoth(accept = ""): boolean {
  // What nearly all clients send need not be taken apart.
  return accept === USUAL_ACCEPT || (accepts(accept, JSON_TYPE) && acceptsEvents(accept));
}

export function acceptsEvents(accept = ""): boolean {
  return accepts(accept, EVENTS_TYPE);
}

/**
 * Whether an `Accept` header takes a type, such as `text/event-stream`: of the ranges that cover it the closest counts,
 * and with a weight of zero it refuses. A client that sends none has not said what it takes.
 */
export function accepts(header: string, type: string): boolean {
  const ranges = [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"];
  let closest = ranges.length;
  let isTaken = false;
  for (const part of header.split(",")) {
    const [range = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const distance = ranges.indexOf(range);
    if (distance === -1 || distance > closest) continue;
    const isRefused = parameters.some((parameter) => NOTHING.test(parameter));
    isTaken = (distance === closest && isTaken) || !isRefused;
    closest = distance;
  }
  return isTaken;
}

const NOTHING = /^q\s*=\s*0(?:\.0*)?$/;

/** How much a client may leave unread before it is cut off. */
interface UnreadLimits {
  /** In bytes, beside the last message. */
  readonly most: number;
  /** How long it may take nothing at all, in milliseconds. */
  readonly patience: number;
}

export interface EventStreamOptions {
  /** Hears why a client was cut off. */
  readonly cutOff: (reason: string) => void;
  readonly headers?: HeaderList;
  readonly limits?: UnreadLimits;
}

/** Names and values in turn, which is the form that costs Node least. */
export type HeaderList = readonly string[];

const none: HeaderList = [];
const streamHeaders: HeaderList = [
  "Content-Type",
  EVENTS_TYPE,
  "Cache-Control",
  "no-cache, no-transform",
  "X-Accel-Buffering",
  "no",
];
const usualLimits: UnreadLimits = { most: 16 * 1024 * 1024, patience: 5 * 60_000 };
const KEEP_ALIVE = 15_000;

/** How much a client that does not read has been told. */
export function flowOf(outgoing: ServerResponse): WriteFlow {
  const flow = new WriteFlow(() => outgoing.writableNeedDrain);
  const freed = () => flow.freed();
  outgoing.on("drain", freed).on("close", freed);
  return flow;
}

/**
 * Messages to a client as events on one response. What a client that does not read just now is to be told is kept for it,
 * up to a limit; news that are told again meanwhile, as that a list has changed, are told once, in the place of the last.
 */
export class EventStream {
  readonly #outgoing: ServerResponse;
  readonly #options: EventStreamOptions;
  readonly #limits: UnreadLimits;
  readonly #keepAlive: NodeJS.Timeout;
  readonly #unread = new Map<unknown, string>();
  #unreadLength = 0;

  constructor(outgoing: ServerResponse, options: EventStreamOptions) {
    const { headers = none, limits = usualLimits } = options;
    this.#outgoing = outgoing;
    this.#options = options;
    this.#limits = limits;
    outgoing.writeHead(200, [...streamHeaders, ...headers]);
    outgoing.flushHeaders();
    outgoing.on("drain", () => this.#writeUnread());
    // What the client takes in counts, and so does what it is told in time.
    outgoing.setTimeout(limits.patience, () => {
      if (outgoing.writableLength > 0) this.#giveUp(`it took nothing for ${limits.patience / 1000} seconds`);
    });
    this.#keepAlive = setInterval(() => {
      if (!outgoing.writableNeedDrain) outgoing.write(": keepalive\n\n");
    }, KEEP_ALIVE).unref();
    outgoing.once("close", () => clearInterval(this.#keepAlive));
  }

  send(message: object): void {
    const text = JSON.stringify(message);
    this.write(text, isNews(message) ? text : undefined);
  }

  /** Writes a message that is JSON already. `news`: by what it is known when it is told again. */
  write(text: string, news?: string) {
    const outgoing = this.#outgoing;
    if (outgoing.destroyed || outgoing.writableEnded) return;
    const left = outgoing.writableLength + this.#unreadLength;
    if (left > this.#limits.most) return this.#giveUp(`it left ${left} bytes unread`);
    const frame = `event: message\ndata: ${text}\n\n`;
    if (!outgoing.writableNeedDrain) {
      outgoing.write(frame);
      return;
    }
    const key = news ?? {};
    if (this.#unread.delete(key)) this.#unreadLength -= frame.length;
    this.#unread.set(key, frame);
    this.#unreadLength += frame.length;
  }

  end(): void {
    clearInterval(this.#keepAlive);
    this.#writeUnread();
    this.#outgoing.end();
  }

  #writeUnread(): void {
    const frames = [...this.#unread.values()];
    this.#unread.clear();
    this.#unreadLength = 0;
    for (const frame of frames) this.#outgoing.write(frame);
  }

  #giveUp(reason: string): void {
    this.#options.cutOff(reason);
    this.#unread.clear();
    this.#outgoing.destroy();
  }
}

/** An answer with nothing in it: what was cancelled gets none. */
export function sendNoEvents(outgoing: ServerResponse, headers: HeaderList = none): void {
  outgoing.writeHead(200, [...streamHeaders, ...headers]);
  outgoing.end();
}

/** Sends one message, or a list of pieces that are one together. */
export function sendJson(
  outgoing: ServerResponse,
  status: number,
  body: string | readonly (string | Buffer)[],
  headers: HeaderList = none,
): void {
  const pieces = typeof body === "string" ? [body] : body;
  let length = 0;
  for (const piece of pieces) length += Buffer.byteLength(piece);
  outgoing.writeHead(status, ["Content-Type", JSON_TYPE, "Content-Length", String(length), ...headers]);
  if (pieces.length === 1) {
    outgoing.end(pieces[0]);
    return;
  }
  outgoing.cork();
  for (const piece of pieces) outgoing.write(piece);
  outgoing.end();
  outgoing.uncork();
}

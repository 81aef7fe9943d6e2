import type { ServerResponse } from "node:http";
import { MessageWriter } from "./writer.ts";

const JSON_TYPE = "application/json";
const EVENTS_TYPE = "text/event-stream";
const USUAL_ACCEPT = `${JSON_TYPE}, ${EVENTS_TYPE}`;

/** Whether a client takes answers in one message as well as in a stream. */
export function acceptsBoth(accept = ""): boolean {
  // Nearly all clients send exactly this header, so it is compared before it is parsed.
  return accept === USUAL_ACCEPT || (accepts(accept, JSON_TYPE) && acceptsEvents(accept));
}

export function acceptsEvents(accept = ""): boolean {
  return accepts(accept, EVENTS_TYPE);
}

/**
 * Whether an `Accept` header accepts a type, such as `text/event-stream`. The most specific range that covers the type
 * decides; a weight of zero refuses it. An empty header accepts nothing.
 */
export function accepts(header: string, type: string): boolean {
  const ranges = [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"];
  let closest = ranges.length;
  let isTaken = false;
  for (const part of header.split(",")) {
    const [range = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const distance = ranges.indexOf(range);
    if (distance === -1 || distance > closest) continue;
    const isRefused = parameters.some((parameter) => ZERO_WEIGHT.test(parameter));
    isTaken = (distance === closest && isTaken) || !isRefused;
    closest = distance;
  }
  return isTaken;
}

const ZERO_WEIGHT = /^q\s*=\s*0(?:\.0*)?$/;

/** How much a client may leave unread before it is cut off. */
interface UnreadLimits {
  /** In bytes, not counting the last message. */
  readonly most: number;
  /** How long the client may read nothing at all, in milliseconds. */
  readonly patience: number;
}

export interface EventStreamOptions {
  /** Called with the reason when the client is cut off. */
  readonly cutOff: (reason: string) => void;
  readonly headers?: HeaderList;
  readonly limits?: UnreadLimits;
}

/** Names and values in turn: the form that is fastest for Node. */
export type HeaderList = readonly string[];

const none: HeaderList = [];
const streamHeaders: HeaderList = [
  ...["Content-Type", EVENTS_TYPE, "Cache-Control", "no-cache, no-transform", "X-Accel-Buffering", "no"],
];
const usualLimits: UnreadLimits = { most: 16 * 1024 * 1024, patience: 5 * 60_000 };
const KEEP_ALIVE = 15_000;

/** Sends messages to a client as events on one response. A client that does not read is cut off in the end. */
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

/** Answers a cancelled request: a stream without any event. */
export function sendNoEvents(outgoing: ServerResponse, headers: HeaderList = none): void {
  outgoing.writeHead(200, [...streamHeaders, ...headers]);
  outgoing.end();
}

/** Sends one message. A list holds the pieces of that message. */
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

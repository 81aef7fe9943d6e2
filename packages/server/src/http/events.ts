import type { ServerResponse } from "node:http";
import type { Grant } from "../access/index.ts";
import { eventText, openEventStream } from "./wire/index.ts";

/** Who receives an event. Admins receive all events. */
type Audience = "everyone" | "admins" | { readonly caller: string };

interface FeedEvent {
  readonly number: number;
  readonly type: string;
  readonly data: unknown;
  readonly audience: Audience;
  /** The encoded event. Set for its first reader, because most kept events are never read. */
  bytes: Buffer | undefined;
}

interface Reader {
  readonly outgoing: ServerResponse;
  readonly grant: Grant;
  /** Whether the token is still valid; checked at every heartbeat and when a token was withdrawn. */
  readonly isAuthorized: () => Promise<boolean>;
  /** The number of the next event to send. */
  next: number;
  /** When the reader stopped taking data, on the `performance` clock. */
  blockedAt: number | undefined;
}

interface EventFeedOptions {
  readonly size: number;
  /** How often each reader is sent a comment that shows the stream is alive, in milliseconds. */
  readonly heartbeat: number;
}

const LONGEST_TIMER = 2 ** 31 - 2;
const BATCH = 256;
/** A reader that takes no data for this many heartbeats is dropped. */
const PATIENCE = 2;

/**
 * One numbered stream of events for any number of readers. The last events are kept once, in a ring buffer; a
 * reader is a position in the ring, so a slow reader takes no memory. A reader that falls behind the ring, or
 * reconnects with the id of an event that is no longer in it, gets a `reset`. A reader that takes no data at
 * all is dropped.
 */
export class EventFeed {
  readonly #options: EventFeedOptions;
  /** Part of every event id, so that an id from an earlier process is recognised. */
  readonly #epoch = Date.now().toString(36);
  readonly #ring: FeedEvent[] = [];
  readonly #readers = new Set<Reader>();
  readonly #heartbeat: NodeJS.Timeout;
  #next = 1;
  /**
   * The number of the first event that was kept. Undefined before the first reader: no events are kept then.
   */
  #first: number | undefined;
  #scheduled = false;
  /** How many readers were dropped because they took no data. */
  dropped = 0;
  /** Called before the first reader is served. Until then no event is kept, so none need be published. */
  onFirstReader: (() => void) | undefined;

  constructor(options: EventFeedOptions) {
    this.#options = options;
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeat).unref();
  }

  get readers(): number {
    return this.#readers.size;
  }

  /** Do not change `data` afterwards: it is encoded later. */
  publish(type: string, data: unknown, audience: Audience): void {
    const number = this.#next++;
    if (this.#first === undefined) return;
    this.#ring[number % this.#options.size] = { number, type, data, audience, bytes: undefined };
    if (this.#scheduled || this.#readers.size === 0) return;
    this.#scheduled = true;
    // All events of one turn of the event loop are written together.
    setImmediate(() => this.#flush());
  }

  /**
   * Turns the response into an event stream that continues after `lastEventId`, or begins now without one.
   */
  subscribe(
    outgoing: ServerResponse,
    grant: Grant,
    lastEventId: string | undefined,
    isAuthorized: () => Promise<boolean>,
  ): void {
    if (this.#first === undefined) this.onFirstReader?.();
    this.#first ??= this.#next;
    const resumed = lastEventId === undefined ? undefined : this.#numberAfter(lastEventId);
    const next = resumed ?? this.#next;
    const reader: Reader = { outgoing, grant, isAuthorized, next, blockedAt: undefined };
    openEventStream(outgoing);
    const expiry = this.#endAtExpiry(reader);
    outgoing.on("close", () => {
      clearTimeout(expiry);
      this.#readers.delete(reader);
    });
    outgoing.on("drain", () => {
      reader.blockedAt = undefined;
      this.#pump(reader);
    });
    this.#readers.add(reader);
    outgoing.write("retry: 2000\n\n");
    if (resumed === undefined) this.#startAnew(reader, lastEventId === undefined ? "ready" : "reset");
    this.#pump(reader);
  }

  /** Ends the streams of invalid tokens. Call it after a token was withdrawn. */
  async endWithdrawn(): Promise<void> {
    await Promise.all([...this.#readers].map((reader) => this.#endIfUnauthorized(reader)));
  }

  close(): void {
    clearInterval(this.#heartbeat);
    this.#flush();
    for (const { outgoing } of this.#readers) outgoing.end();
    this.#readers.clear();
  }

  get #oldest(): number {
    return Math.max(this.#first ?? this.#next, this.#next - this.#options.size);
  }

  /** The number of the event after the one with this id; undefined when later events are no longer kept. */
  #numberAfter(id: string): number | undefined {
    const [epoch, digits] = id.split("-");
    if (epoch !== this.#epoch || digits === undefined || !/^\d{1,15}$/.test(digits)) return undefined;
    const next = Number(digits) + 1;
    return next >= this.#oldest && next <= this.#next ? next : undefined;
  }

  #flush(): void {
    this.#scheduled = false;
    for (const reader of this.#readers) this.#pump(reader);
  }

  #pump(reader: Reader): void {
    if (reader.blockedAt === undefined && reader.next < this.#oldest) this.#startAnew(reader, "reset");
    while (reader.blockedAt === undefined && reader.next < this.#next) {
      const to = Math.min(reader.next + BATCH, this.#next);
      const events: Buffer[] = [];
      for (; reader.next < to; reader.next++) {
        const event = this.#ring[reader.next % this.#options.size]!;
        if (!isFor(event.audience, reader.grant)) continue;
        event.bytes ??= Buffer.from(eventText(event.type, event.data, `${this.#epoch}-${event.number}`));
        events.push(event.bytes);
      }
      if (events.length > 0) this.#write(reader, events.length === 1 ? events[0]! : Buffer.concat(events));
    }
  }

  #startAnew(reader: Reader, event: "ready" | "reset"): void {
    reader.next = this.#next;
    this.#write(reader, eventText(event, { at: Date.now() }, `${this.#epoch}-${this.#next - 1}`));
  }

  #write(reader: Reader, bytes: Buffer | string): void {
    if (!reader.outgoing.write(bytes)) reader.blockedAt ??= performance.now();
  }

  #beat(): void {
    const mostBlocked = this.#options.heartbeat * PATIENCE;
    for (const reader of this.#readers) {
      const { blockedAt, outgoing } = reader;
      if (blockedAt === undefined) this.#write(reader, ": alive\n\n");
      else if (performance.now() - blockedAt > mostBlocked && this.#readers.delete(reader)) {
        this.dropped++;
        outgoing.destroy();
      }
      void this.#endIfUnauthorized(reader);
    }
  }

  async #endIfUnauthorized(reader: Reader): Promise<void> {
    // If the store fails, the token counts as valid, because it was when the stream began.
    if (await reader.isAuthorized().catch(() => true)) return;
    this.#readers.delete(reader);
    reader.outgoing.end();
  }

  /** Ends the stream when its token expires. An expiry beyond a timer's range is noticed at a heartbeat. */
  #endAtExpiry(reader: Reader): NodeJS.Timeout | undefined {
    const left = (reader.grant.expiresAt ?? Number.POSITIVE_INFINITY) - Date.now();
    if (left > LONGEST_TIMER) return undefined;
    // A timer may fire slightly early, while the token is still valid.
    return setTimeout(() => void this.#endIfUnauthorized(reader), left + 1).unref();
  }
}

function isFor(audience: Audience, { admin, caller }: Grant): boolean {
  if (admin || audience === "everyone") return true;
  return audience !== "admins" && audience.caller === caller;
}

/**
 * Passes on only the last message of each kind that a call sends in one turn of the event loop. A tool that reports
 * every row of a million would otherwise push everything else out of the feed.
 */
export class LatestOnly {
  readonly #waiting = new Map<string, Map<string, () => void>>();

  set(callId: string, kind: string, tell: () => void): void {
    if (this.#waiting.size === 0) {
      setImmediate(() => {
        for (const id of [...this.#waiting.keys()]) this.flush(id);
      });
    }
    const kinds = this.#waiting.get(callId) ?? new Map<string, () => void>();
    this.#waiting.set(callId, kinds.set(kind, tell));
  }

  /** Sends the waiting messages of a call now. */
  flush(callId: string): void {
    const kinds = this.#waiting.get(callId);
    this.#waiting.delete(callId);
    for (const tell of kinds?.values() ?? []) tell();
  }
}

import type { ServerResponse } from "node:http";
import type { Grant } from "../access/index.ts";
import { eventText, openEventStream } from "./wire/index.ts";

/** Who receives an event. Admins receive all. */
type Audience = "everyone" | "admins" | { readonly caller: string };

interface FeedEvent {
  readonly number: number;
  readonly type: string;
  readonly data: unknown;
  readonly audience: Audience;
  /** Encoded for the first reader, because most kept events are never read. */
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
  /** In milliseconds. */
  readonly heartbeat: number;
}

const LONGEST_TIMER = 2 ** 31 - 2;
const BATCH = 256;
/** A reader that takes no data for this many heartbeats is dropped. */
const PATIENCE = 2;

/**
 * One numbered stream of events for any number of readers. The last events are kept once, in a ring buffer; a reader is
 * a position in it, so a slow reader costs nothing. A reader that falls behind the ring, or reconnects with an id older
 * than it, gets a `reset`. A reader that takes no data at all is dropped.
 */
export class EventFeed {
  readonly #size: number;
  /** Part of event ids, so that numbers of an earlier process are recognised. */
  readonly #epoch = Date.now().toString(36);
  readonly #ring: FeedEvent[] = [];
  readonly #readers = new Set<Reader>();
  readonly #heartbeat: NodeJS.Timeout;
  readonly #patience: number;
  #next = 1;
  /** The first event that is kept. Before the first reader, none are. */
  #first: number | undefined;
  /** Whether there has ever been a reader. Until then no event has to be kept. */
  isFollowed = false;
  #scheduled = false;
  #dropped = 0;
  #shared: { from: number; to: number; bytes: Buffer } | undefined;

  constructor({ size, heartbeat }: EventFeedOptions) {
    this.#size = size;
    this.#patience = heartbeat * PATIENCE;
    this.#heartbeat = setInterval(() => this.#beat(), heartbeat).unref();
  }

  get readers(): number {
    return this.#readers.size;
  }

  /** How many readers were dropped because they took no data. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Do not change `data` afterwards: it is encoded later. */
  publish(type: string, data: unknown, audience: Audience): void {
    const number = this.#next++;
    if (this.#first === undefined) return;
    this.#ring[number % this.#size] = { number, type, data, audience, bytes: undefined };
    if (this.#scheduled || this.#readers.size === 0) return;
    this.#scheduled = true;
    // All events of one turn of the event loop are written together.
    setImmediate(() => this.#flush());
  }

  /** Turns the response into an event stream that continues after `lastEventId`, or begins now. */
  subscribe(
    outgoing: ServerResponse,
    grant: Grant,
    lastEventId: string | undefined,
    isAuthorized: () => Promise<boolean>,
  ): void {
    this.#first ??= this.#next;
    this.isFollowed = true;
    const resumed = lastEventId === undefined ? undefined : this.#numberAfter(lastEventId);
    const reader: Reader = {
      outgoing,
      grant,
      isAuthorized,
      next: resumed ?? this.#next,
      blockedAt: undefined,
    };
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
    return Math.max(this.#first ?? this.#next, this.#next - this.#size);
  }

  #idOf(number: number): string {
    return `${this.#epoch}-${number}`;
  }

  /** The number of the event after the id; undefined when the events after it are no longer kept. */
  #numberAfter(id: string): number | undefined {
    const [epoch, digits] = id.split("-");
    if (epoch !== this.#epoch || digits === undefined || !/^\d{1,15}$/.test(digits)) return undefined;
    const next = Number(digits) + 1;
    return next >= this.#oldest && next <= this.#next ? next : undefined;
  }

  #flush(): void {
    this.#scheduled = false;
    for (const reader of this.#readers) this.#pump(reader);
    this.#shared = undefined;
  }

  #pump(reader: Reader): void {
    if (reader.blockedAt === undefined && reader.next < this.#oldest) this.#startAnew(reader, "reset");
    while (reader.blockedAt === undefined && reader.next < this.#next) {
      const to = Math.min(reader.next + BATCH, this.#next);
      const bytes = this.#bytesFor(reader, to);
      reader.next = to;
      if (bytes.length > 0) this.#write(reader, bytes);
    }
  }

  #startAnew(reader: Reader, event: "ready" | "reset"): void {
    reader.next = this.#next;
    this.#write(reader, eventText(event, { at: Date.now() }, this.#idOf(this.#next - 1)));
  }

  #write(reader: Reader, bytes: Buffer | string): void {
    if (!reader.outgoing.write(bytes)) reader.blockedAt ??= performance.now();
  }

  #bytesFor({ grant, next }: Reader, to: number): Buffer {
    if (!grant.admin) return this.#join(next, to, ({ audience }) => isFor(audience, grant));
    if (this.#shared?.from !== next || this.#shared.to !== to) {
      this.#shared = { from: next, to, bytes: this.#join(next, to, () => true) };
    }
    return this.#shared.bytes;
  }

  #join(from: number, to: number, wanted: (event: FeedEvent) => boolean): Buffer {
    const events: Buffer[] = [];
    for (let number = from; number < to; number++) {
      const event = this.#ring[number % this.#size]!;
      if (wanted(event)) events.push(this.#bytesOf(event));
    }
    return events.length === 1 ? events[0]! : Buffer.concat(events);
  }

  #bytesOf(event: FeedEvent): Buffer {
    event.bytes ??= Buffer.from(eventText(event.type, event.data, this.#idOf(event.number)));
    return event.bytes;
  }

  #beat(): void {
    const now = performance.now();
    for (const reader of this.#readers) {
      const { blockedAt } = reader;
      if (blockedAt === undefined) this.#write(reader, ": alive\n\n");
      else if (now - blockedAt > this.#patience) this.#drop(reader);
      void this.#endIfUnauthorized(reader);
    }
  }

  async #endIfUnauthorized(reader: Reader): Promise<void> {
    // If the store fails, the token counts as valid, because it was when the stream began.
    if (await reader.isAuthorized().catch(() => true)) return;
    this.#readers.delete(reader);
    reader.outgoing.end();
  }

  /** Ends the stream when its token expires. Times beyond a timer's range are found by the heartbeat. */
  #endAtExpiry(reader: Reader): NodeJS.Timeout | undefined {
    const left = (reader.grant.expiresAt ?? Number.POSITIVE_INFINITY) - Date.now();
    if (left > LONGEST_TIMER) return undefined;
    // A timer may fire slightly early, while the token is still valid.
    return setTimeout(() => void this.#endIfUnauthorized(reader), left + 1).unref();
  }

  #drop(reader: Reader): void {
    if (!this.#readers.delete(reader)) return;
    this.#dropped++;
    reader.outgoing.destroy();
  }
}

function isFor(audience: Audience, grant: Grant): boolean {
  if (audience === "everyone") return true;
  return audience !== "admins" && audience.caller === grant.caller;
}

/**
 * Passes on only the last message of each kind that a call sends in one turn of the event loop. A tool that reports
 * every row of a million would otherwise push everything else out of the feed.
 */
export class LatestOnly {
  readonly #waiting = new Map<string, Map<string, () => void>>();
  #scheduled = false;

  set(callId: string, kind: string, tell: () => void): void {
    let kinds = this.#waiting.get(callId);
    if (kinds === undefined) {
      kinds = new Map();
      this.#waiting.set(callId, kinds);
    }
    kinds.set(kind, tell);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      for (const id of [...this.#waiting.keys()]) this.flush(id);
    });
  }

  /** Sends the waiting messages of a call now. */
  flush(callId: string): void {
    const kinds = this.#waiting.get(callId);
    if (kinds === undefined) return;
    this.#waiting.delete(callId);
    for (const tell of kinds.values()) tell();
  }
}

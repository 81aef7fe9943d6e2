import type { ServerResponse } from "node:http";
import { setImmediate as nextTurn, setTimeout as wait } from "node:timers/promises";
import type { Grant } from "../access/index.ts";
import type { Channel } from "../fleet/index.ts";
import { eventText, openEventStream } from "./wire/index.ts";

/** Who receives an event. Admins receive all events but those for `approvers`: others that have a grant to approve. */
type Audience = "everyone" | "admins" | "approvers" | { readonly caller: string };

interface FeedEvent {
  /** The id, by which a reader continues on any node: see `EventFeed`. */
  readonly id: string;
  /** The node that published it, and how many that node had published by then. */
  readonly origin: string;
  readonly count: number;
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

/** A part of the body of an answer, alone and as HTTP/1.1 frames it. */
interface Chunk {
  readonly bytes: Buffer;
  readonly framed: Buffer;
}

interface EventFeedOptions {
  readonly size: number;
  /** How often each reader is sent a comment that shows the stream is alive, in milliseconds. */
  readonly heartbeat: number;
}

const LONGEST_TIMER = 2 ** 31 - 2;
const BATCH = 256;
/** Events are sent to so many readers before other work gets its turn. */
const SLICE = 256;
/**
 * After sending events to all readers, the feed pauses for this many times the time it took. So it uses at most a
 * twentieth of the event loop.
 */
const REST = 19;
/** The longest such pause, in milliseconds. */
const LONGEST_REST = 250;
const alive = toChunk(Buffer.from(": alive\n\n"));
/** Milliseconds after which a client that has closed its side is asked a second time whether it still reads. */
const SECOND_PROBE = 300;
/** A reader that takes no data for this many heartbeats is dropped. */
const PATIENCE = 2;

/** An event of another node. */
interface SentEvent {
  readonly origin: string;
  readonly count: number;
  readonly type: string;
  readonly data: unknown;
  readonly audience: Audience;
}

/** How many events a node has published. */
type Position = Pick<SentEvent, "origin" | "count">;

/** What the nodes of a fleet tell each other of their events. */
const POSITION = "events so far";
const EVENT = "event";
/** The events of which other nodes know nothing by themselves. */
const sentTypes = /^(?:call|approval|loop|client)\./;
/** Ends the name of a node in ids of events that it does not send to others, of which those continue nothing. */
const LOCAL = "_l";
const READING = "events are read";
/** Milliseconds for which events are sent to other nodes after one of them said that it has a reader. */
const READ_FOR = 60_000;
/** How often a node with readers says so, in milliseconds. */
const SAY_EVERY = 20_000;
/** Milliseconds in which all other nodes have heard that this one has a reader. */
const TIME_TO_HEAR = 100;

/**
 * One stream of the events of all nodes, for any number of readers. The last events are kept once, in a ring buffer; a
 * reader is a position in the ring, so a slow reader takes no memory. A reader that falls behind the ring, or
 * reconnects with the id of an event that is no longer in it, gets a `reset`. A reader that takes no data at
 * all is dropped.
 *
 * The events of a node are counted. An id has, for each node that the stream knows of, how many of its events came before:
 * `epoch-count`, joined by dots. So a reader continues on any node, whatever the order in which that one got the events.
 * Events are sent to other nodes only while one of these has, or had until a minute ago, a reader.
 */
export class EventFeed {
  readonly #options: EventFeedOptions;
  /** The name of this node in event ids. It has the time of the start, so that an id of an earlier process is recognised. */
  readonly #epoch = Date.now().toString(36);
  readonly #channel: Channel | undefined;
  readonly #stops: (() => void)[] = [];
  /** How many events of each node the stream has had. */
  readonly #counts = new Map<string, number>();
  /** Until when events are sent to other nodes, on the `performance` clock. */
  #sendUntil = 0;
  #saidAt = Number.NEGATIVE_INFINITY;
  readonly #ring: FeedEvent[] = [];
  readonly #readers = new Set<Reader>();
  readonly #heartbeat: NodeJS.Timeout;
  #next = 1;
  /**
   * The number of the first event that was kept. Undefined before the first reader: no events are kept then.
   */
  #first: number | undefined;
  /** Whether events wait for a pause to end, or are being sent to readers. */
  #scheduled = false;
  /** When the pause ends and events may be sent again, on the `performance` clock. */
  #restsUntil = 0;
  #rest: NodeJS.Timeout | undefined;
  /** The number of the first event that was not sent to readers yet. */
  #untold = 1;
  /** The batches of the last flush, encoded once for all readers that are sent the same. */
  readonly #batches = new Map<string, Chunk | undefined>();
  /** How many readers were dropped because they took no data. */
  dropped = 0;
  /** Called before the first reader is served. Until then no event is kept, so none need be published. */
  onFirstReader: (() => void) | undefined;

  constructor(options: EventFeedOptions, channel?: Channel) {
    this.#options = options;
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeat).unref();
    if (channel?.isShared !== true) return;
    this.#channel = channel;
    this.#epoch += `_${channel.node.slice(0, 8)}`;
    this.#stops.push(
      // The bodies are what the feeds of other nodes have sent.
      channel.listen(READING, (body) => this.#hearReading(body as Position)),
      // As above.
      channel.listen(POSITION, (body) => this.#hearPosition(body as Position)),
      // As above.
      channel.listen(EVENT, (body) => this.#receive(body as SentEvent)),
      channel.onGap(() => this.#forgetAll()),
    );
    const saying = setInterval(() => this.#sayReading(), SAY_EVERY).unref();
    this.#stops.push(() => clearInterval(saying));
  }

  /** Tells other nodes that this one has a reader, and resolves when their events arrive here. */
  async prepare(): Promise<void> {
    if (this.#channel === undefined || performance.now() - this.#saidAt < SAY_EVERY * 2) return;
    const now = performance.now();
    // What others published while nobody read was not sent here.
    if (now - this.#saidAt > READ_FOR && now > this.#sendUntil) {
      for (const origin of [...this.#counts.keys()])
        if (!origin.startsWith(this.#epoch)) this.#counts.delete(origin);
      this.#forgetAll();
    }
    this.#sayReading(true);
    await wait(TIME_TO_HEAR);
  }

  #sayReading(isWanted = this.#readers.size > 0): void {
    if (!isWanted) return;
    this.#saidAt = performance.now();
    // All nodes need all events, so that a reader can go on with any of them.
    this.#sendUntil = this.#saidAt + READ_FOR;
    this.#channel?.publish(READING, this.#ownPosition);
  }

  #hearReading(position: Position): void {
    this.#begin();
    // Others do not know yet how many events this node has published before it sends the next.
    if (performance.now() > this.#sendUntil) this.#channel?.publish(POSITION, this.#ownPosition);
    this.#sendUntil = performance.now() + READ_FOR;
    this.#hearPosition(position);
  }

  #hearPosition({ origin, count }: Position): void {
    const before = this.#counts.get(origin);
    if (before !== undefined && count > before) this.#forgetAll();
    if (before === undefined || count > before) this.#counts.set(origin, count);
  }

  get #ownPosition(): Position {
    return { origin: this.#epoch, count: this.#counts.get(this.#epoch) ?? 0 };
  }

  /** Keeps events from now on. */
  #begin(): void {
    if (this.#first !== undefined) return;
    this.onFirstReader?.();
    this.#first = this.#next;
  }

  #receive({ origin, count, type, data, audience }: SentEvent): void {
    const before = this.#counts.get(origin);
    if (before !== undefined && count <= before) return;
    this.#begin();
    // What this node missed of the other, nobody can continue from.
    if (before !== undefined && count > before + 1) this.#forgetAll();
    this.#counts.set(origin, count);
    this.#keep(origin, count, type, data, audience);
  }

  /** Readers begin anew, because events were missed. */
  #forgetAll(): void {
    if (this.#first !== undefined) this.#first = this.#next;
    for (const reader of this.#readers) this.#startAnew(reader, "reset");
  }

  /** How many events of each node the stream has had, as an id. */
  get #position(): string {
    const parts = Array.from(this.#counts, ([origin, count]) => `${origin}-${count}`);
    return parts.length === 0 ? `${this.#epoch}-0` : parts.join(".");
  }

  get readers(): number {
    return this.#readers.size;
  }

  /** Publishes an event. The caller must not change `data` afterwards, because it is encoded later. */
  publish(type: string, data: unknown, audience: Audience): void {
    const isSent = this.#channel !== undefined && sentTypes.test(type);
    const origin = this.#channel === undefined || isSent ? this.#epoch : this.#epoch + LOCAL;
    const count = (this.#counts.get(origin) ?? 0) + 1;
    this.#counts.set(origin, count);
    if (this.#first !== undefined) this.#keep(origin, count, type, data, audience);
    if (isSent && performance.now() < this.#sendUntil)
      this.#channel?.publish(EVENT, { origin, count, type, data, audience });
  }

  #keep(origin: string, count: number, type: string, data: unknown, audience: Audience): void {
    const number = this.#next++;
    const id = this.#counts.size === 1 ? `${origin}-${count}` : this.#position;
    this.#ring[number % this.#options.size] = { id, origin, count, type, data, audience, bytes: undefined };
    if (this.#readers.size === 0) return;
    if (!this.#scheduled) this.#schedule();
    // A quarter of the ring is waiting: the pause ends early, so that no event is overwritten before it was sent.
    else if (this.#rest !== undefined && number - this.#untold > this.#options.size / 4) {
      clearTimeout(this.#rest);
      this.#rest = undefined;
      setImmediate(() => void this.#flush());
    }
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
    this.#begin();
    const resumed = lastEventId === undefined ? undefined : this.#missedSince(lastEventId);
    const next = this.#next;
    const reader: Reader = { outgoing, grant, isAuthorized, next, blockedAt: undefined };
    openEventStream(outgoing);
    const expiry = this.#endAtExpiry(reader);
    const { socket } = outgoing;
    const onDrain = () => {
      reader.blockedAt = undefined;
      this.#pump(reader);
    };
    const stopProbing = this.#probeAtEnd(reader);
    outgoing.on("close", () => {
      clearTimeout(expiry);
      stopProbing();
      socket?.off("drain", onDrain);
      this.#readers.delete(reader);
    });
    socket?.on("drain", onDrain);
    this.#readers.add(reader);
    this.#write(reader, toChunk(Buffer.from("retry: 2000\n\n")));
    if (resumed === undefined) this.#startAnew(reader, lastEventId === undefined ? "ready" : "reset");
    else
      for (const event of resumed)
        if (isFor(event.audience, grant)) this.#write(reader, toChunk(encode(event)));
  }

  /** Ends the streams of invalid tokens. Call it after a token was withdrawn. */
  async endWithdrawn(): Promise<void> {
    await Promise.all([...this.#readers].map((reader) => this.#endIfUnauthorized(reader)));
  }

  close(): void {
    clearInterval(this.#heartbeat);
    clearTimeout(this.#rest);
    for (const stop of this.#stops) stop();
    for (const reader of this.#readers) {
      this.#pump(reader, this.#next);
      reader.outgoing.end();
    }
    this.#readers.clear();
  }

  get #oldest(): number {
    return Math.max(this.#first ?? this.#next, this.#next - this.#options.size);
  }

  /**
   * The kept events that a reader with this id has not had. Undefined when some of them are no longer kept, or the id is
   * not one of this stream.
   */
  #missedSince(id: string): FeedEvent[] | undefined {
    const had = new Map<string, number>();
    for (const part of id.split(".")) {
      const [, origin = "", digits = ""] = /^([a-z0-9_]+)-(\d{1,15})$/.exec(part) ?? [];
      if (origin === "") return undefined;
      had.set(origin, Number(digits));
    }
    const kept = Array.from(
      { length: this.#next - this.#oldest },
      (_, at) => this.#ring[(this.#oldest + at) % this.#options.size]!,
    );
    const missed = kept.filter(({ origin, count }) => count > (had.get(origin) ?? 0));
    for (const [origin, count] of had) {
      const latest = this.#counts.get(origin);
      if (latest === undefined && origin.endsWith(LOCAL)) continue;
      if (latest === undefined || count > latest) return undefined;
      if (missed.filter((event) => event.origin === origin).length !== latest - count) return undefined;
    }
    return missed;
  }

  /** All events of one turn of the event loop, or of one rest, are written together. */
  #schedule(): void {
    this.#scheduled = true;
    const wait = this.#restsUntil - performance.now();
    if (wait <= 1) setImmediate(() => void this.#flush());
    else this.#rest = setTimeout(() => void this.#flush(), wait).unref();
  }

  async #flush(): Promise<void> {
    this.#rest = undefined;
    const end = this.#next;
    this.#untold = end;
    this.#batches.clear();
    let begun = performance.now();
    let spent = 0;
    let told = 0;
    for (const reader of this.#readers) {
      this.#pump(reader, end);
      if (++told % SLICE !== 0) continue;
      spent += performance.now() - begun;
      await nextTurn();
      begun = performance.now();
    }
    spent += performance.now() - begun;
    this.#restsUntil = performance.now() + Math.min(spent * REST, LONGEST_REST);
    this.#scheduled = false;
    if (this.#next > end) this.#schedule();
  }

  /** Writes the events before `end`, in batches that begin and end at the same events for all readers. */
  #pump(reader: Reader, end = this.#untold): void {
    if (reader.blockedAt === undefined && reader.next < this.#oldest) this.#startAnew(reader, "reset");
    while (reader.blockedAt === undefined && reader.next < end) {
      const border = reader.next - (reader.next % BATCH) + BATCH;
      const chunk = this.#batchFor(reader, Math.min(border, end));
      if (chunk !== undefined) this.#write(reader, chunk);
    }
  }

  /** Moves the reader on to the event `to`. Returns what it is to be sent of the events before that. */
  #batchFor(reader: Reader, to: number): Chunk | undefined {
    const { next: from, grant } = reader;
    reader.next = to;
    const key = `${from} ${to} ${grant.admin ? "" : `of ${grant.caller}`}`;
    if (this.#batches.has(key)) return this.#batches.get(key);
    const events: Buffer[] = [];
    for (let number = from; number < to; number++) {
      const event = this.#ring[number % this.#options.size]!;
      if (!isFor(event.audience, grant)) continue;
      events.push(encode(event));
    }
    const chunk = events.length === 0 ? undefined : toChunk(...events);
    this.#batches.set(key, chunk);
    return chunk;
  }

  #startAnew(reader: Reader, event: "ready" | "reset"): void {
    reader.next = this.#next;
    const text = eventText(event, { at: Date.now() }, this.#position);
    this.#write(reader, toChunk(Buffer.from(text)));
  }

  /**
   * Writes to the socket itself what is encoded once for all readers: `ServerResponse` would make three parts of it for
   * each reader, and write them later, so that nobody could tell how long that takes.
   */
  #write(reader: Reader, chunk: Chunk): void {
    const { socket, chunkedEncoding } = reader.outgoing;
    if (socket === null || !socket.writable) return;
    const isRoomLeft = socket.write(chunkedEncoding ? chunk.framed : chunk.bytes);
    if (!isRoomLeft) reader.blockedAt ??= performance.now();
  }

  #beat(): void {
    const mostBlocked = this.#options.heartbeat * PATIENCE;
    for (const reader of this.#readers) {
      const { blockedAt, outgoing } = reader;
      if (blockedAt === undefined) this.#write(reader, alive);
      else if (performance.now() - blockedAt > mostBlocked && this.#readers.delete(reader)) {
        this.dropped++;
        outgoing.destroy();
      }
      void this.#endIfUnauthorized(reader);
    }
  }

  /**
   * A client that has closed its side may still read. It is sent two comments then: to a client that is gone, the second
   * cannot be written, which closes the stream. Returns a function that stops this.
   */
  #probeAtEnd(reader: Reader): () => void {
    const { socket } = reader.outgoing;
    let second: NodeJS.Timeout | undefined;
    const probe = () => {
      this.#write(reader, alive);
      second = setTimeout(() => this.#write(reader, alive), SECOND_PROBE).unref();
    };
    socket?.once("end", probe);
    return () => {
      clearTimeout(second);
      socket?.off("end", probe);
    };
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

function encode(event: FeedEvent): Buffer {
  event.bytes ??= Buffer.from(eventText(event.type, event.data, event.id));
  return event.bytes;
}

function toChunk(...parts: Buffer[]): Chunk {
  const bytes = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  const framed = Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
  return { bytes, framed };
}

function isFor(audience: Audience, { admin, caller, isApprover }: Grant): boolean {
  if (audience === "approvers") return isApprover && !admin;
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

import { clip } from "../error/tool-error.ts";
import { hashValue } from "../schema/hash.ts";
import type { FilePart } from "../tool/result.ts";
import { ActiveCalls } from "./engine.ts";
import type { CallFrame } from "./frame.ts";

interface Entry<Value, Id> {
  id: Id | undefined;
  hash: number;
  value: Value | undefined;
  next: Entry<Value, Id> | undefined;
}

const FEWEST_BUCKETS = 16;

/**
 * Values by id, for entries that come and go with every call. A `Map` is no good for that. Whenever it makes room, V8
 * links its old table, with all that was in it, to the new one: once one such table is old, everything that is ever put
 * into the map stays in memory until the next full collection, and is copied about until then. And V8 enters every text
 * that is looked up in a table of its own first. Both cost more than the calls themselves.
 */
export class IdTable<Value, Id extends string | number = string> {
  #buckets = emptyBuckets<Value, Id>(FEWEST_BUCKETS);
  #size = 0;
  /** An entry that was deleted, for the next one: mostly one call comes after another. */
  #spare: Entry<Value, Id> | undefined;

  get size(): number {
    return this.#size;
  }

  get(id: Id): Value | undefined {
    return this.#size === 0 ? undefined : this.#find(id)?.value;
  }

  set(id: Id, value: Value): void {
    const known = this.#size === 0 ? undefined : this.#find(id);
    if (known !== undefined) {
      known.value = value;
      return;
    }
    if (this.#size === this.#buckets.length) this.#grow();
    this.#size++;
    this.#put(this.#entry(id, hashOf(id), value));
  }

  /** Says whether it was there. */
  delete(id: Id): boolean {
    if (this.#size === 0) return false;
    const at = this.#bucketOf(hashOf(id));
    let before: Entry<Value, Id> | undefined;
    for (let entry = this.#buckets[at]; entry !== undefined; before = entry, entry = entry.next) {
      if (entry.id !== id) continue;
      if (before === undefined) this.#buckets[at] = entry.next;
      else before.next = entry.next;
      // What is left of it must hold on to nothing.
      entry.id = undefined;
      entry.value = undefined;
      entry.next = undefined;
      this.#spare = entry;
      this.#size--;
      return true;
    }
    return false;
  }

  clear(): void {
    this.#buckets = emptyBuckets(FEWEST_BUCKETS);
    this.#size = 0;
  }

  /** All that are there now, in no order, whatever comes and goes while they are looked at. */
  values(): Value[] {
    const values: Value[] = [];
    for (let entry of this.#buckets) {
      // An entry in a bucket has its value.
      for (; entry !== undefined; entry = entry.next) values.push(entry.value as Value);
    }
    return values;
  }

  #find(id: Id): Entry<Value, Id> | undefined {
    let entry = this.#buckets[this.#bucketOf(hashOf(id))];
    while (entry !== undefined && entry.id !== id) entry = entry.next;
    return entry;
  }

  #entry(id: Id, hash: number, value: Value): Entry<Value, Id> {
    const spare = this.#spare;
    if (spare === undefined) return { id, hash, value, next: undefined };
    this.#spare = undefined;
    spare.id = id;
    spare.hash = hash;
    spare.value = value;
    return spare;
  }

  #put(entry: Entry<Value, Id>): void {
    const at = this.#bucketOf(entry.hash);
    entry.next = this.#buckets[at];
    this.#buckets[at] = entry;
  }

  #bucketOf(hash: number): number {
    return hash & (this.#buckets.length - 1);
  }

  #grow(): void {
    const before = this.#buckets;
    this.#buckets = emptyBuckets(before.length * 2);
    for (let entry of before) {
      while (entry !== undefined) {
        const { next }: Entry<Value, Id> = entry;
        this.#put(entry);
        entry = next;
      }
    }
  }
}

function emptyBuckets<Value, Id>(count: number): (Entry<Value, Id> | undefined)[] {
  return new Array(count).fill(undefined);
}

/** The id that was asked for last: one call is looked up in several tables in a row. */
let lastId: string | number = "";
let lastHash = 0;

function hashOf(id: string | number): number {
  if (typeof id === "number") return Math.imul(id | 0, SPREAD) >>> 12;
  if (id === lastId) return lastHash;
  let hash = id.length;
  const first = Math.max(0, id.length - MOST_HASHED);
  for (let at = first; at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) | 0;
  hash = Math.imul(hash, SPREAD) >>> 12;
  if (first === 0) {
    lastId = id;
    lastHash = hash;
  }
  return hash;
}

/** Spreads what differs in a few bits over all of them; buckets are told apart by the last. */
const SPREAD = 0x9e3779b1;
/** Characters at the end of an id that are looked at: some may be as long as whoever chose them liked. */
const MOST_HASHED = 64;

const LONGEST_RAW = 10_000;
/** Arguments with a text this long are remembered clipped. */
const LARGE = 100_000;
const DEPTH_LOOKED_AT = 3;
const MOST_LOOKED_AT = 50;

/**
 * The calls under way and the last few that ended; the oldest ended call makes room for the newest. A call id is
 * made of the call's number, so that a call whose id nobody asks for costs no text and no map entry; only ids
 * that callers chose themselves are kept in a map.
 */
export class CallHistory {
  readonly active = new ActiveCalls();
  readonly #limit: number;
  readonly #chosen = new IdTable<CallFrame>();
  /** Makes the ids of one registry differ from those of any other. */
  readonly #prefix = `call_${Math.random().toString(36).slice(2, 10)}${Date.now().toString(36)}_`;
  #ring: (CallFrame | undefined)[] = [];
  #next = 0;
  #count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  nextSequence(): number {
    return ++this.#count;
  }

  idOf(sequence: number): string {
    return this.#prefix + sequence.toString(36);
  }

  get(callId: string): CallFrame | undefined {
    const chosen = this.#chosen.get(callId);
    if (chosen !== undefined || !callId.startsWith(this.#prefix)) return chosen;
    const sequence = Number.parseInt(callId.slice(this.#prefix.length), 36);
    for (const frame of this.active) if (frame.sequence === sequence && frame.callId === callId) return frame;
    return this.#ring.find((frame) => frame?.sequence === sequence && frame.callId === callId);
  }

  started(frame: CallFrame): void {
    this.active.add(frame);
    if (frame.options.callId !== undefined && frame.options.callId === frame.callId) {
      this.#chosen.set(frame.callId, frame);
    }
  }

  ended(frame: CallFrame): void {
    this.active.remove(frame);
    if (this.#limit === 0) {
      this.#forget(frame);
      return;
    }
    this.#forget(this.#ring[this.#next]);
    this.#ring[this.#next] = frame;
    this.#next = this.#next + 1 === this.#limit ? 0 : this.#next + 1;
  }

  #forget(frame: CallFrame | undefined): void {
    const chosen = frame?.options.callId;
    // A call that asked for an id that was taken does not own it.
    if (chosen !== undefined && this.#chosen.get(chosen) === frame) this.#chosen.delete(chosen);
  }

  /** Lets go of what only the caller needs, so that a hundred large results do not stay in memory. */
  shrink(frame: CallFrame): void {
    try {
      this.#shrink(frame);
    } catch {
      // What cannot be looked at is kept as it is, for as long as the history remembers it.
    }
  }

  #shrink(frame: CallFrame): void {
    const { result } = frame;
    frame.shown = undefined;
    if (frame.startedAt > 0) frame.raw = undefined;
    else if (isLarge(frame.raw, DEPTH_LOOKED_AT)) frame.raw = clip(frame.raw);
    if (isLarge(frame.input, DEPTH_LOOKED_AT)) {
      frame.parametersHash = hashValue(frame.input);
      frame.input = clip(frame.input);
    }
    if (result === undefined) return;
    const { content, type, attachments, error } = result;
    const long = content.length > frame.host.settings.maxContent;
    if (!long && attachments === undefined && result.structured === undefined && result.blocks === undefined)
      return;
    frame.result = {
      content: long ? `${content.slice(0, LONGEST_RAW)}…` : content,
      type,
      ...(error === undefined ? {} : { error }),
      ...(attachments === undefined ? {} : { attachments: attachments.map(withoutData) }),
    };
  }

  /** The last `limit` calls that ended, oldest first. */
  recent(limit: number): CallFrame[] {
    const inOrder = [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
    const ended = inOrder.filter((frame) => frame !== undefined);
    return limit >= ended.length ? ended : ended.slice(ended.length - Math.max(0, limit));
  }

  /** Forgets every call that has ended. */
  clear(): void {
    for (const frame of this.#ring) this.#forget(frame);
    this.#ring = [];
    this.#next = 0;
  }
}

/** A quick look, not a count: what is large shows near the top. */
function isLarge(value: unknown, depth: number): boolean {
  if (typeof value === "string") return value.length > LARGE;
  if (typeof value !== "object" || value === null || depth === 0) return false;
  if (Array.isArray(value)) {
    // The members of a list are alike: the first stands for all of them.
    return value.length > LARGE / 100 || (value.length > 0 && isLarge(value[0], depth - 1));
  }
  let looked = 0;
  for (const key in value) {
    if (++looked > MOST_LOOKED_AT) return true;
    if (isLarge((value as Record<string, unknown>)[key], depth - 1)) return true;
  }
  return false;
}

function withoutData(part: FilePart): FilePart {
  return part.url.length > LONGEST_RAW ? { ...part, url: "" } : part;
}

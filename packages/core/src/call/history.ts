import { clip } from "../error/clip.ts";
import { hashValue } from "../schema/hash-value.ts";
import type { FilePart } from "../tool/result.ts";
import { ActiveCalls } from "./active-calls.ts";
import type { CallFrame } from "./frame.ts";
import { IdTable } from "./id-table.ts";

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

import { randomFillSync } from "node:crypto";
import { IdTable } from "@toolrack/core";
import type { Grant, GrantWatch } from "../access/index.ts";
import type { CallLine } from "../store/index.ts";
import { CallRefused } from "./call-service.ts";
import type { AnnouncedCall } from "./recorder.ts";

type Placed = Pick<AnnouncedCall, "callId" | "toolName" | "caller">;

/**
 * How many calls of one tool may be under way. One that waits for an answer, of a person or of its caller, takes no place
 * of those that run, since that may take hours; but one caller cannot let more of them wait than could run, so that it
 * fills only its own share.
 */
export class CallPlaces {
  readonly #most: number;
  readonly #running = new IdTable<number>();
  /** By tool and caller. */
  readonly #waiting = new Map<string, number>();
  /** The calls that wait. */
  readonly #askers = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Throws `CallRefused` when there is no place. */
  enter({ toolName, caller }: Omit<Placed, "callId">): void {
    const running = this.#running.get(toolName) ?? 0;
    if (running >= this.#most) throw tooManyCalls(toolName, running, this.#most);
    const waiting = this.#waiting.size === 0 ? 0 : (this.#waiting.get(shareOf(toolName, caller)) ?? 0);
    if (waiting >= this.#most) throw tooManyQuestions(toolName, waiting, this.#most);
    this.#running.set(toolName, running + 1);
  }

  leave(call: Placed): void {
    if (this.#askers.delete(call.callId))
      this.#change(this.#waiting, shareOf(call.toolName, call.caller), -1);
    else this.#change(this.#running, call.toolName, -1);
  }

  /** Somebody is asked, and the call waits for the answer. */
  waits({ callId, toolName, caller }: Placed): void {
    if (this.#askers.has(callId)) return;
    this.#askers.add(callId);
    this.#change(this.#running, toolName, -1);
    this.#change(this.#waiting, shareOf(toolName, caller), 1);
  }

  /** It waits for no answer any more. */
  goesOn({ callId, toolName, caller }: Placed): void {
    if (!this.#askers.delete(callId)) return;
    this.#change(this.#waiting, shareOf(toolName, caller), -1);
    this.#change(this.#running, toolName, 1);
  }

  #change(counts: IdTable<number> | Map<string, number>, key: string, by: number): void {
    const count = (counts.get(key) ?? 0) + by;
    if (count > 0) counts.set(key, count);
    else counts.delete(key);
  }
}

function shareOf(toolName: string, caller: string): string {
  return `${toolName} ${caller}`;
}

function tooManyCalls(toolName: string, running: number, limit: number): CallRefused {
  return new CallRefused(
    "too_many_calls",
    `"${toolName}" is running ${running} times, which is as often as it may. Call it when one has ended.`,
    { toolName, limit },
    1,
  );
}

function tooManyQuestions(toolName: string, waiting: number, limit: number): CallRefused {
  return new CallRefused(
    "too_many_calls",
    `${waiting} calls of "${toolName}" by this caller wait for an answer, which is as many as may. Answer one of them, or cancel it, and call again.`,
    { toolName, limit },
    1,
  );
}

/** Calls that wait for somebody's answer, which may take hours. They end with the token of whoever made them. */
export class WaitingCalls {
  readonly #grants: Pick<GrantWatch, "watch">;
  readonly #cancel: (callId: string, reason: string) => void;
  /** How to look after the token no more. */
  readonly #releases = new Map<string, () => void>();

  constructor(grants: Pick<GrantWatch, "watch">, cancel: (callId: string, reason: string) => void) {
    this.#grants = grants;
    this.#cancel = cancel;
  }

  has(callId: string): boolean {
    return this.#releases.has(callId);
  }

  add(callId: string, grant: Grant): void {
    this.delete(callId);
    this.#releases.set(
      callId,
      this.#grants.watch(grant, (why) => this.#cancel(callId, why)),
    );
  }

  /** It waits no more. Does nothing for one that did not. */
  delete(callId: string): void {
    if (this.#releases.size === 0) return;
    this.#releases.get(callId)?.();
    this.#releases.delete(callId);
  }
}

/** Lines and bytes of each half. */
const MOST_LINES = 100;
const MOST_BYTES = 16 * 1024;

/** The lines of one call. Of more than may be kept, the first and the last are: what began it, and how it ended. */
export class CallLines {
  readonly #first = new Half();
  readonly #last = new Half();
  #isFull = false;
  #leftOut = 0;

  add(line: CallLine): void {
    this.#isFull ||= !this.#first.takes(line);
    if (!this.#isFull) {
      this.#first.add(line);
      return;
    }
    while (!this.#last.takes(line)) {
      this.#last.dropOldest();
      this.#leftOut++;
    }
    this.#last.add(line);
  }

  /** In order. A note stands where lines were left out. */
  all(): CallLine[] {
    const [next] = this.#last.lines;
    if (this.#leftOut === 0 || next === undefined) return [...this.#first.lines, ...this.#last.lines];
    const text = `${this.#leftOut} ${this.#leftOut === 1 ? "line was" : "lines were"} left out here.`;
    return [...this.#first.lines, { at: next.at, level: "note", text }, ...this.#last.lines];
  }
}

class Half {
  readonly lines: CallLine[] = [];
  #bytes = 0;

  /** Always true of the first line, so that one line is never too long. */
  takes({ text }: CallLine): boolean {
    if (this.lines.length === 0) return true;
    return this.lines.length < MOST_LINES && this.#bytes + Buffer.byteLength(text) <= MOST_BYTES;
  }

  add(line: CallLine): void {
    this.lines.push(line);
    this.#bytes += Buffer.byteLength(line.text);
  }

  dropOldest(): void {
    this.#bytes -= Buffer.byteLength(this.lines.shift()?.text ?? "");
  }
}

/** Random bytes are asked for in stock, and written out at once: asking costs more than all the rest. */
const stock = Buffer.alloc(4096);
const DIGITS = 16;
let random = "";
let used = 0;
let time = 0;
let count = 0;
/** The first two groups, which are the same for all ids of a millisecond. */
let begin = "";
/** Of the milliseconds, what lies above the last 24 bits, and how it is written. They change every four hours. */
let high = -1;
let highDigits = "";

/** How many ids of one millisecond have an order. */
const MOST = 0xfff;
const bytes = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
const orders = Array.from({ length: MOST + 1 }, (_, order) => `${order.toString(16).padStart(3, "0")}-`);

/** A UUID of version 7: by their text, the ids of this process are in the order in which they were made. */
export function newCallId(): string {
  const now = Date.now();
  if (now > time) {
    startAt(now);
  } else if (count === MOST) startAt(time + 1);
  else count++;
  if (used === random.length) refill();
  const from = used;
  used += DIGITS;
  // The first two bits of the fourth group say which kind of UUID it is.
  const kind = "89ab"[random.charCodeAt(from) & 3];
  return `${begin}${orders[count]}${kind}${random.slice(from + 1, from + 4)}-${random.slice(from + 4, from + DIGITS)}`;
}

function startAt(millisecond: number): void {
  time = millisecond;
  count = 0;
  const past = Math.floor(time / 0x1000000);
  const low = time - past * 0x1000000;
  if (past !== high) {
    high = past;
    highDigits = past.toString(16).padStart(6, "0");
  }
  begin = `${highDigits}${bytes[low >>> 16]}-${bytes[(low >>> 8) & 0xff]}${bytes[low & 0xff]}-7`;
}

function refill(): void {
  random = randomFillSync(stock).toString("hex");
  used = 0;
}

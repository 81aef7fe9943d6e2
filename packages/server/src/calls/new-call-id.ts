import { randomFillSync } from "node:crypto";

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

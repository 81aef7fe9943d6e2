import { randomFillSync } from "node:crypto";

/** Random bytes are asked for in stock: asking costs more than all the rest. */
const stock = Buffer.alloc(4096);
let used = stock.length;
let time = 0;
let count = 0;

/** How many ids of one millisecond have an order. */
const MOST = 0xfff;

/** A UUID of version 7: by their text, the ids of this process are in the order in which they were made. */
export function newCallId(): string {
  const now = Date.now();
  if (now > time) {
    time = now;
    count = 0;
  } else if (count === MOST) {
    time++;
    count = 0;
  } else count++;
  const begin = time.toString(16).padStart(12, "0");
  const middle = count.toString(16).padStart(3, "0");
  const random = takeRandom();
  // The first two bits of the fourth group say which kind of UUID it is.
  const kind = "89ab"[Number.parseInt(random[0]!, 16) & 3];
  return `${begin.slice(0, 8)}-${begin.slice(8)}-7${middle}-${kind}${random.slice(1, 4)}-${random.slice(4)}`;
}

function takeRandom(): string {
  if (used === stock.length) {
    randomFillSync(stock);
    used = 0;
  }
  used += 8;
  return stock.toString("hex", used - 8, used);
}

import { setImmediate as nextTurn } from "node:timers/promises";

/** Milliseconds of work before other work gets its turn. */
const SLICE = 5;

/** Goes through all items, of which there may be tens of thousands, and lets other work in between. */
export async function inSlices<Item, Result>(
  items: Iterator<Item, Result>,
  look: (item: Item) => void = () => {},
): Promise<Result> {
  for (let begun = performance.now(); ; ) {
    const { done, value } = items.next();
    if (done) return value;
    look(value);
    if (performance.now() - begun < SLICE) continue;
    await nextTurn();
    begun = performance.now();
  }
}

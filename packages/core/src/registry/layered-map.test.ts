import { expect, test } from "vitest";
import { LayeredMap } from "./catalog.ts";

/** The same steps every time, without a pattern. */
function* steps(count: number): Generator<number> {
  let state = 7;
  for (let at = 0; at < count; at++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 8;
    yield state;
  }
}

test("does what a map does, whatever is copied and changed", () => {
  let layered = new LayeredMap<string, number>(16);
  let plain = new Map<string, number>();
  const older: { layered: LayeredMap<string, number>; entries: [string, number][] }[] = [];
  for (const step of steps(4_000)) {
    const key = `k${step % 300}`;
    const kind = Math.floor(step / 300) % 20;
    if (kind === 0) {
      older.push({ layered, entries: [...plain] });
      layered = layered.copy();
      plain = new Map(plain);
    } else if (kind < 6) {
      layered.delete(key);
      plain.delete(key);
    } else {
      layered.set(key, step);
      plain.set(key, step);
    }
    expect(layered.get(key)).toBe(plain.get(key));
    expect(layered.size).toBe(plain.size);
  }
  expect(older.length).toBeGreaterThan(50);
  expect([...layered]).toEqual([...plain]);
  expect([...layered.keys()]).toEqual([...plain.keys()]);
  expect([...layered.values()]).toEqual([...plain.values()]);
  for (const { layered: old, entries } of older) expect([...old]).toEqual(entries);
});

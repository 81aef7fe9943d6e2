import { expect, it } from "vitest";
import { Bulkhead } from "./bulkhead.ts";
import { Turns } from "./protocol/turns.ts";

it("lets so many in, keeps so many waiting, and those who give up leave the queue", async () => {
  const bulkhead = new Bulkhead(1, 2);
  const { signal } = new AbortController();
  expect(bulkhead.enter(signal)).toBeUndefined();
  const impatient = new AbortController();
  const first = bulkhead.enter(impatient.signal);
  const second = bulkhead.enter(signal);
  expect(() => bulkhead.enter(signal)).toThrow(/2 more wait/);
  impatient.abort(new Error("enough"));
  await expect(first).rejects.toThrow("enough");
  bulkhead.leave();
  await second;
  expect([bulkhead.inside, bulkhead.waiting]).toEqual([1, 0]);
});

it("those who must be alone wait for all before them, and all after them wait", async () => {
  const turns = new Turns();
  const order: string[] = [];
  const work = (name: string) => async () => {
    order.push(`${name} in`);
    await new Promise((resolve) => setImmediate(resolve));
    order.push(`${name} out`);
  };
  await Promise.all([
    turns.take(false, work("a")),
    turns.take(false, work("b")),
    turns.take(true, work("alone")),
    turns.take(false, work("c")),
  ]);
  expect(order).toEqual(["a in", "b in", "a out", "b out", "alone in", "alone out", "c in", "c out"]);
});

import { expect, it } from "vitest";
import { Bulkhead } from "./limits.ts";

it("lets so many in, keeps so many waiting, and those who give up leave the queue", async () => {
  const bulkhead = new Bulkhead("It", { concurrency: 1, queue: 2 });
  const { signal } = new AbortController();
  expect(bulkhead.enter({ signal })).toBeUndefined();
  const impatient = new AbortController();
  const first = bulkhead.enter(impatient);
  const second = bulkhead.enter({ signal });
  expect(() => bulkhead.enter({ signal })).toThrow(/It already works on 1 call, and 2 more wait/);
  impatient.abort(new Error("enough"));
  await expect(first).rejects.toThrow("enough");
  bulkhead.leave();
  await second;
  expect([bulkhead.inside, bulkhead.waiting]).toEqual([1, 0]);
});

it("made larger lets in who waits, and made smaller lets nobody in until there is room", async () => {
  const bulkhead = new Bulkhead("It", { concurrency: 1, queue: 9 });
  const { signal } = new AbortController();
  bulkhead.enter({ signal });
  const [first, second] = [bulkhead.enter({ signal }), bulkhead.enter({ signal })];
  bulkhead.resize({ concurrency: 2, queue: 9 });
  await first;
  expect([bulkhead.inside, bulkhead.waiting]).toEqual([2, 1]);
  bulkhead.resize({ concurrency: 1, queue: 9 });
  bulkhead.leave();
  expect([bulkhead.inside, bulkhead.waiting]).toEqual([1, 1]);
  bulkhead.leave();
  await second;
  expect([bulkhead.inside, bulkhead.waiting]).toEqual([1, 0]);
});

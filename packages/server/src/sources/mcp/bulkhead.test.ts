import { expect, it } from "vitest";
import { Bulkhead } from "./bulkhead.ts";

it("lets so many in, keeps so many waiting, and those who give up leave the queue", async () => {
  const bulkhead = new Bulkhead(1, 2);
  const { signal } = new AbortController();
  expect(bulkhead.enter({ signal })).toBeUndefined();
  const impatient = new AbortController();
  const first = bulkhead.enter(impatient);
  const second = bulkhead.enter({ signal });
  expect(() => bulkhead.enter({ signal })).toThrow(/2 more wait/);
  impatient.abort(new Error("enough"));
  await expect(first).rejects.toThrow("enough");
  bulkhead.leave();
  await second;
  expect([bulkhead.inside, bulkhead.waiting]).toEqual([1, 0]);
});

import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import { RereadTimer } from "./limits.ts";

it("a change is not put off by the next one, and a flood of them is read with growing pauses", async () => {
  const reads: number[] = [];
  const timer = new RereadTimer(
    () => 0,
    async () => void reads.push(performance.now()),
  );
  const flood = setInterval(() => timer.soon(), 1);
  while (reads.length < 5) await delay(5);
  clearInterval(flood);
  timer.end();
  const pauses = reads.slice(1).map((at, index) => at - (reads[index] ?? 0));
  // Each is at least twice the first one of 50 ms, and so on; a busy machine only makes them longer.
  expect(pauses.every((pause, index) => pause >= 50 * 2 ** (index + 1) - 5)).toBe(true);
});

it("what changes while it is read is read again", async () => {
  let reads = 0;
  const again = Promise.withResolvers<void>();
  const timer = new RereadTimer(
    () => 0,
    async () => {
      reads++;
      if (reads === 1) timer.soon();
      else again.resolve();
    },
  );
  timer.soon();
  await again.promise;
  expect(reads).toBe(2);
});

it("reads by itself after a while, unless that is switched off", async () => {
  const read = Promise.withResolvers<void>();
  const timer = new RereadTimer(
    () => 5,
    async () => read.resolve(),
  );
  timer.later();
  await read.promise;
  const never = new RereadTimer(
    () => 0,
    async () => expect.unreachable(),
  );
  never.later();
  await delay(20);
});

it("reads by itself only while nobody tells of changes", async () => {
  let isTold = true;
  const read = Promise.withResolvers<void>();
  const timer = new RereadTimer(
    () => 5,
    async () => {
      expect(isTold).toBe(false);
      read.resolve();
    },
    () => isTold,
  );
  timer.later();
  await delay(50);
  isTold = false;
  await read.promise;
});

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Lookout } from "./watch.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const unexpected = (error: unknown) => expect.unreachable(String(error));

it("looks once a second from start to stop, and again when it is started anew", async () => {
  let looks = 0;
  const lookout = new Lookout({ look: async () => void looks++, failed: unexpected });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(looks).toBe(0);

  lookout.start();
  await vi.advanceTimersByTimeAsync(999);
  expect(looks).toBe(0);
  await vi.advanceTimersByTimeAsync(2_001);
  expect(looks).toBe(3);

  await lookout.stop();
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(looks).toBe(3);

  lookout.start();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(looks).toBe(4);
});

it("looks no more often when it is started twice, and can be stopped twice", async () => {
  let looks = 0;
  const lookout = new Lookout({ look: async () => void looks++, failed: unexpected, interval: 10 });
  lookout.start();
  lookout.start();
  await vi.advanceTimersByTimeAsync(20);
  expect(looks).toBe(2);
  await lookout.stop();
  await lookout.stop();
  expect(vi.getTimerCount()).toBe(0);
});

it("begins no look while one is under way, and stopping waits for that one", async () => {
  const looks: PromiseWithResolvers<void>[] = [];
  const look = () => {
    looks.push(Promise.withResolvers());
    return looks.at(-1)!.promise;
  };
  const lookout = new Lookout({ look, failed: unexpected });
  lookout.start();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(looks).toHaveLength(1);

  looks[0]!.resolve();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(looks).toHaveLength(2);

  let hasStopped = false;
  const stopped = lookout.stop().then(() => {
    hasStopped = true;
  });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(hasStopped).toBe(false);
  looks[1]!.resolve();
  await stopped;
  expect(looks).toHaveLength(2);
});

it("does not look twice at once when it is stopped and started during a look", async () => {
  let underWay = 0;
  const ended = Promise.withResolvers<void>();
  const look = () => {
    underWay++;
    return ended.promise;
  };
  const lookout = new Lookout({ look, failed: unexpected });
  lookout.start();
  await vi.advanceTimersByTimeAsync(1_000);
  void lookout.stop();
  lookout.start();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(underWay).toBe(1);
});

it("tells of each look that fails, at once or later, and goes on", async () => {
  const failures: unknown[] = [];
  let looks = 0;
  const lookout = new Lookout({
    look() {
      looks++;
      if (looks === 1) throw new Error("at once");
      return looks === 2 ? Promise.reject(new Error("later")) : Promise.resolve();
    },
    failed: (error) => failures.push(error),
  });
  lookout.start();
  await vi.advanceTimersByTimeAsync(3_000);
  expect(looks).toBe(3);
  expect(failures).toEqual([new Error("at once"), new Error("later")]);
});

it("looks at once when it is asked to, also beside a look that has begun before", async () => {
  const seen: string[] = [];
  let present = "old";
  const slow = Promise.withResolvers<void>();
  const lookout = new Lookout({
    async look() {
      const found = present;
      if (found === "old") await slow.promise;
      seen.push(found);
    },
    failed: unexpected,
  });
  lookout.start();
  await vi.advanceTimersByTimeAsync(1_000);
  present = "new";
  await lookout.look();
  expect(seen).toEqual(["new"]);
  slow.resolve();
  await lookout.stop();
  expect(seen).toEqual(["new", "old"]);
});

it("does not keep the process alive", () => {
  vi.useRealTimers();
  const before = process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const lookout = new Lookout({ look: async () => {}, failed: unexpected });
  lookout.start();
  const after = process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  void lookout.stop();
  expect(after).toBe(before);
});

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Follower } from "./follower.ts";

let follower: Follower;
beforeEach(() => {
  vi.useFakeTimers();
  follower = new Follower();
});
afterEach(async () => {
  await follower.close();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

const failed = (error: unknown) => expect.unreachable(String(error));
const seconds = (count: number) => vi.advanceTimersByTimeAsync(count * 1_000);

describe("what other processes change", () => {
  it("is looked at once a second, or as seldom as it is asked for, until nobody follows", async () => {
    const refresh = vi.fn(async () => {});
    const seldom = vi.fn(async () => {});
    const every = follower.follow("a", { refresh, failed });
    const third = follower.follow("b", { refresh: seldom, failed, seconds: 3 });
    expect(vi.getTimerCount()).toBe(1);
    await seconds(6);
    expect([refresh.mock.calls.length, seldom.mock.calls.length]).toEqual([6, 2]);
    await every.stop();
    await third.stop();
    await seconds(6);
    expect([refresh.mock.calls.length, seldom.mock.calls.length, vi.getTimerCount()]).toEqual([6, 2, 0]);
  });

  it("is taken over once for each version, which those who follow one topic share", async () => {
    let version = 1;
    const read = vi.fn(async () => version);
    const parts = [vi.fn(async () => {}), vi.fn(async () => {})];
    for (const refresh of parts) follower.follow("registry", { version: read, refresh, failed });
    await seconds(3);
    expect(read).toHaveBeenCalledTimes(3);
    expect(parts.map(({ mock }) => mock.calls.length)).toEqual([1, 1]);
    version = 2;
    await seconds(2);
    expect(parts.map(({ mock }) => mock.calls.length)).toEqual([2, 2]);
  });

  it("is taken over again after a failure, which is told once for each reason and follower", async () => {
    let reason: string | undefined = "away";
    const told: string[] = [];
    const tell = (error: unknown) => told.push(String(error));
    const broken = vi.fn(async () => void (reason && (await Promise.reject(new Error(reason)))));
    const other = vi.fn(() => Promise.reject(new Error("always")));
    const steady = vi.fn(async () => {});
    const version = async () => 1;
    follower.follow("registry", { version, refresh: broken, failed: tell });
    follower.follow("registry", { version, refresh: other, failed: tell });
    follower.follow("registry", { version, refresh: steady, failed });
    await seconds(3);
    expect(broken).toHaveBeenCalledTimes(3);
    expect(told.sort()).toEqual(["Error: always", "Error: away"]);
    reason = undefined;
    await seconds(2);
    expect(broken).toHaveBeenCalledTimes(4);
    expect(steady).toHaveBeenCalledTimes(1);
    expect(told).toHaveLength(2);
  });

  it("is told to be unreadable when its version is, and is read when it can be", async () => {
    let isAway = true;
    const told: unknown[] = [];
    const refresh = vi.fn(async () => {});
    const version = () => (isAway ? Promise.reject(new Error("away")) : Promise.resolve(1));
    follower.follow("a", { version, refresh, failed: (error) => told.push(error) });
    await seconds(2);
    isAway = false;
    await seconds(1);
    isAway = true;
    await seconds(1);
    expect(refresh).toHaveBeenCalledTimes(1);
    expect(told).toHaveLength(2);
  });

  it("is not asked for while nobody waits", async () => {
    let isNeeded = false;
    const refresh = vi.fn(async () => {});
    follower.follow("a", { refresh, failed, isNeeded: () => isNeeded });
    await seconds(2);
    expect(refresh).not.toHaveBeenCalled();
    isNeeded = true;
    await seconds(2);
    expect(refresh).toHaveBeenCalledTimes(2);
  });
});

describe("a look that takes long", () => {
  it("holds up nobody else, is not begun again, and is waited for when it is stopped or all is closed", async () => {
    const gate = Promise.withResolvers<void>();
    const slow = vi.fn(() => gate.promise);
    const quick = vi.fn(async () => {});
    const following = follower.follow("slow", { refresh: slow, failed });
    follower.follow("quick", { refresh: quick, failed });
    await seconds(5);
    expect([slow.mock.calls.length, quick.mock.calls.length]).toEqual([1, 5]);
    let ended = 0;
    const closed = follower.close().then(() => ended++);
    const stopped = following.stop().then(() => ended++);
    await seconds(1);
    expect(ended).toBe(0);
    gate.resolve();
    await Promise.all([closed, stopped]);
    expect([slow.mock.calls.length, quick.mock.calls.length]).toEqual([1, 5]);
  });

  it("may have seen what was before, so that one who asks gets another beside it", async () => {
    const seen: string[] = [];
    let present = "old";
    const gate = Promise.withResolvers<void>();
    const following = follower.follow("a", {
      async refresh() {
        const found = present;
        if (found === "old") await gate.promise;
        seen.push(found);
      },
      failed,
    });
    await seconds(1);
    present = "new";
    await following.look();
    expect(seen).toEqual(["new"]);
    gate.resolve();
    await following.stop();
    expect(seen).toEqual(["new", "old"]);
  });
});

it("does not keep the process alive", () => {
  vi.useRealTimers();
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const before = timers();
  const following = follower.follow("a", { refresh: async () => {}, failed });
  expect(timers()).toBe(before);
  void following.stop();
  vi.useFakeTimers();
});

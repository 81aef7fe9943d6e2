import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { TextSaver } from "./session-runner.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Saves that take a given time each, and what is under way. */
function slowStore(milliseconds: number) {
  const log: string[] = [];
  const write = async () => {
    log.push("begin");
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    log.push("end");
  };
  return { log, saver: new TextSaver(write) };
}

it("saves about once a second, however often something comes", async () => {
  const { log, saver } = slowStore(1);
  for (let at = 0; at < 500; at++) {
    saver.touch();
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(log.filter((word) => word === "end")).toHaveLength(4);
});

it("saves less often where that takes long, and one after the other", async () => {
  const { log, saver } = slowStore(500);
  for (let at = 0; at < 3_000; at++) {
    saver.touch();
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(log.join(" ")).toBe("begin end begin end begin end");
});

it("does nothing of its own accord once it has ended", async () => {
  const { log, saver } = slowStore(10);
  saver.touch();
  const saved = saver.save();
  saver.touch();
  const ended = saver.end();
  await vi.advanceTimersByTimeAsync(60_000);
  await Promise.all([saved, ended]);
  expect(log).toEqual(["begin", "end"]);
});

it("tells who saves that it failed, and goes on", async () => {
  let isBroken = true;
  const saver = new TextSaver(async () => {
    if (isBroken) throw new Error("the disk is full");
  });
  saver.touch();
  await vi.advanceTimersByTimeAsync(2_000);
  await expect(saver.save()).rejects.toThrow("full");
  isBroken = false;
  await saver.save();
});

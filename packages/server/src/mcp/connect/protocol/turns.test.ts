import { expect, it } from "vitest";
import { Turns } from "./questions.ts";

const LONG = 600_000;

it("who is alone waits for all before, and all after wait for them", async () => {
  const turns = new Turns(LONG);
  const seen: string[] = [];
  const first = Promise.withResolvers<void>();
  const work =
    (name: string, until: Promise<void> = Promise.resolve()) =>
    () => {
      seen.push(name);
      return until;
    };
  const all = [
    turns.take(false, work("shared", first.promise), undefined),
    turns.take(false, work("beside"), undefined),
    turns.take(true, work("alone"), undefined),
    turns.take(false, work("after"), undefined),
  ];
  await all[1];
  expect(seen).toEqual(["shared", "beside"]);
  first.resolve();
  await Promise.all(all);
  expect(seen).toEqual(["shared", "beside", "alone", "after"]);
});

it("who gives up leaves the line at once, and holds up nobody behind", async () => {
  const turns = new Turns(LONG);
  const first = Promise.withResolvers<void>();
  const one = turns.take(true, () => first.promise, undefined);
  const stop = new AbortController();
  const two = turns.take(true, async () => "never", stop.signal);
  const three = turns.take(true, async () => "third", undefined);
  stop.abort(new Error("gone"));
  await expect(two).rejects.toThrow("gone");
  first.resolve();
  await one;
  expect(await three).toBe("third");
});

it("nobody waits for ever for one who does not end", async () => {
  const turns = new Turns(5);
  void turns.take(true, () => new Promise(() => {}), undefined);
  expect(await turns.take(true, async () => "ahead", undefined)).toBe("ahead");
  expect(await turns.take(false, async () => "ahead too", undefined)).toBe("ahead too");
});

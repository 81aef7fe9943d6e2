import { expect, it } from "vitest";
import { type FeedEntry, TurnFeed } from "./turn-feed.ts";

it("tells those who come late what they missed, and those who come back no more than that", () => {
  const feed = new TurnFeed();
  for (const type of ["a", "b", "c"]) feed.publish(type, {});
  const late: FeedEntry[] = [];
  const back: FeedEntry[] = [];
  feed.follow(0, (entry) => late.push(entry));
  const leave = feed.follow(2, (entry) => back.push(entry));
  feed.publish("d", {});
  leave();
  feed.publish("e", {});
  expect(late.map(({ type }) => type)).toEqual(["a", "b", "c", "d", "e"]);
  expect(back.map(({ type, number }) => [type, number])).toEqual([
    ["c", 3],
    ["d", 4],
  ]);
});

it("forgets the oldest, and knows what it has forgotten", () => {
  const feed = new TurnFeed(100);
  for (let at = 0; at < 1_000; at++) feed.publish("x", at);
  expect(feed.knowsAfter(0)).toBe(false);
  expect(feed.knowsAfter(950)).toBe(true);
  expect(feed.knowsAfter(1_000)).toBe(true);
  expect(feed.knowsAfter(1_001)).toBe(false);
  feed.keep(10);
  expect(feed.knowsAfter(950)).toBe(false);
  expect(feed.knowsAfter(990)).toBe(true);
});

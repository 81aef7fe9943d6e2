// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { type KeptFeed, keepFeed, keptFeed } from "./kept-feeds.ts";

const stepBack = { back: null, forward: "/calls/a" };
const feed = (top: number): KeptFeed => ({
  calls: [],
  next: "page 2",
  selected: "a",
  unfolded: new Set(),
  top,
});

it("gives the feed of a query back to who returns to it, and only to them", () => {
  keepFeed({ tool: "x" }, feed(700));
  expect(keptFeed({ tool: "x" }, stepBack)).toEqual(feed(700));
  expect(keptFeed({ tool: "x" }, { back: "/calls/a", forward: null })).toEqual(feed(700));
  expect(keptFeed({ tool: "y" }, stepBack)).toBeUndefined();
  expect(keptFeed({ tool: "x" }, { back: "/tools", forward: null })).toBeUndefined();
  expect(keptFeed({ tool: "x" }, null)).toBeUndefined();
});

it("keeps those that were left last", () => {
  for (let number = 0; number < 12; number++) keepFeed({ number }, feed(number));
  const known = Array.from({ length: 12 }, (_, number) => keptFeed({ number }, stepBack)?.top);
  expect(known).toEqual([undefined, undefined, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

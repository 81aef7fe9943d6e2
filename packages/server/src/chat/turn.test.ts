import { expect, it } from "vitest";
import { eventsBetween, type FeedEntry, type MessagePart, type ToolPart, TurnFeed } from "./turn.ts";

const say = (feed: TurnFeed, text: string) => feed.publish({ type: "text", text });
// The type of an entry says what the entry holds.
const textOf = ({ data }: FeedEntry) => (data.type === "text" ? data.text : data.type);

it("tells those who come late what they missed, and those who come back no more than that", () => {
  const feed = new TurnFeed();
  for (const text of ["a", "b", "c"]) say(feed, text);
  const late: FeedEntry[] = [];
  const back: FeedEntry[] = [];
  feed.follow(0, (entry) => late.push(entry));
  const leave = feed.follow(2, (entry) => back.push(entry));
  say(feed, "d");
  leave();
  say(feed, "e");
  expect(late.map(textOf)).toEqual(["a", "b", "c", "d", "e"]);
  expect(back.map((entry) => [textOf(entry), entry.number])).toEqual([
    ["c", 3],
    ["d", 4],
  ]);
});

it("forgets the oldest, and knows what it has forgotten", () => {
  const feed = new TurnFeed(100);
  for (let at = 0; at < 1_000; at++) say(feed, String(at));
  expect(feed.knowsAfter(0)).toBe(false);
  expect(feed.knowsAfter(950)).toBe(true);
  expect(feed.knowsAfter(1_000)).toBe(true);
  expect(feed.knowsAfter(1_001)).toBe(false);
  feed.keep(10);
  expect(feed.knowsAfter(950)).toBe(false);
  expect(feed.knowsAfter(990)).toBe(true);
});

const time = { start: 1, end: 2 };
const call: ToolPart = {
  type: "tool",
  round: 1,
  id: "a",
  callId: "call-a",
  name: "add",
  displayName: "Add",
  arguments: "{}",
  started: true,
  // For the provider, and for nobody who reads.
  echo: { provider: "some", call: { extra_content: "signed" } },
  state: { status: "pending", input: {}, raw: "{}" },
};
const done: ToolPart = { ...call, state: { status: "completed", input: {}, output: "3", time } };
const text = (words: string): MessagePart => ({ type: "text", round: 1, text: words });
const announced = {
  type: "call",
  id: "a",
  callId: "call-a",
  name: "add",
  displayName: "Add",
  arguments: "{}",
};
const settled = { type: "state", callId: "call-a", name: "add", state: done.state };

it("tells what is new, and nothing twice", () => {
  expect(eventsBetween([], [text("Let me"), call])).toEqual([{ type: "text", text: "Let me" }, announced]);
  expect(eventsBetween([text("Let me"), call], [text("Let me see"), done])).toEqual([
    { type: "text", text: " see" },
    settled,
  ]);
  expect(eventsBetween([text("Let me"), done], [text("Let me"), { ...done }])).toEqual([]);
});

it("tells of a call that began and ended between two looks as of both", () => {
  expect(eventsBetween([], [done])).toEqual([announced, settled]);
});

import { expect, it } from "vitest";
import { eventsBetween, type MessagePart, type ToolPart } from "./turn.ts";

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

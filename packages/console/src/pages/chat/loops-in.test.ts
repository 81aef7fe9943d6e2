import { expect, it } from "vitest";
import type { ChatToolPart } from "../../api/chat-types.ts";
import { loopsIn } from "./loops-in.ts";

const call = (
  callId: string,
  fingerprint?: string,
  action: "none" | "nudge" | "stop" = "nudge",
): ChatToolPart => ({
  type: "tool",
  id: callId,
  callId,
  name: "hello",
  displayName: "hello",
  arguments: "{}",
  state: { status: "completed" },
  ...(fingerprint === undefined ? {} : { loop: { action, count: 3, fingerprint, signal: "repeat" } }),
});

it("tells of each loop once, at its latest call", () => {
  const parts = [call("1"), call("2", "a"), call("3", "b"), call("4", "a"), call("5", "a", "none")];
  expect([...loopsIn({ parts }).shown].sort()).toEqual(["3", "4"]);
});

it("leaves the loop that ended the answer to its end", () => {
  const parts = [call("1", "b"), call("2", "a"), call("3", "a", "stop")];
  const { shown, last } = loopsIn({ parts, end: { reason: "loop", message: "in circles" } });
  expect([...shown]).toEqual(["1"]);
  expect(last?.callId).toBe("3");
});

it("finds nothing where nobody went in circles", () => {
  expect(loopsIn({ parts: [call("1"), { type: "text", text: "x" }] })).toEqual({
    shown: new Set(),
    last: undefined,
  });
});

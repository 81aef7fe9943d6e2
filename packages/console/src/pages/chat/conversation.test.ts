// @vitest-environment happy-dom
import { describe, expect, it } from "vitest";
import type { ChatMessage, ChatToolPart } from "../../api/index.ts";
import { applyEvent, loopsIn } from "./conversation.ts";

describe("an answer", () => {
  const begun: ChatMessage = { id: "m1", role: "assistant", status: "running", parts: [] };
  const after = (...events: [type: string, data: Record<string, unknown>][]) =>
    events.reduce((message, [type, data]) => applyEvent(message, { type, data }), begun);
  const call = {
    id: "a",
    callId: "c1",
    name: "hello",
    displayName: "Hello/问候",
    arguments: '{"name":"Ada"}',
  };

  it("joins what belongs together and keeps the order of text and calls", () => {
    const message = after(
      ["text", { text: "I will " }],
      ["text", { text: "greet." }],
      ["call", call],
      ["state", { callId: "c1", state: { status: "completed", output: "Hello" } }],
      ["text", { text: "Done." }],
    );
    expect(message.parts).toEqual([
      { type: "text", text: "I will greet." },
      { type: "tool", ...call, state: { status: "completed", output: "Hello" } },
      { type: "text", text: "Done." },
    ]);
  });

  it("notes progress, loops and the end at the call and the message that they are about", () => {
    const message = after(
      ["call", call],
      ["call", { ...call, id: "b", callId: "c2" }],
      ["progress", { callId: "c2", update: { progress: 1, total: 2 } }],
      ["loop", { callId: "c1", verdict: { action: "block", count: 5 } }],
      ["end", { end: { reason: "loop", message: "in circles" } }],
    );
    expect(message).toMatchObject({
      status: "completed",
      end: { reason: "loop" },
      parts: [
        { callId: "c1", loop: { action: "block" } },
        { callId: "c2", progress: { progress: 1 } },
      ],
    });
    expect(after(["end", { end: { reason: "stopped" } }]).status).toBe("stopped");
    expect(after(["end", {}]).status).toBe("completed");
  });

  it("takes a whole message as it is, and leaves a message alone where an event says nothing of it", () => {
    expect(after(["text", { text: "old" }], ["message", { ...begun, id: "m2" }])).toEqual({
      ...begun,
      id: "m2",
    });
    expect(after(["retry", { attempt: 1 }])).toBe(begun);
  });
});

describe("the loops in an answer", () => {
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
});

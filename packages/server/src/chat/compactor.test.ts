import { describe, expect, it } from "vitest";
import { Compactor, tokensOf } from "./compactor.ts";
import { toModelMessages } from "./messages.ts";
import type { ModelMessage } from "./model.ts";
import type { ToolPart } from "./turn.ts";

const round = (id: string, size: number): ModelMessage[] => [
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id, type: "function", function: { name: "read", arguments: "{}" } }],
  },
  { role: "tool", tool_call_id: id, name: "read", content: `${id} `.repeat(size / (id.length + 1)) },
];
const callIdOf = (id: string) => (id.startsWith("known") ? `call-of-${id}` : undefined);
const sizeOf = (messages: readonly ModelMessage[]) =>
  messages.reduce((sum, message) => sum + tokensOf(message), 0);

describe("a conversation", () => {
  it("stays as it is while there is room", () => {
    const messages = [{ role: "user" as const, content: "hi" }, ...round("known1", 4_000)];
    const answer = new Compactor(10_000, callIdOf).apply(messages);
    expect(answer).toEqual({ messages, out: [] });
  });

  it("gives up its oldest results first, keeps their ids, and never those that were not read yet", () => {
    const compactor = new Compactor(4_000, callIdOf);
    const messages = ["known1", "known2", "known3", "known4"].flatMap((id) => round(id, 4_000));
    const { messages: shorter, out } = compactor.apply(messages);
    expect(out).toEqual(["known1", "known2", "known3"].slice(0, out.length));
    expect(out.length).toBeGreaterThan(0);
    expect(shorter[1]?.content).toContain("kept as call call-of-known1");
    expect(shorter.at(-1)).toEqual(messages.at(-1));
    expect(sizeOf(shorter)).toBeLessThanOrEqual(4_000 * 0.8);
  });

  it("changes its beginning seldom, so that prompt caches hold", () => {
    const compactor = new Compactor(4_000, callIdOf);
    const messages: ModelMessage[] = [];
    const beginnings: string[] = [];
    for (let at = 0; at < 60; at++) {
      messages.push(...round(`known${at}`, 1_200));
      const shown = compactor.apply(messages).messages;
      beginnings.push(JSON.stringify(shown.slice(0, 4)));
    }
    expect(new Set(beginnings.slice(2)).size).toBeLessThanOrEqual(2);
  });

  it("gives up old images too", () => {
    const part = (id: string, round: number): ToolPart => ({
      type: "tool",
      round,
      id,
      callId: `call-of-${id}`,
      name: "photo",
      displayName: "photo",
      arguments: "{}",
      state: {
        status: "completed",
        input: {},
        output: "a photo",
        attachments: [{ type: "file", mime: "image/png", url: "data:image/png;base64,iVBORw0KGgo=" }],
        time: { start: 0, end: 1 },
      },
    });
    const messages = toModelMessages([part("known1", 1), part("known2", 2), part("known3", 3)], true);
    const compactor = new Compactor(3_000, callIdOf);
    const { messages: shorter, out } = compactor.apply(messages);
    expect(out).toEqual(["images of known1", "images of known2"]);
    expect(shorter[2]).toEqual({
      role: "user",
      content: "The image that photo returned (call known1): taken out to make room.",
    });
    expect(shorter.at(-1)).toEqual(messages.at(-1));
    expect(new Compactor(3_000, callIdOf, out).apply(messages)).toEqual({ messages: shorter, out: [] });
  });

  it("shortens the model's own oldest answers when nothing else is left", () => {
    const answer = (word: string): ModelMessage => ({ role: "assistant", content: word.repeat(12_000) });
    const messages: ModelMessage[] = [
      { role: "user", content: "a book, please" },
      answer("once "),
      { role: "user", content: "and another" },
      answer("upon "),
      { role: "user", content: "thanks" },
    ];
    const limit = sizeOf(messages) * 1.2;
    const { messages: shorter } = new Compactor(limit, callIdOf).apply(messages);
    expect(shorter[1]?.content).toMatch(
      /^once once[^…]+… 52000 characters of this answer were left out[^…]+once $/,
    );
    expect(shorter.slice(2)).toEqual(messages.slice(2));
    const more = [...messages, { role: "user" as const, content: "more" }];
    expect(new Compactor(limit, callIdOf).apply(more).messages.slice(0, 5)).toEqual(shorter);
  });

  it("keeps results that could not be read again, and short ones", () => {
    const messages = [...round("client", 8_000), ...round("known", 700), ...round("known-last", 8_000)];
    expect(new Compactor(2_000, callIdOf).apply(messages)).toEqual({ messages, out: [] });
  });
});

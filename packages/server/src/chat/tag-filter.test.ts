import { describe, expect, it } from "vitest";
import { emptyPiece } from "./answer-chunks.ts";
import { TagFilter, ThinkFilter } from "./tag-calls.ts";

const split = (text: string, size: number) => text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];

it("lets the same text through however it is cut", () => {
  const before = "If a < b and <tool> or <activity> or <tool_actions>, then ";
  const call = '<tool_action name="x"><a value="1"/></tool_action> and so on';
  for (let size = 1; size <= 20; size++) {
    const filter = new TagFilter();
    const shown = split(before + call, size).map((piece) => filter.add(piece));
    expect(shown.join("")).toBe(before);
    expect(filter.rest(`${before} and so on`)).toBe(" and so on");
    expect(filter.rest(`${before} `)).toBe("");
  }
});

it("holds nothing back at the end of a text without calls, but what could have begun one", () => {
  const filter = new TagFilter();
  expect(filter.add("a <tool_act")).toBe("a ");
  expect(filter.rest("a <tool_act")).toBe("<tool_act");
});

describe("the reasoning at the beginning of a text", () => {
  const separated = (pieces: readonly string[]) => {
    const filter = new ThinkFilter();
    const all = pieces.map((text) => filter.separate({ ...emptyPiece, text }));
    const whole = [...all, filter.rest()];
    return [whole.map(({ reasoning }) => reasoning).join(""), whole.map(({ text }) => text).join("")];
  };

  it.each([
    ["<think>I see</think>\n\nHello", "I see", "Hello"],
    ["\n <think>\nI see\n</think>Hello </think>", "I see\n", "Hello </think>"],
    ["<think></think>Hello", "", "Hello"],
    ["<think>never ends </thin", "never ends </thin", ""],
    ["Hello <think>no</think>", "", "Hello <think>no</think>"],
    ["<thi", "", "<thi"],
    ["<b>Hello", "", "<b>Hello"],
    ["", "", ""],
  ])("is separated, however the text was split: %j", (text, reasoning, rest) => {
    expect(separated([text])).toEqual([reasoning, rest]);
    expect(separated([...text])).toEqual([reasoning, rest]);
    for (let at = 1; at < text.length; at++)
      expect(separated([text.slice(0, at), text.slice(at)])).toEqual([reasoning, rest]);
  });
});

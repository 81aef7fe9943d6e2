import { expect, it } from "vitest";
import { TagFilter } from "./tag-calls.ts";

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

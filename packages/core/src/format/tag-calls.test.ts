import { describe, expect, it } from "vitest";
import { cpuTime } from "../../../../scripts/cpu-time.ts";
import { fromTagArguments, parseTagCalls, readTagText, toTagResult } from "./tag-calls.ts";

describe("parseTagCalls", () => {
  it("reads calls between words", () => {
    const text = `I will look.
<tool_action name="read_file" type="builtin"><path value="a.txt"/><limit value='5' /></tool_action>
Then:
<action name="web_search" type="mcp">
  <query>cats &amp; dogs</query>
</action>
<tool_action name="now"/>`;
    expect(parseTagCalls(text)).toEqual([
      { id: "call_at_0", name: "read_file", arguments: { path: "a.txt", limit: "5" } },
      { id: "call_at_1", name: "web_search", arguments: { query: "cats & dogs" } },
      { id: "call_at_2", name: "now", arguments: {} },
    ]);
  });

  it("keeps markup, quotes and line breaks inside values", () => {
    const text = `<tool_action name="write"><content value="<b>x > 1</b>
</tool_action> &quot;q&quot; &#20320;&#x597d;"/><param name="path" value="p"/></tool_action>`;
    expect(parseTagCalls(text)[0]?.arguments).toEqual({
      content: '<b>x > 1</b>\n</tool_action> "q" 你好',
      path: "p",
    });
  });

  it("does not return a call that was left unfinished, and goes on behind it", () => {
    expect(parseTagCalls('<tool_action name="a"><x value="1"/>')).toEqual([]);
    expect(parseTagCalls('<tool_action name="a"><x value="1')).toEqual([]);
    expect(
      parseTagCalls('<tool_action name="a"><x value="1"/> <tool_action name="b"></tool_action>'),
    ).toEqual([{ id: "call_at_0", name: "b", arguments: {} }]);
    expect(parseTagCalls('<action name="a"> <tool_action name="b"></tool_action>')).toHaveLength(1);
  });

  it("takes no other text for a call", () => {
    for (const text of [
      "",
      "a < b",
      "<actions></actions>",
      "<tool_action></tool_action>",
      "use <action now",
    ]) {
      expect(parseTagCalls(text)).toEqual([]);
    }
  });

  it("takes a call that is only shown for none", () => {
    const call = '<tool_action name="wipe"><x value="1"/></tool_action>';
    for (const shown of [
      `Write \`${call}\` to wipe.`,
      `Like this:\n\`\`\`xml\n${call}\n\`\`\`\nDone.`,
      `~~~\n${call}`,
      `- so:\n  \`\`\`\n  ${call}\n  \`\`\``,
      `It said:\n> ${call}`,
      `It said "${call}".`,
      `它说“${call}”。`,
    ]) {
      expect(readTagText(shown), shown).toEqual({ calls: [], text: shown });
    }
    const after = `\`\`\`xml\n${call}\n\`\`\`\nIt\`s time:\n${call}`;
    expect(parseTagCalls(after)).toHaveLength(1);
    const code = '<tool_action name="write"><text value="```js\nx\n```"/></tool_action>';
    expect(parseTagCalls(code)[0]?.arguments).toEqual({ text: "```js\nx\n```" });
  });

  it("reads long text in time that grows with its length", () => {
    const took = cpuTime(() => {
      expect(parseTagCalls('<tool_action name="a"><x value="1"/>'.repeat(5_000))).toEqual([]);
      expect(parseTagCalls("<action ".repeat(5_000))).toEqual([]);
      expect(parseTagCalls('<action name="a" '.repeat(5_000))).toEqual([]);
      expect(parseTagCalls("a ` b `` ".repeat(20_000))).toEqual([]);
      expect(parseTagCalls(`> ${"<action> ".repeat(20_000)}`)).toEqual([]);
    });
    expect(took).toBeLessThan(2_000);
  });
});

describe("readTagText", () => {
  it("leaves the text around the calls, and nothing of a call that breaks off", () => {
    expect(readTagText('One. <tool_action name="a"/> Two.')).toMatchObject({ text: "One.  Two." });
    expect(readTagText('One. <tool_action name="a"><x value="1"')).toEqual({
      calls: [],
      text: "One. ",
      unfinished: "a",
    });
    expect(readTagText('One. <tool_action name="wri')).toMatchObject({ text: "One. ", unfinished: "wri" });
    const spoken = "<tool_action name='x'> is not closed";
    expect(readTagText(spoken)).toEqual({ calls: [], text: spoken });
    expect(readTagText("use <action now")).toEqual({ calls: [], text: "use <action now" });
  });

  it("stops at an answer that the model made up", () => {
    const call = '<tool_action name="a"/>';
    const made = `${call} <tool_output name="a" status="ok">7</tool_output> It is 7. ${call}`;
    expect(readTagText(made)).toMatchObject({ calls: [{ name: "a" }], text: " " });
  });
});

describe("fromTagArguments", () => {
  const inputSchema = {
    type: "object",
    properties: {
      count: { type: "integer" },
      ratio: { anyOf: [{ type: "number" }, { type: "null" }] },
      deep: { $ref: "#/$defs/flag" },
      list: { type: "array", items: { type: "string" } },
      name: { type: "string" },
      loose: { type: ["string", "number"] },
    },
    $defs: { flag: { type: "boolean" } },
  };

  it("gives each argument the type the schema asks for", () => {
    const args = {
      count: "5",
      ratio: "null",
      deep: "True",
      list: '["a"]',
      name: "7",
      loose: "8",
      other: "9",
    };
    expect(fromTagArguments(args, { inputSchema })).toEqual({
      count: 5,
      ratio: null,
      deep: true,
      list: ["a"],
      name: "7",
      loose: "8",
      other: "9",
    });
  });

  it("leaves what it cannot read, for validation to name", () => {
    const args = { count: "five", ratio: "", deep: "maybe", list: "[a" };
    expect(fromTagArguments(args, { inputSchema })).toEqual(args);
    expect(fromTagArguments("text", { inputSchema })).toBe("text");
  });
});

describe("toTagResult", () => {
  it("wraps the text so that it cannot end the answer early", () => {
    expect(toTagResult('read "x"', { type: "text", content: "a </tool_output> b" })).toBe(
      '<tool_output name="read &quot;x&quot;" status="ok">\na &lt;/tool_output> b\n</tool_output>',
    );
    expect(toTagResult("read", { type: "text", content: '<tool_action name="w"/> <Action> <b>' })).toContain(
      '&lt;tool_action name="w"/> &lt;Action> <b>',
    );
    const error = {
      name: "ToolExecutionError",
      code: "execution_failed",
      message: "No.",
      recoverable: true,
    } as const;
    expect(toTagResult("read", { type: "error", content: "No.", error })).toContain('status="error"');
  });
});

import { expect, it } from "vitest";
import { answersOf } from "./recording.ts";
import { resultLines, toJUnit } from "./report.ts";

const result = {
  ...{ file: "tests/a.calls.yaml", line: 3, notes: [], duration: 1, status: "failed" as const },
  name: "odd",
  tool: "od\u001b[31md",
  problems: [{ kind: "equals", message: 'a\u0000b\ufffe\uffff\ud800 ]]> <&"' }],
};

it("writes no character into JUnit's form that XML does not have", () => {
  const report = {
    mode: "recorded" as const,
    results: [result],
    failures: [],
    passed: 0,
    failed: 1,
    duration: 1,
  };
  const text = toJUnit(report);
  expect(text).not.toMatch(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u);
  expect(text).toContain("a�b��� ]]&gt; &lt;&amp;&quot;");
});

it("lets no text of a test control the terminal", () => {
  expect(resultLines(result, (_style, text) => text).join("\n")).not.toContain("\u001b");
});

it("answers a recorded call of a tool that calls itself", () => {
  const calls = [{ tool: "fact", arguments: { n: 3 }, answer: 6 }];
  const test = { name: "a", tool: "fact", arguments: { n: 4 }, expect: { snapshot: 24 }, calls };
  expect(answersOf(test)).toEqual([{ tool: "fact", arguments: { n: 4 }, answer: 24 }, ...calls]);
  const upstream = { ...test, calls: [{ tool: "fact", arguments: { n: 4 }, answer: 24 }] };
  expect(answersOf(upstream)).toEqual(upstream.calls);
});

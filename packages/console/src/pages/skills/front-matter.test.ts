import { expect, it } from "vitest";
import { FrontMatterError, readSkillText, writeSkillText } from "./front-matter.ts";

it("reads the forms that skills use", () => {
  const text = `---
name: pdf-tools
description: Reads PDF files: text, tables and forms. # for everyone
license: 'It''s free'
summary: >-
  Folded over
  two lines
notes: |
  one
  two
allowed-tools: [Read, Write]
tags:
  - documents
  - "office: all"
metadata:
  author: somebody
  version: "1.0"
count: 3
ready: true
---
# How to

--- a line
`;
  expect(readSkillText(text)).toEqual({
    frontMatter: {
      name: "pdf-tools",
      description: "Reads PDF files: text, tables and forms.",
      license: "It's free",
      summary: "Folded over two lines",
      notes: "one\ntwo\n",
      "allowed-tools": ["Read", "Write"],
      tags: ["documents", "office: all"],
      metadata: { author: "somebody", version: "1.0" },
      count: 3,
      ready: true,
    },
    body: "# How to\n\n--- a line\n",
  });
});

it("reads what it has written, whatever the values are", () => {
  const written = {
    frontMatter: {
      name: "网页搜索",
      description: 'Says "hi": # always\nand goes on',
      metadata: { a: { b: [1, null] } },
    },
    body: "Text\n",
  };
  expect(readSkillText(writeSkillText(written))).toEqual(written);
});

it("takes a text without front matter as it is", () => {
  expect(readSkillText("# Only text")).toEqual({ frontMatter: {}, body: "# Only text" });
});

it.each([["a: &x 1"], ["a:\n  b:\n    c: 1"], ["just words"], ["a: !!js x"]])(
  "refuses %j with its line instead of guessing",
  (yaml) => {
    expect(() => readSkillText(`---\nname: x\n${yaml}\n---\n`)).toThrow(FrontMatterError);
  },
);

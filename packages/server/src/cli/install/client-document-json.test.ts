import { describe, expect, it } from "vitest";
import { parseJsonc } from "../../helpers/jsonc.ts";
import { applyEdits, openJsonDocument } from "./client-document.ts";

const entry = { command: "node", args: ["a", "b"] };
const open = (text: string) => openJsonDocument(text, "mcpServers", "toolrack");
const put = (text: string, value: Record<string, unknown> = { x: 1 }) =>
  applyEdits(text, open(text).set(value));
const take = (text: string) => applyEdits(text, open(text).remove());

describe("an entry is put into a file", () => {
  it.each<[string, string, string]>([
    ["that is empty", "", '{\n  "mcpServers": {\n    "toolrack": {\n      "x": 1\n    }\n  }\n}\n'],
    [
      "that holds blanks and a byte order mark",
      "\uFEFF \n",
      '\uFEFF{\n  "mcpServers": {\n    "toolrack": {\n      "x": 1\n    }\n  }\n}\n',
    ],
    [
      "that holds only a comment",
      "// mine\n",
      '// mine\n{\n  "mcpServers": {\n    "toolrack": {\n      "x": 1\n    }\n  }\n}\n',
    ],
    ["with an empty object", "{}", '{\n  "mcpServers": {\n    "toolrack": {\n      "x": 1\n    }\n  }\n}'],
    [
      "with an empty object and a comment in it",
      "{ // none yet\n}\n",
      '{ // none yet\n  "mcpServers": {\n    "toolrack": {\n      "x": 1\n    }\n  }\n}\n',
    ],
    [
      "without servers, on several lines",
      '{\n    "theme": "dark"\n}\n',
      '{\n    "theme": "dark",\n    "mcpServers": {\n        "toolrack": {\n            "x": 1\n        }\n    }\n}\n',
    ],
    [
      "with an empty set of servers",
      '{\n  "mcpServers": {},\n  "z": 1\n}',
      '{\n  "mcpServers": {\n    "toolrack": {\n      "x": 1\n    }\n  },\n  "z": 1\n}',
    ],
    [
      "indented by tabs, with Windows' line ends",
      '{\r\n\t"mcpServers": {\r\n\t\t"a": {}\r\n\t}\r\n}\r\n',
      '{\r\n\t"mcpServers": {\r\n\t\t"a": {},\r\n\t\t"toolrack": {\r\n\t\t\t"x": 1\r\n\t\t}\r\n\t}\r\n}\r\n',
    ],
    [
      "whose last server has a comment behind it",
      '{\n  "mcpServers": {\n    "a": {} // the "first", }\n    /* "b": {} */\n  }\n}\n',
      '{\n  "mcpServers": {\n    "a": {}, // the "first", }\n    /* "b": {} */\n    "toolrack": {\n      "x": 1\n    }\n  }\n}\n',
    ],
    [
      "whose author ends every line with a comma",
      '{\n  "mcpServers": {\n    "a": {}, // last\n  },\n}\n',
      '{\n  "mcpServers": {\n    "a": {}, // last\n    "toolrack": {\n      "x": 1\n    },\n  },\n}\n',
    ],
    ["on one line", '{"mcpServers":{"a":{}}}', '{"mcpServers":{"a":{}, "toolrack": {"x":1}}}'],
    [
      "on one line with a comma too many",
      '{ "mcpServers": { "a": {}, } }',
      '{ "mcpServers": { "a": {}, "toolrack": {"x":1}, } }',
    ],
    [
      "in place of another, with its comments outside",
      '{\n  "mcpServers": {\n    // ours\n    "toolrack": { "y": 2 }, // here\n    "a": {}\n  }\n}',
      '{\n  "mcpServers": {\n    // ours\n    "toolrack": {\n      "x": 1\n    }, // here\n    "a": {}\n  }\n}',
    ],
    [
      "in which the words stand elsewhere too",
      '{\n  "note": "\\"mcpServers\\": {", "deep": { "mcpServers": { "toolrack": 1 } },\n  "mcpServers": { }\n}',
      '{\n  "note": "\\"mcpServers\\": {", "deep": { "mcpServers": { "toolrack": 1 } },\n  "mcpServers": {\n    "toolrack": {\n      "x": 1\n    }\n  }\n}',
    ],
  ])("%s", (_, before, after) => {
    expect(put(before)).toBe(after);
  });

  it("writes nested values with the indent of the place", () => {
    expect(put('{\n "mcpServers": {\n  "a": 1\n }\n}', entry)).toBe(
      '{\n "mcpServers": {\n  "a": 1,\n  "toolrack": {\n   "command": "node",\n   "args": [\n    "a",\n    "b"\n   ]\n  }\n }\n}',
    );
  });
});

describe("an entry is taken out of a file", () => {
  it.each<[string, string, string]>([
    [
      "that is the only one",
      '{\n  "mcpServers": {\n    "toolrack": {}\n  }\n}\n',
      '{\n  "mcpServers": {\n  }\n}\n',
    ],
    [
      "that is the first",
      '{\n  "mcpServers": {\n    "toolrack": {}, // ours\n    "a": {}\n  }\n}',
      '{\n  "mcpServers": {\n    // ours\n    "a": {}\n  }\n}',
    ],
    [
      "that is the last, without the comma before it",
      '{\r\n  "mcpServers": {\r\n    "a": {}, // first\r\n    "toolrack": {}\r\n  }\r\n}',
      '{\r\n  "mcpServers": {\r\n    "a": {} // first\r\n  }\r\n}',
    ],
    ["on one line, first", '{ "mcpServers": { "toolrack": {}, "a": {} } }', '{ "mcpServers": { "a": {} } }'],
    ["on one line, last", '{ "mcpServers": { "a": {}, "toolrack": {} } }', '{ "mcpServers": { "a": {} } }'],
    [
      "behind a comment that ends with its line",
      '{ "mcpServers": { // x\n "toolrack": {} } }',
      '{ "mcpServers": { // x\n } }',
    ],
    ["that is not there", '{ "mcpServers": { "a": {} } } // x', '{ "mcpServers": { "a": {} } } // x'],
  ])("%s", (_, before, after) => {
    expect(take(before)).toBe(after);
  });
});

it("leaves numbers alone that are not what they are written as", () => {
  const text = '{"a":-0,"b":1e400,"mcpServers":{}}';
  expect(put(text)).toMatch(/^\{"a":-0,"b":1e400,"mcpServers":\{\s*"toolrack"/);
  expect(take(put(text))).toMatch(/^\{"a":-0,"b":1e400,/);
});

it("reads what stands under the name", () => {
  expect(open('{"mcpServers":{"toolrack":{"command":"x",}}}').entry).toEqual({ command: "x" });
  expect(open('{"mcpServers":{}}').entry).toBeUndefined();
  expect(open('{"mcpServers":{"toolrack":null}}').entry).toBeNull();
  // What an object has by itself is no entry.
  expect(openJsonDocument('{"mcpServers":{}}', "mcpServers", "toString").entry).toBeUndefined();
});

it.each<[string, string, RegExp]>([
  ["is cut off", '{ "mcpServers": {', /line 1/],
  ["has a word that is no value", '{\n  "a": yes\n}', /line 2/],
  ["lacks a comma", '{ "a": 1 "b": 2 }', /line 1/],
  ["has a comma and nothing before it", "{ , }", /line 1/],
  ["has something behind its end", "{} {}", /line 1/],
  ["has a comment that does not end", "{} /*", /line 1/],
  ["has a text over two lines", '{ "a\n": 1 }', /line 1/],
  ["is a list", "[]", /holds no object/],
  ["has servers that are no object", '{ "mcpServers": [] }', /"mcpServers" is no object/],
  ["has two sets of servers", '{ "mcpServers": {}, "mcpServers": {} }', /"mcpServers" is there 2 times/],
  [
    "has two of the name",
    '{ "mcpServers": { "toolrack": 1, "tool\\u0072ack": 2 } }',
    /"toolrack" is there 2 times/,
  ],
])("refuses a file that %s", (_, text, reason) => {
  expect(() => open(text)).toThrow(SyntaxError);
  expect(() => open(text)).toThrow(reason);
});

it("keeps every value and every comment of files of any form", () => {
  for (let seed = 1; seed <= 1_500; seed++) {
    const text = randomFile(seed);
    const before = parseJsonc(text) as Record<string, Record<string, unknown>>;
    const after = put(text, entry);
    const { toolrack: _, ...others } = before.mcpServers ?? {};
    expect(parseJsonc(after), text).toEqual({ ...before, mcpServers: { ...others, toolrack: entry } });
    expect(commentsOf(after), text).toEqual(commentsOf(text));
    const without = take(after);
    expect(parseJsonc(without), text).toEqual({ ...before, mcpServers: others });
    expect(commentsOf(without), text).toEqual(commentsOf(text));
    if (text.includes("\n")) expect(/(?<!\r)\n/.test(after), text).toBe(!text.includes("\r"));
  }
});

const commentsOf = (text: string) => text.match(/#\d+#/g) ?? [];

/** JSON with all liberties, the same for the same seed. Comments are numbered. */
function randomFile(seed: number): string {
  let state = seed * 2_654_435_761;
  const chance = (count: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) % count;
  };
  const eol = chance(3) === 0 ? "\r\n" : "\n";
  let comments = 0;
  const gap = () => {
    const parts = Array.from({ length: chance(3) }, () => {
      switch (chance(6)) {
        case 0:
          return `// #${++comments}# "mcpServers": { ,${eol}`;
        case 1:
          return `/* #${++comments}# } */`;
        case 2:
          return eol;
        case 3:
          return "\t";
        default:
          return " ";
      }
    });
    return parts.join("");
  };
  const list = (items: string[], brackets: [string, string]) => {
    const inside = items.map((item) => gap() + item + gap()).join(",");
    const comma = items.length > 0 && chance(4) === 0 ? `,${gap()}` : "";
    return brackets[0] + (inside || gap()) + comma + brackets[1];
  };
  const value = (depth: number): string => {
    const kind = chance(depth > 2 ? 5 : 7);
    if (kind === 5)
      return list(
        Array.from({ length: chance(3) }, () => value(depth + 1)),
        ["[", "]"],
      );
    if (kind === 6)
      return object(
        Array.from({ length: chance(3) }, (_, index) => `k${index}`),
        depth + 1,
      );
    return ["null", "-1.5e3", '"// no, } comment"', '"\\"\\\\"', "true"][kind] ?? "0";
  };
  const member = (key: string, text: string) =>
    // What is in our own entry goes with it.
    key === "toolrack" ? `"toolrack":{"y":[]}` : `"${key}"${gap()}:${gap()}${text}`;
  const object = (keys: string[], depth: number) =>
    list(
      keys.map((key) => member(key, key === "toolrack" ? "" : value(depth))),
      ["{", "}"],
    );
  const servers = object(
    ["a", "toolrack", "b"].filter(() => chance(2) === 0),
    1,
  );
  const members = [member("first", value(1)), member("mcpServers", servers), member("last", value(1))];
  const bom = chance(5) === 0 ? "\uFEFF" : "";
  return (
    bom +
    gap() +
    list(
      members.filter(() => chance(4) > 0),
      ["{", "}"],
    ) +
    gap()
  );
}

import { onlyObjects } from "./exceptions.ts";
import type { SampleCall } from "./sample-call.ts";

const recited = "0123456789".repeat(6_000);
const recitedInPart = `${recited.slice(0, 35_000)}\n… 10000 characters left out here: the whole result (60000 characters) is kept as call <call>; read on from offset 35000 …\n${recited.slice(-15_000)}`;

/** Calls that a tool answers. */
export const answeredCalls: readonly SampleCall[] = [
  {
    title: "text",
    tool: "say",
    args: { text: 'Hello, "rack".' },
    answer: { text: 'Hello, "rack".', isError: false },
    record: {
      tool: "say",
      displayName: "Say/说",
      status: "completed",
      text: 'Hello, "rack".',
      type: "text",
      flags: {},
    },
  },
  {
    title: "Chinese, under an alias",
    tool: "speak",
    args: { text: "你好，工具架 🧰" },
    answer: { text: "你好，工具架 🧰", isError: false },
    record: { tool: "say", parameters: { text: "你好，工具架 🧰" }, text: "你好，工具架 🧰", size: 9 },
  },
  {
    title: "JSON, with a default filled in",
    tool: "add",
    args: { a: 2 },
    answer: { text: '{"sum":3}', isError: false, structured: { sum: 3 } },
    record: { status: "completed", parameters: { a: 2, b: 1 }, type: "json", structured: { sum: 3 } },
  },
  {
    title: "structured content",
    tool: "measure",
    args: { text: "two words" },
    answer: {
      text: '{"length":9,"words":["two","words"]}',
      isError: false,
      structured: { length: 9, words: ["two", "words"] },
    },
    record: { type: "json", structured: { length: 9, words: ["two", "words"] } },
  },
  {
    title: "an image",
    tool: "draw",
    args: {},
    answer: { text: "a picture", isError: false, images: ["iVBORw0KGgo="] },
    record: { attachments: [{ type: "file", mime: "image/png", url: "data:image/png;base64,iVBORw0KGgo=" }] },
    except: {
      "OpenAI calls": {
        reason: "The message has no place for the image, so its text says that there is one.",
        answer: { text: "a picture\n[attached: image/png]" },
      },
      chat: {
        reason:
          "The image cannot stand in the answer to a call, and follows as a message that the text speaks of.",
        answer: { text: "a picture\n[attached: image/png]" },
      },
    },
  },
  {
    title: "nothing",
    tool: "hush",
    args: {},
    answer: { text: "", isError: false },
    record: { status: "completed", text: "", size: 0 },
  },
  {
    title: "a result that is too long",
    tool: "recite",
    args: {},
    answer: { text: recitedInPart, isError: false },
    record: { status: "completed", flags: { truncated: true }, size: 60_000 },
    except: {
      "command line": {
        reason: "Who reads is a person or a script, not a model: nothing is left out.",
        answer: { text: recited },
      },
    },
  },
  {
    title: "progress",
    tool: "steps",
    args: {},
    answer: {
      text: "done",
      isError: false,
      progress: [
        [1, 2, "half way"],
        [2, 2, "there"],
      ],
    },
    record: { status: "completed", text: "done" },
  },
  {
    title: "a chain",
    tool: "outer",
    args: { text: "core" },
    answer: { text: "outer(inner(core))", isError: false },
    record: {
      status: "completed",
      depth: 0,
      made: [
        { tool: "inner", depth: 1, text: "inner(core)" },
        { tool: "say", depth: 2, text: "core" },
      ],
    },
  },
  {
    title: "an argument too many",
    tool: "add",
    args: { a: 1, c: 5 },
    answer: { text: '{"sum":2}', isError: false, structured: { sum: 2 } },
    record: { parameters: { a: 1, b: 1 }, flags: { dropped: ["c"] } },
  },
  {
    title: "JSON that can be mended",
    tool: "add",
    args: "{'a': 4, b: 5}",
    answer: { text: '{"sum":9}', isError: false, structured: { sum: 9 } },
    record: { parameters: { a: 4, b: 5 }, flags: { repaired: true } },
    except: onlyObjects("Expected property name or '}' in JSON at position 1 (line 1 column 2)"),
  },
  {
    title: "a secret among the arguments",
    tool: "login",
    args: { user: "Ann", password: "correct-horse-battery" },
    answer: { text: "hello Ann", isError: false },
    record: { parameters: { user: "Ann", password: "[redacted]" } },
  },
];

// @vitest-environment happy-dom
import { expect, it } from "vitest";
import type { CallLine } from "../api/index.ts";
import { setLanguage, t } from "../text/index.ts";
import {
  dataSize,
  foldLines,
  inTime,
  intoBlocks,
  logAsText,
  mediaOf,
  messageOf,
  partsOf,
  resultSize,
  tokensOf,
  wholeOf,
} from "./result.ts";

it("shows the beginning of a result that was cut for the model, and knows where the rest is", () => {
  const result = {
    content: "begin [… 90 characters left out …] end",
    type: "text" as const,
    metadata: { truncated: { total: 100, head: 6, tail: 96, callId: "c1" } },
  };
  expect(wholeOf(result, 100, "replay")).toEqual({
    text: "begin ",
    total: 100,
    callId: "c1",
    gap: { from: 6, to: 96 },
  });
});

it("counts the tokens of the whole text, as its size, and those that the model was given", () => {
  const result = {
    content: `${"word ".repeat(100)}[…]`,
    type: "text" as const,
    metadata: { truncated: { total: 5_000, head: 500, tail: 5_000 } },
  };
  const { whole, given } = tokensOf(result, 5_000);
  expect(whole / given).toBeCloseTo(10, 0);
  const short = tokensOf({ content: "word ".repeat(100), type: "text" });
  expect(short).toEqual({ whole: given, given });
});

it("keeps several blocks in the order of the tool, with other attachments behind them", () => {
  const picture = { type: "image", data: "AAAA", mimeType: "image/png" };
  const parts = partsOf({
    content: "one two",
    type: "text",
    attachments: [
      { type: "file", mime: "application/pdf", url: "data:application/pdf;base64,AA", filename: "b" },
    ],
    blocks: [
      { type: "text", text: "one" },
      picture,
      { type: "resource", resource: { uri: "a://b", text: "held" } },
      { type: "text", text: "two" },
    ],
  });
  const shown = parts?.map(({ text, medium }) => text ?? medium?.name);
  expect(shown).toEqual(["one", "image/png", "held", "two", "b"]);
  expect(partsOf({ content: "", type: "text", blocks: [picture, picture] })).toBeUndefined();
});

it("puts log lines in the order of their time", () => {
  const line = (at: number): CallLine => ({ at, level: "info", text: String(at) });
  expect(inTime([line(3), line(1), line(2)]).map(({ at }) => at)).toEqual([1, 2, 3]);
});

it("takes any other result as it is", () => {
  expect(wholeOf({ content: "all", type: "text" })).toEqual({ text: "all", total: 3, callId: undefined });
  expect(wholeOf({ content: "part", type: "text", metadata: { truncated: true } }, 10, "c1")).toEqual({
    text: "part",
    total: 10,
    callId: "c1",
  });
});

it("shows what came along, and never fetches what lies elsewhere", () => {
  const media = mediaOf({
    content: "",
    type: "text",
    attachments: [
      { type: "file", mime: "image/png", url: "data:image/png;base64,AAAA", filename: "a.png" },
      { type: "file", mime: "image/png", url: "https://example.com/tracker.png" },
      { type: "file", mime: "application/pdf", url: "data:application/pdf;base64,AAAA", filename: "b.pdf" },
    ],
    blocks: [
      { type: "image", data: "AAAA", mimeType: "image/png" },
      { type: "audio", data: "BBBB", mimeType: "audio/wav" },
      { type: "resource_link", uri: "javascript:alert(1)", name: "bad" },
    ],
  });
  expect(media.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    "image a.png",
    "link https://example.com/tracker.png",
    "file b.pdf",
    "audio audio/wav",
    "link bad",
  ]);
  expect(media.at(-1)?.url).toBe("");
});

it("counts bytes, not characters", () => {
  expect(resultSize({ content: "hello", type: "text" })).toBe(5);
  expect(resultSize({ content: "你好", type: "text" })).toBe(6);
  expect(resultSize({ content: "你好", type: "text" }, 200)).toBe(600);
});

it("counts pictures and files that came with the text", () => {
  const data = Buffer.from("12345").toString("base64");
  const image = { type: "image", data, mimeType: "image/png" };
  expect(resultSize({ content: "", type: "text", blocks: [image] })).toBe(5);
  expect(dataSize(`data:text/plain;base64,${Buffer.from("1234").toString("base64")}`)).toBe(4);
  expect(dataSize("https://example.com/x.png")).toBe(0);
});

it("tells a person of a denial in words that are not for a model", async () => {
  await setLanguage("en", { remember: false });
  const denied = (because: string) =>
    messageOf({
      code: "approval_denied",
      message: `Running "wipe" was refused${because}. It did not run. Do not repeat the call unchanged.`,
    });
  expect(denied(", without giving a reason")).toBe(t("errors.denied"));
  expect(denied(": not on a Friday.\nAsk Ann")).toBe(
    "The tool did not run. The call was denied: not on a Friday.\nAsk Ann",
  );
});

it("leaves every other message as it is", () => {
  const late = 'Nobody answered within 5 min whether "wipe" may run, so it did not run.';
  expect(messageOf({ code: "approval_denied", message: late })).toBe(late);
  expect(messageOf({ code: "execution_failed", message: "no such file" })).toBe("no such file");
});

const lines = (count: number): CallLine[] =>
  Array.from({ length: count }, (_, at) => ({ at, level: "info", text: `line ${at}` }));

it("shows the beginning and the end of a long log, and all of it to whoever asks", () => {
  const { lines: shown, at, hidden } = foldLines(lines(100), false);
  expect([shown.length, at, hidden]).toEqual([40, 20, 60]);
  expect([shown[19]?.text, shown[20]?.text, shown[39]?.text]).toEqual(["line 19", "line 80", "line 99"]);
  expect(foldLines(lines(100), true)).toEqual({ lines: lines(100), at: -1, hidden: 0 });
});

it("does not fold what is hardly longer", () => {
  expect(foldLines(lines(44), false)).toMatchObject({ at: -1, hidden: 0 });
  expect(foldLines(lines(45), false)).toMatchObject({ at: 20, hidden: 5 });
});

it("is copied whole, a line each", () => {
  expect(logAsText(lines(2))).toBe(
    "1970-01-01T00:00:00.000Z info line 0\n1970-01-01T00:00:00.001Z info line 1",
  );
});

it("cuts at line breaks, so that the blocks under each other are the text", () => {
  const text = Array.from({ length: 20_000 }, (_, index) => `line ${index}`).join("\n");
  const blocks = intoBlocks(text);
  expect(blocks.length).toBeGreaterThan(4);
  expect(Math.max(...blocks.map((block) => block.length))).toBeLessThanOrEqual(32 * 1024);
  expect(blocks.join("\n")).toBe(text);
});

it("cuts a line that is longer than a block, and loses nothing of it", () => {
  const text = "x".repeat(100_000);
  expect(intoBlocks(text).join("")).toBe(text);
});

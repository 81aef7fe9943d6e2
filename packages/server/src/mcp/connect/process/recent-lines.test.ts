import { expect, it } from "vitest";
import { RecentLines } from "./recent-lines.ts";

it("keeps the last lines, whole and masked, however they came", () => {
  const lines = new RecentLines((text) => text.replaceAll("s3cret", "[redacted]"), 3);
  lines.addPiece("gone\none\ntwo with s3");
  lines.addPiece("cret\r\n\nthr");
  lines.addPiece("ee");
  lines.flush();
  expect(lines.all().map(({ text }) => text)).toEqual(["one", "two with [redacted]", "three"]);
  expect(lines.tail(2)).toEqual(["two with [redacted]", "three"]);
});

it("keeps no line at any length", () => {
  const lines = new RecentLines((text) => text);
  lines.addPiece("x".repeat(100_000));
  lines.addPiece("y".repeat(100_000));
  lines.flush();
  expect(lines.all()[0]?.text.length).toBeLessThan(3_000);
});

it("masks a secret that stands where a line is cut", () => {
  const lines = new RecentLines((text) => text.replaceAll("s3cret-value", "[redacted]"));
  const flooded = `${"x".repeat(1_995)}s3cret-value and more`;
  lines.add("stderr", flooded);
  lines.addPiece(flooded);
  lines.addPiece("y".repeat(100_000));
  lines.flush();
  for (const { text } of lines.all()) expect(text).not.toContain("s3c");
});

it("gives as last words what says why, and not the inside of the program", () => {
  const lines = new RecentLines((text) => text);
  const frames = Array.from(
    { length: 20 },
    (_, at) => `${at + 1}: 0x${(at + 11_000_000).toString(16)} v8::x [node]`,
  );
  const fatal = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
  lines.addPiece(["starting", fatal, "----- Native stack trace -----", "", ...frames, ""].join("\n"));
  expect(lines.tail(8)).toEqual(["starting", fatal]);
  expect(lines.all().length).toBeGreaterThan(20);
});

it("gives as last words the error of Node, and not the stack below it", () => {
  const lines = new RecentLines((text) => text);
  const stack = Array.from({ length: 12 }, (_, at) => `    at step${at} (/srv/index.js:${at}:1)`);
  lines.addPiece(
    [
      "starting",
      "/srv/index.js:3",
      "  throw err;",
      "  ^",
      "",
      "Error: no key",
      ...stack,
      "",
      "Node.js v26.1.0",
      "",
    ].join("\n"),
  );
  expect(lines.tail(8)).toEqual(["starting", "Error: no key"]);
  expect(lines.explanation(0)).toBe("Error: no key");
  expect(lines.explanation(Date.now() + 1)).toBeUndefined();
});

it("gives last words that are short enough for a message", () => {
  const lines = new RecentLines((text) => text);
  for (let at = 0; at < 20; at++) lines.add("stderr", "x".repeat(50_000));
  expect(lines.tail(8).join("\n").length).toBeLessThan(3_000);
});

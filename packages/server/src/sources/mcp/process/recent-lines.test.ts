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

import { validate, version } from "uuid";
import { expect, test } from "vitest";
import { newCallId } from "./call-book.ts";

test("ids are UUIDs of version 7, all different, in the order in which they were made", () => {
  const ids = Array.from({ length: 20_000 }, newCallId);
  expect(ids.every((id) => validate(id) && version(id) === 7)).toBe(true);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).toEqual(ids.toSorted());
  const time = Number.parseInt(ids[0]!.replace("-", "").slice(0, 12), 16);
  expect(Math.abs(Date.now() - time)).toBeLessThan(60_000);
});

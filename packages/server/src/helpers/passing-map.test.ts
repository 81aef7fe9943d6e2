import { expect, test } from "vitest";
import { PassingMap } from "./values.ts";

test("holds what was added and not removed, in the order in which it was added, however often it moves", () => {
  const map = new PassingMap<number, string>();
  map.set(-9, "stays");
  for (let key = 0; key < 2_000; key++) {
    map.set(key, `value ${key}`);
    if (key >= 3) expect(map.entries.delete(key - 3)).toBe(true);
    expect(map.entries.get(key)).toBe(`value ${key}`);
    expect(map.entries.has(key - 3)).toBe(false);
  }
  expect(map.entries.size).toBe(4);
  expect([...map.entries]).toEqual([
    [-9, "stays"],
    [1_997, "value 1997"],
    [1_998, "value 1998"],
    [1_999, "value 1999"],
  ]);
  expect([...map.entries.values()]).toHaveLength(4);
  expect(map.entries.delete(5)).toBe(false);
  map.set(-9, "changed");
  expect([...map.entries.values()][0]).toBe("changed");
});

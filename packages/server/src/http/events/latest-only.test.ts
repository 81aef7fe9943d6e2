import { expect, it } from "vitest";
import { LatestOnly } from "../events.ts";

it("tells the last of each kind and call once a turn, and at once when it is flushed", async () => {
  const latest = new LatestOnly();
  const told: string[] = [];
  for (let round = 0; round < 1_000; round++)
    latest.set("a", "progress", () => told.push(`a progress ${round}`));
  latest.set("a", "updated", () => told.push("a updated"));
  latest.set("b", "progress", () => told.push("b progress"));
  expect(told).toEqual([]);
  latest.flush("b");
  expect(told).toEqual(["b progress"]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(told).toEqual(["b progress", "a progress 999", "a updated"]);
});

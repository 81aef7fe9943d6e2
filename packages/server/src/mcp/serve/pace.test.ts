import { expect, test } from "vitest";
import { Pace } from "./notices.ts";

test("a few notices go out at once; who says more and more is slowed down", async () => {
  const pace = new Pace();
  const from = performance.now();
  for (let said = 0; said < 320; said += 32) {
    await pace.said(31);
    await pace.said(1);
  }
  // Ten bursts, each of them followed by a pause; timers may come a little early.
  expect(performance.now() - from).toBeGreaterThan(900);
});

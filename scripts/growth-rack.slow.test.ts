import { describe, expect, it } from "vitest";
import { type Figure, growthOf } from "../bench/growth/part.ts";
import { measureRack } from "../bench/growth/rack.ts";
import { measureSkill } from "../bench/growth/skill.ts";

/** The short form of `npm run bench -- growth`: ten times the size must not cost ten times as much. */
describe.runIf(process.platform === "linux")("tenfold growth", () => {
  it("of a rack costs about as much as before", async () => {
    const before = await measureRack({ tools: 1_000, readers: 20, megabytes: 2, upstreams: 4 });
    const after = await measureRack({ tools: 10_000, readers: 200, megabytes: 20, upstreams: 40 });
    expect(steep(before, after)).toEqual([]);
    const reader = after.find(({ what }) => what === "an event reader, for each call");
    expect(reader?.value).toBeLessThan(3);
  });

  it("of a skill costs about as much as before", async () => {
    expect(steep(await measureSkill(1_000), await measureSkill(10_000))).toEqual([]);
  });
});

/** What costs more CPU than before. Waits are wall time, and a busy machine makes them longer. */
function steep(before: readonly Figure[], after: readonly Figure[]): string[] {
  return after.flatMap((figure, at) => {
    // A few milliseconds are noise on a busy machine.
    const least = { ...before[at]!, value: before[at]!.value + 5 };
    return figure.unit === "ms CPU" && growthOf(least, figure) !== undefined ? [figure.what] : [];
  });
}

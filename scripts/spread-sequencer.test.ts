import { describe, expect, it } from "vitest";
import { spread } from "./spread-sequencer.ts";

describe("spreading a few among many", () => {
  it("puts each before an equal part, in order", () => {
    expect(spread(["A", "B"], ["1", "2", "3", "4", "5"])).toEqual(["A", "1", "2", "B", "3", "4", "5"]);
  });

  it("loses nothing where there are fewer of the others, or none", () => {
    expect(spread(["A", "B"], ["1"])).toEqual(["A", "B", "1"]);
    expect(spread(["A", "B"], [])).toEqual(["A", "B"]);
    expect(spread([], ["1", "2"])).toEqual(["1", "2"]);
  });
});

import { expect, it } from "vitest";
import { wholeOf } from "./whole-of.ts";

it("shows the beginning of a result that was cut for the model, and knows where the rest is", () => {
  const result = {
    content: "begin [… 90 characters left out …] end",
    type: "text" as const,
    metadata: { truncated: { total: 100, head: 6, tail: 96, callId: "c1" } },
  };
  expect(wholeOf(result, 100, "replay")).toEqual({ text: "begin ", total: 100, callId: "c1" });
});

it("takes any other result as it is", () => {
  expect(wholeOf({ content: "all", type: "text" })).toEqual({ text: "all", total: 3, callId: undefined });
  expect(wholeOf({ content: "part", type: "text", metadata: { truncated: true } }, 10, "c1")).toEqual({
    text: "part",
    total: 10,
    callId: "c1",
  });
});

import { Tool, ToolRegistry } from "@toolrack/core";
import { expect, test } from "vitest";
import { isoTime, toLogLine } from "./log.ts";

test("a time is written as a date writes itself, whatever time was written before", () => {
  const times = [
    0, 999, 1_000, 1_763_222_400_000, 1_763_222_400_007, 1_763_222_399_999.9, 1_763_222_400_070, -1,
  ];
  for (const time of [...times, ...times.toReversed()]) {
    expect(isoTime(time)).toBe(new Date(time < 0 ? Math.floor(time) : time).toISOString());
  }
});

test("the trace tells the cause of what the tool threw", async () => {
  const registry = new ToolRegistry();
  const lines: (string | undefined)[] = [];
  registry.subscribe((event) => {
    if (event.type === "record") lines.push(toLogLine(event.record, event.error).trace);
  });
  const execute = () => {
    throw new Error("Operation failed", { cause: new Error("connect ECONNREFUSED") });
  };
  registry.register(Tool.define({ name: "t", parameters: {}, execute }));
  await registry.execute("t");
  expect(lines[0]).toMatch(/^ToolExecutionError: Operation failed\nCaused by: connect ECONNREFUSED\n\s+at /);
});

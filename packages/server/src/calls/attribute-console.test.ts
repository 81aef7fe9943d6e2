import { type RackEvent, Tool, type ToolContext, ToolRegistry } from "@toolrack/core";
import { logLine } from "@toolrack/core/internal";
import { expect, it } from "vitest";
import { attributeConsole, setConsoleLog } from "../helpers/console-output.ts";
import { currentCall } from "../helpers/current-call.ts";

it("what a tool prints is printed, and is a line of its call", async () => {
  const printed: unknown[][] = [];
  const print = (...values: unknown[]) => void printed.push(values);
  const target = { debug: print, log: print, info: print, warn: print, error: print };
  attributeConsole(target);
  setConsoleLog(logLine);
  const registry = new ToolRegistry();
  const lines: unknown[] = [];
  registry.subscribe((event: RackEvent) => {
    if (event.type === "log") lines.push([event.callId, event.level, event.text]);
  });
  const execute = (context: ToolContext) =>
    currentCall.run(context, async () => {
      target.log("%s of %d", "one", 2, { page: 3 });
      await new Promise(setImmediate);
      target.error("gone");
    });
  registry.register(Tool.define({ name: "prints", parameters: {}, execute }));
  await Promise.all(["a", "b"].map((callId) => registry.execute("prints", {}, { callId })));
  target.log("outside");
  expect(lines).toEqual([
    ["a", "info", "one of 2 { page: 3 }"],
    ["b", "info", "one of 2 { page: 3 }"],
    ["a", "error", "gone"],
    ["b", "error", "gone"],
  ]);
  expect(printed).toHaveLength(5);
  expect(printed[0]).toEqual(["%s of %d", "one", 2, { page: 3 }]);
});

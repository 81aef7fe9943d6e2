import { Tool, ToolRegistry } from "@toolrack/core";
import { expect, it } from "vitest";
import { Metrics } from "./metrics.ts";

it("names the tools that are called first, and counts all others together, however many there are", async () => {
  const registry = new ToolRegistry();
  const metrics = new Metrics();
  registry.subscribe(metrics.listen, ["record"]);
  for (let n = 0; n < 1_200; n++) {
    const shape = { name: `tool_${n}`, description: "Says so.", parameters: { type: "object" } } as const;
    registry.register(Tool.define({ ...shape, execute: async () => "so" }));
    await registry.execute(`tool_${n}`, {});
  }
  await registry.execute("tool_7", {});
  const text = metrics.render(
    {
      ...{ activeCalls: 0, failedFiles: 0, feedReaders: 0, feedDropped: 0, recordFailures: 0, usage: [] },
      ...{
        tools: { enabled: 1_200, disabled: 0 },
        held: { records: 0, bytes: 0 },
        log: { held: 0, lost: 0 },
      },
    },
    () => true,
  );
  metrics.close();
  const counted = [...text.matchAll(/^toolrack_calls_total\{tool="(.*)",status="completed"\} (\d+)$/gm)];
  expect(counted).toHaveLength(1_001);
  expect(counted[7]?.slice(1)).toEqual(["tool_7", "2"]);
  expect(counted.at(-1)?.slice(1)).toEqual(["(other)", "200"]);
});

import { expect, test } from "vitest";
import { ToolRegistry } from "../registry/registry.ts";
import { define } from "../tool/define.ts";
import type { RackEvent } from "./events.ts";

type StateEvent = Extract<RackEvent, { type: "state" }>;

test("an event tells the state of its moment, also when it is read long after", async () => {
  const registry = new ToolRegistry({ secrets: () => ["hidden-value"] });
  registry.register(
    define({
      name: "says",
      description: "Says what it does.",
      parameters: { type: "object", properties: { text: { type: "string" } } },
      execute: async ({ input, metadata }) => {
        metadata({ title: "half way", metadata: { step: 1 } });
        return `did ${input.text}`;
      },
    }),
  );
  const events: StateEvent[] = [];
  registry.subscribe((event) => void (event.type === "state" && events.push(event)));
  await registry.execute("says", { text: "hidden-value" }, { callId: "one" });
  expect(events.map(({ status }) => status)).toEqual(["pending", "running", "running", "completed"]);
  const [pending, running, titled, completed] = events.map(({ state }) => state);
  const input = { text: "[redacted]" };
  expect(pending).toEqual({ status: "pending", input });
  expect(running).toEqual({ status: "running", input, time: { start: expect.any(Number) } });
  expect(titled).toMatchObject({ status: "running", title: "half way", metadata: { step: 1 } });
  expect(completed).toMatchObject({ status: "completed", input, output: "did [redacted]" });
  expect(JSON.parse(JSON.stringify(events[0]))).toMatchObject({
    type: "state",
    callId: "one",
    state: pending,
  });
});

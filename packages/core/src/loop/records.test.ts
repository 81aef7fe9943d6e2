import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Tool, ToolRegistry } from "../index.ts";
import type { ToolMetadata } from "../tool/types.ts";
import { type RecalledCall, recallCalls } from "./records.ts";

function rack(metadata: ToolMetadata = {}, answer: () => unknown = () => "same") {
  const registry = new ToolRegistry();
  registry.register(
    Tool.define({
      name: "look",
      parameters: z.object({ at: z.string(), note: z.string().optional() }),
      metadata,
      execute: async () => answer(),
    }),
  );
  const calls: RecalledCall[] = [];
  registry.subscribe((event) => {
    // As a store keeps it: plain JSON, whole milliseconds.
    if (event.type === "record")
      calls.push({ ...JSON.parse(JSON.stringify({ record: event.record, result: event.result })), metadata });
  });
  return { registry, calls };
}

const session = { sessionID: "s", sessionCaller: "team" };

describe("a session that goes on in another process", () => {
  it.each<[string, ToolMetadata, () => unknown]>([
    ["a text", {}, () => "same"],
    ["JSON", { readOnly: true }, () => ({ found: ["a", "b"] })],
    ["the time of day", {}, () => `nothing at ${new Date().toISOString()}`],
    [
      "an error",
      {},
      () => {
        throw new Error("no such place");
      },
    ],
    ["a key of its own", { loop: { key: ["at"] } }, () => "same"],
    [
      "pictures",
      {},
      () => ({
        content: [
          { type: "text", text: "see" },
          { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" },
        ],
      }),
    ],
  ])("is judged as if it had stayed: %s", async (_what, metadata, answer) => {
    const input = (turn: number) => ({ at: "x", ...(metadata.loop ? { note: `${turn}` } : {}) });
    const stayed = rack(metadata, answer);
    const left = rack(metadata, answer);
    const verdicts = { stayed: [] as unknown[], moved: [] as unknown[] };
    for (let turn = 0; turn < 7; turn++) {
      await stayed.registry.execute("look", input(turn), session);
      verdicts.stayed.push(stayed.calls.at(-1)?.record.flags?.loop?.action);
      const next = rack(metadata, answer);
      next.registry.restoreLoopState("s", recallCalls(left.calls), "team");
      await next.registry.execute("look", input(turn), session);
      left.calls.push(...next.calls);
      verdicts.moved.push(next.calls.at(-1)?.record.flags?.loop?.action);
    }
    expect(verdicts.moved).toEqual(verdicts.stayed);
    expect(verdicts.stayed).toContain("block");
  });

  it("is not held back for what says nothing about the model", async () => {
    const { registry, calls } = rack({}, () => {
      throw Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), { code: "ECONNREFUSED" });
    });
    for (let turn = 0; turn < 6; turn++) await registry.execute("look", { at: "x" }, session);
    expect(recallCalls(calls).entries).toEqual([]);
    expect(recallCalls(calls.map((call) => ({ ...call, metadata: { loop: false } })))).toMatchObject({
      total: 0,
    });
    const key = () => {
      throw new Error("unreadable");
    };
    expect(recallCalls(calls.map((call) => ({ ...call, metadata: { loop: { key } } }))).total).toBe(0);
  });
});

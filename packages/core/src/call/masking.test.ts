import { describe, expect, it } from "vitest";
import { Tool, ToolRegistry } from "../index.ts";
import type { RackEvent } from "./events.ts";

const secret = "hunter2-very-secret";
const none = { type: "object", properties: {} };

function rack(execute: (context: { call: (name: string) => Promise<{ content: string }> }) => unknown) {
  const registry = new ToolRegistry({
    secrets: () => [secret, "another-secret", "third-secret", "4th-secret"],
  });
  registry.register(
    Tool.define({ name: "tells", description: "Tells.", parameters: none, execute: execute as never }),
  );
  const events: RackEvent[] = [];
  registry.subscribe((event) => events.push(event));
  return { registry, events };
}

describe("a known secret in a result", () => {
  it.each<[string, () => unknown]>([
    ["text", () => `it is ${secret}!`],
    ["JSON", () => ({ deep: [{ it: secret }], [secret]: 1 })],
    [
      "blocks",
      () => ({
        content: [
          { type: "text", text: secret },
          { type: "resource", resource: { uri: "a:b", text: secret } },
        ],
      }),
    ],
    [
      "an attachment",
      () => ({
        content: "x",
        type: "text",
        attachments: [{ type: "file", mime: "text/plain", url: `data:text/plain,${secret}` }],
      }),
    ],
    ["metadata", () => ({ output: "x", metadata: { secret_place: `at ${secret}` } })],
    [
      "what is thrown",
      () => {
        throw new Error(`no entry with ${secret}`, { cause: new Error(secret) });
      },
    ],
    ["an error that is returned", () => ({ success: false, error: `bad ${secret}` })],
    ["a long text", () => `${"x".repeat(60_000)}${secret}${"y".repeat(60_000)}`],
  ])("is masked in the answer, in every event and in what is kept: %s", async (_, execute) => {
    const { registry, events } = rack(execute);
    const result = await registry.execute("tells", {}, { callId: "one" });
    for (const shown of [
      result,
      events,
      registry.readResult("one", { limit: 1e9 }),
      registry.getState("one"),
    ]) {
      expect(JSON.stringify(shown)).not.toContain(secret);
    }
    expect(JSON.stringify([result, registry.readResult("one", { limit: 1e9 })])).toContain("[redacted]");
  });

  it("reaches the tool that asked for it, and nobody who is told of that", async () => {
    const seen: string[] = [];
    const { registry, events } = rack(() => secret);
    registry.register(
      Tool.define({
        name: "uses",
        description: "Uses.",
        parameters: none,
        execute: async ({ call }) => {
          seen.push((await call("tells", {})).content);
          return "used";
        },
      }),
    );
    await registry.execute("uses", {});
    expect(seen).toEqual([secret]);
    expect(JSON.stringify(events)).not.toContain(secret);
  });

  it("is looked for anew when the host learns of another", async () => {
    const secrets: string[] = [];
    const registry = new ToolRegistry({ secrets: () => secrets });
    registry.register(
      Tool.define({ name: "tells", description: "Tells.", parameters: none, execute: async () => secret }),
    );
    expect((await registry.execute("tells", {})).content).toBe(secret);
    secrets.push(secret);
    expect((await registry.execute("tells", {})).content).toBe("[redacted]");
  });
});

it("masks a value that is no result as one, and gives it back as it is when there is nothing to mask", () => {
  const { registry } = rack(() => "");
  expect(registry.mask({ text: `it is ${secret}`, count: 1 })).toEqual({
    text: "it is [redacted]",
    count: 1,
  });
  const plain = { text: "it is nothing" };
  expect(registry.mask(plain)).toBe(plain);
});

it("keeps secrets of the arguments out of the recorded result, and gives them back to who sent them", async () => {
  const { registry, events } = rack(() => "unused");
  registry.register(
    Tool.define({
      name: "login",
      description: "Logs in.",
      parameters: { type: "object", properties: { password: { type: "string" } } },
      execute: async ({ input }) => `wrong: ${(input as { password: string }).password}`,
    }),
  );
  const { content } = await registry.execute("login", { password: "my-own-password" });
  expect(content).toBe("wrong: my-own-password");
  expect(JSON.stringify(events)).not.toContain("my-own-password");
});

it("copies nothing of a result that holds no secret", async () => {
  const structured = { a: [1, { b: "c" }] };
  const { registry, events } = rack(() => structured);
  const result = await registry.execute("tells", {});
  const record = events.find((event) => event.type === "record");
  expect(record?.type === "record" && record.result).toBe(result);
});

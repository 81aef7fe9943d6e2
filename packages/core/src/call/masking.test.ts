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

describe("a mask over what a tool gives back", () => {
  function answers(value: unknown, secrets: readonly string[]) {
    const registry = new ToolRegistry({ secrets: () => secrets });
    registry.register(
      Tool.define({ name: "tells", description: "Tells.", parameters: none, execute: async () => value }),
    );
    return registry.execute("tells", {});
  }

  it("keeps JSON valid and treats the text and the structured value alike", async () => {
    const value = { rows: 12345678, list: [-123456789, "id 12345678"], "12345678": true, more: 1.5 };
    const { content, structured } = await answers(value, ["12345678"]);
    expect(structured).toEqual({
      rows: "[redacted]",
      list: ["[redacted]", "id [redacted]"],
      "[redacted]": true,
      more: 1.5,
    });
    expect(JSON.parse(content)).toEqual(structured);
  });

  it("masks a single number as JSON", async () => {
    expect(await answers(12345678, ["12345678"])).toMatchObject({
      content: '"[redacted]"',
      structured: "[redacted]",
    });
    expect((await answers("12345678", ["12345678"])).content).toBe("[redacted]");
  });

  it("keeps the layout of JSON that a tool wrote as text, and the numbers beside the secret", async () => {
    const text = '{\n  "id": 12345678901234567890,\n  "note": "say \\"hunter2!\\"",\n  "n": 87654321\n}';
    const { content } = await answers(text, ["hunter2!", "87654321"]);
    expect(content).toBe(
      '{\n  "id": 12345678901234567890,\n  "note": "say \\"[redacted]\\"",\n  "n": "[redacted]"\n}',
    );
  });

  it("masks JSON inside a text of JSON, and bytes as a whole", async () => {
    const data = Buffer.from("the key is hunter2!").toString("base64");
    const value = { inner: JSON.stringify({ n: 12345678 }), data };
    const { content, structured } = await answers(value, ["12345678", data.slice(4, 20)]);
    expect(structured).toEqual({ inner: '{"n":"[redacted]"}', data: "W3JlZGFjdGVkXQ==" });
    expect(JSON.parse(content)).toEqual(structured);
  });

  it("hides a whole value when the secret is JSON itself", async () => {
    const secret = '{"user":"ann","pin":1234}';
    const { content, structured } = await answers({ key: JSON.parse(secret) }, [secret]);
    expect([content, structured]).toEqual(['"[redacted]"', "[redacted]"]);
    expect(await answers({ key: secret, n: 1 }, [secret])).toMatchObject({
      content: JSON.stringify({ key: '"[redacted]"', n: 1 }),
      structured: { key: '"[redacted]"', n: 1 },
    });
  });

  it("never touches the envelope", async () => {
    const words = [
      "resource",
      "mimeType",
      "text/plain",
      "completed",
      "execution_failed",
      "ToolExecutionError",
    ];
    const block = { type: "resource", resource: { uri: "a:b", mimeType: "text/plain", text: "a resource" } };
    const result = await answers({ content: [block, { type: "text", text: "text/plain" }] }, words);
    expect(result.type).toBe("text");
    expect(result.blocks).toEqual([
      { type: "resource", resource: { uri: "a:b", mimeType: "text/plain", text: "a [redacted]" } },
      { type: "text", text: "[redacted]" },
    ]);
    const registry = new ToolRegistry({ secrets: () => [...words, "fails_now", "toolName"] });
    const fails = () => Promise.reject(new Error("no resource"));
    registry.register(
      Tool.define({ name: "fails_now", description: "Fails.", parameters: none, execute: fails }),
    );
    const events: RackEvent[] = [];
    registry.subscribe((event) => events.push(event));
    const { error } = await registry.execute("fails_now", {});
    const record = events.find((event) => event.type === "record");
    const recorded = record?.type === "record" ? record.record.error : undefined;
    for (const shown of [error, recorded]) {
      expect(shown).toMatchObject({ name: "ToolExecutionError", details: { toolName: "fails_now" } });
      expect(shown?.code).not.toContain("[redacted]");
      expect(shown?.message).toContain("no [redacted]");
    }
  });

  it("never masks the state of a call", async () => {
    const registry = new ToolRegistry({ secrets: () => ["completed"] });
    registry.register(
      Tool.define({
        name: "tells",
        description: "Tells.",
        parameters: none,
        execute: async () => "completed!",
      }),
    );
    await registry.execute("tells", {}, { callId: "one" });
    expect(registry.getState("one")).toMatchObject({ status: "completed", output: "[redacted]!" });
  });
});

describe("the environment of a tool", () => {
  const shows = Tool.define({
    name: "shows",
    description: "Shows.",
    parameters: none,
    execute: async ({ env }) => ({ ...env }),
  });

  it("comes from the rack, in nested calls too, unless the caller gives another", async () => {
    const registry = new ToolRegistry({
      environment: ({ name }) => (name === "shows" ? Promise.resolve({ REGION: "eu" }) : undefined),
    });
    const asks = Tool.define({
      name: "asks",
      description: "Asks.",
      parameters: none,
      execute: async ({ call, env }) => ({ own: { ...env }, other: (await call("shows", {})).structured }),
    });
    registry.register(shows);
    registry.register(asks);
    expect((await registry.execute("shows", {})).structured).toEqual({ REGION: "eu" });
    expect((await registry.execute("asks", {})).structured).toEqual({ own: {}, other: { REGION: "eu" } });
    expect((await registry.execute("shows", {}, { env: { A: "b" } })).structured).toEqual({ A: "b" });
  });

  it("that cannot be had keeps the tool from running", async () => {
    const registry = new ToolRegistry({ environment: () => Promise.reject(new Error("KEY is not set")) });
    registry.register(shows);
    expect(await registry.execute("shows", {})).toMatchObject({ type: "error", content: "KEY is not set" });
  });
});

it("masks what is secret by the name of an argument wherever the arguments of the chain repeat it", async () => {
  const registry = new ToolRegistry();
  const none = { type: "object" } as const;
  registry.register(Tool.define({ name: "inner", parameters: none, execute: ({ input }) => input }));
  registry.register(
    Tool.define({
      name: "outer",
      parameters: none,
      execute: async ({ input, call }) =>
        (await call("inner", { query: `by ${(input as { password: string }).password}` })).content,
    }),
  );
  const told: unknown[] = [];
  registry.subscribe((event) => {
    if (event.type === "record") told.push([event.record.parameters, event.result.content]);
  });
  await registry.execute("outer", { note: "it is hunter2hunter2", password: "hunter2hunter2" });
  expect(told).toEqual([
    [{ query: "by [redacted]" }, '{"query":"by [redacted]"}'],
    [{ note: "it is [redacted]", password: "[redacted]" }, '{"query":"by [redacted]"}'],
  ]);
});

it("masks a secret of the arguments in every form that the host names", async () => {
  const registry = new ToolRegistry({
    secretForms: (secret) => [secret, JSON.stringify(secret).slice(1, -1), btoa(secret)],
  });
  const parameters = { type: "object" } as const;
  registry.register(
    Tool.define({
      name: "leaks",
      parameters,
      execute: ({ input }) => {
        throw new Error(`bad: ${JSON.stringify(input)} ${btoa((input as { password: string }).password)}`);
      },
    }),
  );
  const told: string[] = [];
  registry.subscribe((event) => {
    if (event.type === "record") told.push(JSON.stringify([event.record, event.result]));
  });
  await registry.execute("leaks", { password: 'a"b\\c\nline' });
  expect(told).toHaveLength(1);
  expect(told[0]).not.toMatch(/line|YSJi/);
});

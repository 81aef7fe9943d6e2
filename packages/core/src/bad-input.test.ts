import { afterEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { BusinessError } from "./error/tool-error.ts";
import { Tool, ToolRegistry } from "./index.ts";

const unhandled: unknown[] = [];
process.on("unhandledRejection", (reason) => unhandled.push(reason));
afterEach(() => expect(unhandled).toEqual([]));

function rackWith(execute: () => unknown) {
  const registry = new ToolRegistry();
  registry.register(Tool.define({ name: "odd", parameters: z.object({}), execute }));
  return registry;
}

function echo() {
  const registry = new ToolRegistry();
  registry.register(
    Tool.define({
      name: "echo",
      parameters: { type: "object", properties: { text: { type: "string" }, data: {} }, required: ["text"] },
      execute: async ({ input }) => input,
    }),
  );
  return registry;
}

describe("arguments", () => {
  it.each([
    ["a number", 7, "must be one JSON object"],
    ["a list", ["text"], "must be one JSON object"],
    ["a function", () => 1, "must be one JSON object"],
    ["a list as text", "[1,2]", "must be one JSON object"],
    ["half of a text", "not json at all", "not valid JSON"],
    ["nothing", undefined, "text"],
    ["null", null, "text"],
    ["an empty text", "", "text"],
  ])("%s is refused, recorded, and never run as {}", async (_, input, expected) => {
    const registry = echo();
    const result = await registry.execute("echo", input);
    expect(result.error?.code).toBe("invalid_arguments");
    expect(result.content).toContain(expected);
    expect(registry.getCallHistory(1)).toMatchObject([{ toolName: "echo", status: "error" }]);
  });

  it("megabytes of text are refused above the limit and taken below it", async () => {
    const registry = echo();
    const large = JSON.stringify({ text: "x".repeat(9 * 1024 * 1024) });
    expect((await registry.execute("echo", large)).content).toMatch(/characters long; 8388608 are allowed/);
    const smaller = JSON.stringify({ text: "x".repeat(1024 * 1024) });
    expect(await registry.execute("echo", smaller)).toMatchObject({
      type: "text",
      metadata: { truncated: { total: expect.any(Number) } },
    });
  });

  it("nesting that no stack can hold is an answer, not a crash", async () => {
    const deep = `${'{"text":"a","data":'.repeat(1)}${"[".repeat(200_000)}${"]".repeat(200_000)}}`;
    const registry = echo();
    const result = await registry.execute("echo", deep);
    expect(["error", "json"]).toContain(result.type);
    expect(registry.getCallHistory(1)).toHaveLength(1);
  });

  it("__proto__ pollutes nothing and reaches no tool", async () => {
    const registry = echo();
    const result = await registry.execute(
      "echo",
      '{"text":"a","__proto__":{"polluted":true},"data":{"__proto__":{"x":1}}}',
    );
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
    expect(result.structured).toEqual({ text: "a", data: {} });
    expect(Object.hasOwn((result.structured as { data: object }).data, "__proto__")).toBe(false);
  });

  it("slips of a model are mended when the result fits, and the record says so", async () => {
    const registry = echo();
    const result = await registry.execute("echo", "{text: 'hi',}", { callId: "c1" });
    expect(result.structured).toEqual({ text: "hi" });
    expect(result.metadata).toMatchObject({ repaired: true });
    expect(registry.getCallHistory(1)[0]?.flags).toMatchObject({ repaired: true });
    expect((await registry.execute("echo", '"{\\"text\\":\\"twice\\"}"')).structured).toEqual({
      text: "twice",
    });
  });

  it("text of which no argument is left never runs as {}", async () => {
    const registry = new ToolRegistry();
    const parameters = z.object({ text: z.string().optional() });
    registry.register(Tool.define({ name: "ping", parameters, execute: async () => "ran" }));
    for (const text of ["{", "{bad", "{query:", '{"other":1', "{text"]) {
      expect((await registry.execute("ping", text)).error?.code, text).toBe("invalid_arguments");
    }
    for (const text of ["", "{}", '"{}"', "{text: 'hi'"]) {
      expect((await registry.execute("ping", text)).content, text).toBe("ran");
    }
  });

  it("a dangerous tool never runs on mended arguments", async () => {
    const registry = new ToolRegistry({ approval: { decide: () => "allow" } });
    registry.register(
      Tool.define({
        name: "wipe",
        parameters: z.object({ path: z.string() }),
        metadata: { dangerous: true },
        execute: async () => "wiped",
      }),
    );
    expect((await registry.execute("wipe", "{path: '/'}")).error?.code).toBe("invalid_arguments");
    expect((await registry.execute("wipe", '{"path":"/"}')).content).toBe("wiped");
  });

  it("a context that makes no sense costs neither the answer nor the record", async () => {
    const registry = echo();
    expect((await registry.execute("echo", { text: "a" }, { signal: {} as never })).type).toBe("json");
    expect((await registry.execute(Object.create(null), {})).error?.code).toBe("tool_not_found");
    expect((await registry.execute("echo", { text: "a" }, null as never)).type).toBe("json");
    const odd = await registry.execute("echo", { text: "a" }, { callId: {} as never });
    expect(odd.error?.code).toBe("invalid_arguments");
    expect(registry.getCallHistory(9)).toHaveLength(4);
    expect(registry.activeCalls()).toEqual([]);
  });

  it("a name that is no text is simply not found", async () => {
    const result = await echo().execute(undefined as unknown as string, {});
    expect(result.error?.code).toBe("tool_not_found");
  });
});

describe("schemas", () => {
  it("an invalid one is refused when the tool is defined", () => {
    const define = (parameters: object) => Tool.define({ name: "a", parameters, execute: async () => 1 });
    expect(() => define({ type: "object", properties: { a: { type: "strin" } } })).toThrow(/strin/);
    expect(() => define({ type: "object", required: "a" })).toThrow(/required/);
    expect(() => define({ $ref: "https://example.com/schema.json" })).toThrow(/example\.com/);
  });

  it("a recursive one validates to any depth", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "tree",
        parameters: {
          type: "object",
          properties: { value: { type: "number" }, children: { type: "array", items: { $ref: "#" } } },
          required: ["value"],
        },
        execute: async () => "ok",
      }),
    );
    expect(
      (await registry.execute("tree", { value: 1, children: [{ value: 2, children: [] }] })).content,
    ).toBe("ok");
    expect((await registry.execute("tree", { value: 1, children: [{ value: "x" }] })).content).toContain(
      "children[0].value",
    );
  });
});

describe("tools", () => {
  it.each([
    ["a text", "boom", "boom"],
    ["undefined", undefined, "threw undefined"],
    ["null", null, "threw null"],
    ["a number", 42, "threw 42"],
    ["a bare object", { reason: 1 }, '{"reason":1}'],
    ["an object without prototype", Object.create(null), "cannot be printed"],
    [
      "a proxy that throws",
      new Proxy(
        {},
        {
          get() {
            throw new Error("no");
          },
        },
      ),
      "cannot be printed",
    ],
  ])("throwing %s gives one error", async (_, thrown, expected) => {
    const registry = rackWith(async () => {
      throw thrown;
    });
    const result = await registry.execute("odd", {});
    expect(result.error?.code).toBe("execution_failed");
    expect(result.content).toContain(expected);
    expect(registry.getCallHistory(1)[0]?.status).toBe("error");
  });

  it.each([
    ["a frozen error of ours", () => Object.freeze(new BusinessError("cold"))],
    [
      "something that only looks like one",
      () => ({ [Symbol.for("toolrack.ToolError")]: true, toolName: "odd" }),
    ],
    ["an error whose data JSON cannot hold", () => new BusinessError("cold", { data: { n: 1n } })],
  ])("throwing %s ends the call like any other", async (_, make) => {
    const registry = rackWith(async () => {
      throw make();
    });
    const result = await registry.execute("odd", {});
    expect(result.type).toBe("error");
    expect(() => JSON.stringify(result)).not.toThrow();
    expect(registry.getCallHistory(1)).toHaveLength(1);
    expect(registry.activeCalls()).toEqual([]);
  });

  it("throwing the same error object again and again reports each call by itself", async () => {
    const shared = new BusinessError("not logged in");
    const registry = new ToolRegistry();
    for (const name of ["a", "b"]) {
      registry.register(
        Tool.define({
          name,
          parameters: { type: "object", properties: { n: {} } },
          execute: async () => {
            throw shared;
          },
        }),
      );
    }
    for (const [name, n] of [
      ["a", 1],
      ["a", 2],
      ["b", 3],
    ] as const) {
      const { error } = await registry.execute(name, { n });
      expect(error).toMatchObject({
        code: "business_error",
        message: "not logged in",
        details: { toolName: name, input: { n } },
      });
    }
  });

  it("results and states are plain JSON, whatever the tool put into them", async () => {
    const circular: Record<string, unknown> = { n: 1n };
    circular.self = circular;
    for (const value of [
      { content: "x", type: "text", structured: circular, metadata: circular },
      { content: [{ type: "text", text: "x" }], structuredContent: circular, _meta: circular },
      { title: "t", output: "x", metadata: circular },
      new Map([["a", 1]]),
      new Set([1, 2]),
    ]) {
      const registry = new ToolRegistry();
      registry.register(
        Tool.define({
          name: "odd",
          parameters: {},
          execute: async ({ metadata }) => {
            metadata({ metadata: circular });
            return value;
          },
        }),
      );
      const result = await registry.execute("odd", {}, { callId: "c" });
      expect(() =>
        JSON.stringify([result, registry.getState("c"), registry.getCallHistory(1)]),
      ).not.toThrow();
    }
    expect((await rackWith(async () => new Map([["a", 1]])).execute("odd", {})).structured).toEqual({ a: 1 });
    expect((await rackWith(async () => new Set([1, 2])).execute("odd", {})).structured).toEqual([1, 2]);
  });

  it.each([
    [
      "a generator",
      () =>
        (function* () {
          yield 1;
        })(),
    ],
    ["a stream", () => new ReadableStream()],
    ["a response", () => new Response("body")],
  ])("returning %s is an error that says what to do", async (_, make) => {
    expect((await rackWith(async () => make()).execute("odd", {})).content).toContain(
      "Read it, and return what it gave",
    );
  });

  it("a hundred calls with megabytes of arguments are not kept in memory", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "big",
        parameters: { type: "object", properties: { text: { type: "string" } } },
        execute: async ({ input }) => String(input.text?.length),
      }),
    );
    for (let index = 0; index < 3; index++) {
      const text = JSON.stringify({ text: `${index}`.repeat(2_000_000) });
      expect((await registry.execute("big", text)).content).toBe("2000000");
    }
    const records = registry.getCallHistory(3);
    expect(JSON.stringify(records).length).toBeLessThan(10_000);
    expect(new Set(records.map((record) => record.parametersHash)).size).toBe(3);
  });

  it("rejecting after it was timed out changes nothing and is not unhandled", async () => {
    let reject: ((reason: Error) => void) | undefined;
    const registry = new ToolRegistry({ timeout: 20 });
    registry.register(
      Tool.define({
        name: "late",
        parameters: z.object({}),
        execute: () =>
          new Promise((_, no) => {
            reject = no;
          }),
      }),
    );
    const result = await registry.execute("late", {}, { callId: "c1" });
    const state = registry.getState("c1");
    reject?.(new Error("much too late"));
    await vi.waitFor(() => expect(result.error?.code).toBe("timed_out"));
    expect(registry.getState("c1")).toEqual(state);
  });

  it("a child call that nobody awaits fails without crashing the process", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "parent",
        parameters: z.object({}),
        execute: async ({ call }) => {
          call("no_such_tool");
          return "done";
        },
      }),
    );
    expect((await registry.execute("parent", {})).content).toBe("done");
    await vi.waitFor(() => expect(registry.getCallHistory(10)).toHaveLength(2));
  });

  it("never settling leaves nothing behind once it is cancelled", async () => {
    const registry = rackWith(() => new Promise(() => {}));
    const call = registry.execute("odd", {}, { callId: "c1" });
    await vi.waitFor(() => expect(registry.activeCalls()).toHaveLength(1));
    expect(registry.cancel("c1", "enough")).toBe(true);
    expect((await call).error?.code).toBe("cancelled");
    expect(registry.activeCalls()).toEqual([]);
  });

  it.each([
    ["undefined", undefined, ""],
    ["null", null, "null"],
    ["a BigInt", 12n, "12"],
    ["a BigInt inside", { n: 12n }, '{"n":"12"}'],
    ["a symbol", Symbol("s"), "Symbol(s)"],
    ["false", false, "false"],
    ["a date", new Date(0), '"1970-01-01T00:00:00.000Z"'],
  ])("returning %s is a result", async (_, value, content) => {
    expect(await rackWith(async () => value).execute("odd", {})).toMatchObject({ content });
  });

  it("returning a circular object is a result", async () => {
    const circular: Record<string, unknown> = { name: "loop" };
    circular.self = circular;
    const result = await rackWith(async () => circular).execute("odd", {});
    expect(result.structured).toEqual({ name: "loop", self: "[circular]" });
  });

  it("returning something that throws when it is read is an error", async () => {
    const hostile = {
      get content(): never {
        throw new Error("do not look");
      },
    };
    expect((await rackWith(async () => hostile).execute("odd", {})).content).toContain("do not look");
  });

  it("50 MB of text in one line reach the model as a part and can be read in pages", async () => {
    const text = `start ${"x".repeat(50 * 1024 * 1024)} end`;
    const registry = rackWith(async () => text);
    const result = await registry.execute("odd", {}, { callId: "big", sessionID: "s" });
    expect(result.content.length).toBeLessThan(51_000);
    expect(result.content).toMatch(/^start x/);
    expect(result.content).toMatch(/x end$/);
    expect(result.content).toContain("kept as call big");
    expect(result.metadata?.truncated).toMatchObject({ total: text.length });
    const page = registry.readResult("big", { offset: text.length - 4, limit: 100 });
    expect(page).toEqual({ text: " end", offset: text.length - 4, total: text.length });
    expect(registry.readResult("big")?.nextOffset).toBe(20_000);
  });

  it("an error text of megabytes is cut as well", async () => {
    const registry = rackWith(async () => {
      throw new Error("x".repeat(5_000_000));
    });
    const result = await registry.execute("odd", {});
    expect(result.content.length).toBeLessThan(60_000);
    expect(result.error?.message.length).toBeLessThan(11_000);
  });
});

describe("listeners", () => {
  it("one that cancels a call as it starts keeps the tool from running", async () => {
    let ran = false;
    const registry = rackWith(async () => {
      ran = true;
      return "ran";
    });
    registry.subscribe((event) => {
      if (event.type === "state" && event.state.status === "running") registry.cancel(event.callId);
    });
    expect((await registry.execute("odd", {})).error?.code).toBe("cancelled");
    expect(ran).toBe(false);
  });

  it("secrets that cannot be told cost no record", async () => {
    const registry = new ToolRegistry({
      secrets: () => {
        throw new Error("vault closed");
      },
    });
    registry.register(Tool.define({ name: "t", parameters: {}, execute: async () => "ok" }));
    const seen: string[] = [];
    registry.subscribe((event) => seen.push(event.type));
    expect((await registry.execute("t", {})).content).toBe("ok");
    expect(seen.at(-1)).toBe("record");
  });

  it("one that throws or rejects disturbs neither the call nor other listeners", async () => {
    const registry = rackWith(async () => "fine");
    const seen: string[] = [];
    registry.subscribe(() => {
      throw new Error("listener");
    });
    registry.subscribe((async () => {
      throw new Error("async listener");
    }) as () => void);
    registry.subscribe((event) => seen.push(event.type));
    const result = await registry.execute(
      "odd",
      {},
      {
        metadata: () => {
          throw new Error("callback");
        },
      },
    );
    expect(result.content).toBe("fine");
    expect(seen).toEqual(["state", "state", "state", "record"]);
  });
});

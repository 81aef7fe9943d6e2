import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type RackEvent, Tool, ToolRegistry } from "../index.ts";

function tool(name: string, metadata: Tool.Metadata = {}, description = "") {
  return Tool.define({ name, description, parameters: z.object({}), metadata, execute: async () => name });
}

describe("ToolRegistry", () => {
  it("finds a tool by name, by alias and in any case", async () => {
    const registry = new ToolRegistry();
    registry.register({ ...tool("read_file"), aliases: ["cat", "fs.read"] });
    for (const name of ["read_file", "READ_FILE", "cat", "Cat", "fs.read"])
      expect(registry.get(name)?.name).toBe("read_file");
    expect((await registry.execute("cat", {})).content).toBe("read_file");
    expect(registry.get("dog")).toBeUndefined();
  });

  it("refuses an alias that is taken and then has changed nothing", () => {
    const registry = new ToolRegistry();
    registry.register(tool("cat"));
    expect(() => registry.register({ ...tool("read_file"), aliases: ["CAT"] })).toThrow(/"cat" is taken/);
    expect(registry.get("read_file")).toBeUndefined();
    expect(registry.getStats().totalTools).toBe(1);
  });

  it("gives an illegal name a legal one, and keeps the old one as alias and for people", async () => {
    const registry = new ToolRegistry();
    registry.register(tool("SearXNG Search/网页搜索"));
    const [info] = registry.getAll();
    expect(info?.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    expect(info?.displayName).toBe("SearXNG Search/网页搜索");
    expect((await registry.execute("SearXNG Search/网页搜索", {})).type).toBe("text");
  });

  it("keeps category and tag indexes in step with every change", () => {
    const registry = new ToolRegistry();
    registry.register(tool("a", { category: "file", tags: ["x", "y"] }));
    registry.register(tool("b", { category: "file", tags: ["y"] }));
    const names = (infos: Tool.Info[]) => infos.map((info) => info.name);
    expect(names(registry.list("file"))).toEqual(["a", "b"]);
    expect(names(registry.findByTag("y"))).toEqual(["a", "b"]);

    registry.update("a", { metadata: { category: "net", tags: ["z"] } });
    expect(names(registry.list("file"))).toEqual(["b"]);
    expect(names(registry.list("net"))).toEqual(["a"]);
    expect(names(registry.findByTag("x"))).toEqual([]);

    registry.disable("b");
    expect(names(registry.list("file"))).toEqual([]);
    expect(names(registry.list())).toEqual(["a"]);
    expect(names(registry.getAll())).toEqual(["a", "b"]);
    expect(registry.getStats()).toEqual({ totalTools: 2, disabledTools: 1, categories: { net: 1 } });
    expect(names(registry.search("b"))).toEqual([]);

    registry.enable("b");
    expect(names(registry.findByTag("y"))).toEqual(["b"]);
    expect(registry.unregister("b")).toBe(true);
    expect(registry.unregister("b")).toBe(false);
    expect(names(registry.findByTag("y"))).toEqual([]);
    expect(registry.getStats()).toEqual({ totalTools: 1, disabledTools: 0, categories: { net: 1 } });
  });

  it("search follows register, update, disable and unregister", () => {
    const registry = new ToolRegistry();
    registry.register(tool("weather", {}, "Tells the weather forecast."));
    registry.register(tool("stocks", {}, "Tells the price of a stock."));
    expect(registry.search("forecast")[0]?.name).toBe("weather");
    registry.update("stocks", { description: "Gives a forecast of prices and a forecast of trends." });
    expect(registry.search("forecast").map((info) => info.name)).toContain("stocks");
    registry.disable("weather");
    expect(registry.search("weather forecast").map((info) => info.name)).toEqual(["stocks"]);
    registry.enable("weather");
    registry.unregister("stocks");
    expect(registry.search("forecast").map((info) => info.name)).toEqual(["weather"]);
  });

  it("a name that had to be shortened is found by what its author wrote, and not by the hash in it", () => {
    const registry = new ToolRegistry();
    const long = `export_${"very_".repeat(14)}quarterly_report`;
    registry.register(tool(long));
    registry.register(tool("other", {}, "something else"));
    const [found] = registry.search("quarterly report");
    expect(found?.aliases).toContain(long);
    const hash = /_([0-9a-f]{12})_/.exec(found?.name ?? "")?.[1];
    expect(hash).toBeDefined();
    expect(registry.search(`about ${hash} please`)).toEqual([]);
  });

  it("a snapshot never changes, whatever happens to the registry", () => {
    const registry = new ToolRegistry();
    registry.register(tool("a", { category: "c", tags: ["t"] }, "apples"));
    const before = registry.snapshot();
    registry.register(tool("b", { category: "c" }, "apples"));
    registry.update("a", { description: "pears" });
    registry.unregister("a");
    expect(before.getAll().map((info) => info.name)).toEqual(["a"]);
    expect(before.get("a")?.description).toBe("apples");
    expect(before.list("c")).toHaveLength(1);
    expect(before.findByTag("t")).toHaveLength(1);
    // Search follows the newest tools; an older snapshot finds those of them that it has.
    expect(before.search("apples").map((info) => info.name)).toEqual([]);
    expect(registry.search("apples").map((info) => info.name)).toEqual(["b"]);
    expect(registry.snapshot().version).toBeGreaterThan(before.version);
    expect(registry.snapshot()).toBe(registry.snapshot());
  });

  it("a call means the tool of the list that the caller was shown, unless it is off or gone since", async () => {
    const registry = new ToolRegistry();
    registry.register(tool("a"));
    const snapshot = registry.snapshot();
    registry.update("a", { execute: async () => "new version" });
    expect((await registry.execute("a", {})).content).toBe("new version");
    expect((await registry.execute("a", {}, { snapshot })).content).toBe("a");
    registry.register(tool("later"));
    registry.disable("a");
    expect((await registry.execute("a", {}, { snapshot })).error?.code).toBe("tool_disabled");
    registry.unregister("a");
    expect((await registry.execute("a", {}, { snapshot })).error?.code).toBe("tool_not_found");
  });

  it("a call under way ends on the version it started on", async () => {
    const registry = new ToolRegistry();
    let finish: (() => void) | undefined;
    const slow = Tool.define({
      name: "slow",
      parameters: z.object({}),
      execute: () =>
        new Promise<string>((resolve) => {
          finish = () => resolve("old");
        }),
    });
    registry.register(slow);
    const call = registry.execute("slow", {});
    registry.update("slow", { execute: async () => "new" });
    registry.unregister("slow");
    finish?.();
    expect((await call).content).toBe("old");
  });

  it("apply changes several tools in one step, and says which it could not hang up", () => {
    const registry = new ToolRegistry();
    for (const name of ["a", "b", "c"]) registry.register(tool(name));
    registry.disable("b");
    const versions: number[] = [];
    registry.subscribe((event) => event.type === "tools" && versions.push(event.version));
    const refused = registry.apply({
      remove: ["a", "b"],
      put: [tool("b", {}, "new"), tool("d"), tool("C"), { ...tool("e"), execute: 1 as never }],
    });
    expect(versions).toHaveLength(1);
    expect(registry.getAll().map((info) => info.name)).toEqual(["b", "c", "d"]);
    expect(registry.get("b")).toMatchObject({ description: "new", disabled: true });
    expect(refused.map(({ info }) => info.name)).toEqual(["C", "e"]);
    expect(refused[0]?.error.message).toContain('"c" is taken');
  });

  it("search knows neither what was removed nor what was taken back before it looked", () => {
    const registry = new ToolRegistry();
    for (const name of ["a", "b", "c"]) registry.register(tool(name, {}, "sunny weather"));
    const found = () => registry.search("weather", 10).map((info) => info.name);
    expect(found()).toHaveLength(3);
    registry.apply({ remove: ["a", "b", "c"], put: [tool("b", {}, "rainy weather"), tool("c", {}, "mail")] });
    expect(found()).toEqual(["b"]);
    registry.apply({ remove: ["b"], put: [tool("a", {}, "weather")] });
    registry.unregister("a");
    expect(found()).toEqual([]);
    registry.register(tool("a", {}, "weather of today"));
    registry.disable("a");
    expect(found()).toEqual([]);
    registry.enable("a");
    expect(found()).toEqual(["a"]);
  });

  it("apply lets two tools exchange names, and keeps the order", () => {
    const registry = new ToolRegistry();
    registry.register({ ...tool("x"), aliases: ["p"] });
    registry.register({ ...tool("y"), aliases: ["q"] });
    registry.register(tool("z"));
    const put = [
      { ...tool("x"), aliases: ["q"] },
      { ...tool("y"), aliases: ["p"] },
    ];
    expect(registry.apply({ remove: ["x", "y"], put })).toEqual([]);
    expect(registry.get("p")?.name).toBe("y");
    expect(registry.getAll().map((info) => info.name)).toEqual(["x", "y", "z"]);
  });

  it("is not led astray by lists that change after registering", () => {
    const registry = new ToolRegistry();
    const tags = ["x"];
    const permissions = ["p"];
    registry.register(tool("a", { tags, permissions }));
    tags[0] = "q";
    permissions.length = 0;
    expect(registry.get("a")?.metadata.permissions).toEqual(["p"]);
    registry.unregister("a");
    expect(registry.findByTag("x")).toEqual([]);
  });

  it("update checks like register, and changes nothing when it refuses", () => {
    const registry = new ToolRegistry();
    registry.register(tool("a"));
    for (const [updates, problem] of [
      [{ execute: 5 }, /no execute/],
      [{ name: "" }, /needs a name/],
      [{ parameters: { type: "nope" } }, /nope/],
      [{ metadata: { timeout: "50" } }, /timeout/],
    ] as const) {
      expect(() => registry.update("a", updates as never)).toThrow(problem);
      expect(() => registry.update("a", updates as never)).toThrow(
        expect.objectContaining({ name: "DefinitionError" }),
      );
    }
    expect(registry.get("a")?.name).toBe("a");
  });

  it("refuses settings that make no sense", () => {
    for (const settings of [
      { historyLimit: -1 },
      { historyLimit: 1.5 },
      { historyLimit: Number.NaN },
      { timeout: "5" as never },
      { maxContent: -1 },
    ]) {
      expect(() => new ToolRegistry(settings)).toThrow(/setting/);
    }
    expect(() => new ToolRegistry({ maxContent: Number.POSITIVE_INFINITY, historyLimit: 0 })).not.toThrow();
  });

  it("a snapshot cannot be used to get around what an operator has tightened since", async () => {
    const registry = new ToolRegistry();
    registry.register(tool("a"));
    const snapshot = registry.snapshot();
    registry.update("a", { metadata: { permissions: ["root"] } });
    expect((await registry.execute("a", {}, { snapshot })).error?.code).toBe("permission_denied");
    registry.update("a", { metadata: { dangerous: true } });
    expect((await registry.execute("a", {}, { snapshot })).error?.code).toBe("approval_denied");
  });

  it("names the nearest tools when a name is unknown", async () => {
    const registry = new ToolRegistry();
    expect((await registry.execute("anything", {})).content).toContain("no tools are registered");
    for (const name of ["read_file", "write_file", "weather"]) registry.register(tool(name));
    const result = await registry.execute("raed_file", {});
    expect(result.content).toContain('"read_file"');
    expect(result.error?.details?.suggestions).toContain("read_file");
    expect(() => registry.update("raed_file", {})).toThrow(/"read_file"/);
    expect(() => registry.require("raed_file")).toThrow(/"read_file"/);
    expect(registry.require("read_file").name).toBe("read_file");
  });

  it("names to who sees a part of it only what is in that part", () => {
    const registry = new ToolRegistry();
    for (const name of ["read_file", "read_files", "weather"]) registry.register(tool(name));
    const error = registry.notFound("read_fil", ({ name }) => name !== "read_file");
    expect(error.message).toBe('There is no tool named "read_fil". The nearest names are "read_files".');
    expect(error.data).toEqual({ suggestions: ["read_files"] });
    // One that is there and not for them is answered as one that is not there.
    expect(registry.notFound("zzz", ({ name }) => name === "weather").message).toContain(
      "one of the 1 names",
    );
    expect(registry.notFound("weather", () => false).message).toContain("this caller may use none");
  });

  it("what it hands out cannot be changed from outside", () => {
    const registry = new ToolRegistry();
    registry.register(tool("a", { tags: ["t"] }));
    const info = registry.get("a")!;
    expect(() => {
      (info as { name: string }).name = "b";
    }).toThrow();
    registry.getAll().pop();
    expect(registry.getAll()).toHaveLength(1);
  });

  it("says what is wrong with something that is not a tool", () => {
    const registry = new ToolRegistry();
    expect(() => registry.register(null as never)).toThrow(/made by Tool\.define/);
    expect(() => registry.register(Promise.resolve(tool("a")) as never)).toThrow(/await it/);
    expect(() => registry.register({ ...tool("a"), name: " " })).toThrow(/needs a name/);
    expect(() => registry.register({ ...tool("a"), execute: 1 as never })).toThrow(/no execute/);
    expect(() => registry.register({ ...tool("a"), parameters: { type: 1 } })).toThrow(/type/);
  });

  it.each([
    [{ dangerous: true }, "dangerous", /metadata: \{ dangerous: … \}/],
    [{ metadata: { dangerous: "yes" } }, "metadata.dangerous", /must be true or false/],
    [{ metadata: { confirm: 1 } }, "metadata.confirm", /must be a text/],
    [{ metadata: { permissions: "admin" } }, "metadata.permissions", /must be a list of texts/],
    [{ metadata: { calls: [1] } }, "metadata.calls", /must be a list of texts/],
    [{ metadata: { tags: "web" } }, "metadata.tags", /must be a list of texts/],
    [{ metadata: "dangerous" }, "metadata", /must be an object/],
  ])("refuses %j, which would guard nothing", (wrong, field, message) => {
    const info = { ...tool("t"), ...wrong } as unknown as Tool.Info;
    expect(() => new ToolRegistry().register(info)).toThrow(
      expect.objectContaining({ field, message: expect.stringMatching(message) }),
    );
  });

  it("a hand-written tool works without Tool.define", async () => {
    const registry = new ToolRegistry();
    registry.register({
      name: "plain",
      parameters: { type: "object", properties: { n: { type: "number", default: 2 } } },
      execute: async (context: Tool.Context<{ n: number }>) => context.input.n * 2,
      metadata: {},
      createdAt: 0,
      disabled: false,
    } as Tool.Info);
    expect((await registry.execute("plain", {})).content).toBe("4");
  });

  it("tells listeners of changes and calls until they unsubscribe", async () => {
    const registry = new ToolRegistry();
    const seen: RackEvent[] = [];
    const stop = registry.subscribe((event) => seen.push(event));
    registry.register(tool("a"));
    await registry.execute("a", {}, { callId: "c" });
    stop();
    registry.unregister("a");
    expect(seen.map((event) => event.type)).toEqual(["tools", "state", "state", "state", "record"]);
    expect(seen.at(-1)).toMatchObject({
      record: { toolName: "a", callId: "c", status: "completed" },
      result: { content: "a" },
    });
  });

  it("forgets states and history on request, but no call under way", async () => {
    const registry = new ToolRegistry();
    registry.register(tool("a"));
    registry.register(
      Tool.define({ name: "wait", parameters: z.object({}), execute: () => new Promise(() => {}) }),
    );
    await registry.execute("a", {}, { callId: "done" });
    registry.execute("wait", {}, { callId: "running" });
    registry.clearStates();
    expect(registry.getState("done")).toBeUndefined();
    expect(registry.getCallHistory(10)).toEqual([]);
    expect(registry.getState("running")?.status).toBe("running");
    registry.cancel("running");
  });

  it("masks secrets in states and records, by key and by value", async () => {
    const registry = new ToolRegistry({ secrets: () => ["s3cr3t-value"] });
    registry.register(
      Tool.define({
        name: "login",
        parameters: z.object({
          user: z.string(),
          password: z.string(),
          note: z.string(),
          max_tokens: z.number(),
        }),
        execute: async () => {
          throw new Error("refused for s3cr3t-value");
        },
      }),
    );
    const input = { user: "ada", password: "hunter2", note: "uses s3cr3t-value", max_tokens: 5 };
    await registry.execute("login", input, { callId: "c" });
    const masked = { user: "ada", password: "[redacted]", note: "uses [redacted]", max_tokens: 5 };
    expect(registry.getState("c")?.input).toEqual(masked);
    const [record] = registry.getCallHistory(1);
    expect(record?.parameters).toEqual(masked);
    expect(JSON.stringify(record)).not.toContain("s3cr3t-value");
    expect(JSON.stringify(record)).not.toContain("hunter2");
  });

  it("100,000 tools register, are found and listed", () => {
    const registry = new ToolRegistry();
    const parameters = { type: "object", properties: { a: { type: "string" } } };
    const execute = async () => "x";
    for (let index = 0; index < 100_000; index++) {
      registry.register(
        Tool.define({ name: `tool_${index}`, parameters, execute, metadata: { category: `c${index % 10}` } }),
      );
    }
    expect(registry.get("tool_99999")?.name).toBe("tool_99999");
    expect(registry.list("c3")).toHaveLength(10_000);
    expect(registry.getAll()).toHaveLength(100_000);
  });

  it("sorts its tools by name, and sorts in what changes", () => {
    const registry = new ToolRegistry();
    const define = (name: string) =>
      Tool.define({ name, description: name, parameters: { type: "object" }, execute: async () => name });
    const expected = (reader: Pick<ToolRegistry, "getAll">) =>
      reader.getAll().toSorted((one, other) => (one.name < other.name ? -1 : 1));
    for (let at = 0; at < 300; at++) registry.register(define(`t${(at * 7_919) % 1_000}`));
    const first = registry.snapshot();
    expect(first.sorted()).toEqual(expected(first));
    expect(first.sorted()).toBe(first.sorted());
    registry.register(define("a"));
    registry.register(define("zz"));
    registry.unregister("t0");
    registry.disable("t919");
    registry.apply({ remove: ["t838", "t757"], put: [define("T838"), define("m")] });
    expect(registry.snapshot().sorted()).toEqual(expected(registry));
    registry.apply({ remove: ["a"] });
    for (let at = 0; at < 200; at++) registry.register(define(`b${at}`));
    expect(registry.sorted()).toEqual(expected(registry));
    expect(first.sorted()).toEqual(expected(first));
  });
});

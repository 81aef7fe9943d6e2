import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { RemoteError } from "./remote-error.ts";
import { SandboxHarness, toolOf } from "./sandbox-harness.fixture.ts";
import { levelsToTest } from "./test-levels.fixture.ts";

const identity = { who: `() => globalThis.id ??= Math.random()`, echo: `(value) => value` };

describe.each(levelsToTest)("workers at level %i", { timeout: 60_000 }, (level) => {
  let harness: SandboxHarness;
  beforeAll(async () => {
    harness = await SandboxHarness.open({ level });
  });
  afterAll(() => harness[Symbol.asyncDispose]());

  it("answer with JSON, and with nothing when there is nothing", async () => {
    const tool = toolOf({ echo: `(value) => value`, nothing: `() => {}` });
    const value = { text: "ü\n\u2028€", list: [1, null, { a: [true] }] };
    expect(await harness.call(tool, "echo", { params: value })).toEqual(value);
    expect(await harness.call(tool, "nothing")).toBeUndefined();
    const large = "€".repeat(1_000_000);
    expect(await harness.call(tool, "echo", { params: large })).toBe(large);
  });

  it("pass on what was thrown, as plain data", async () => {
    const tool = toolOf({
      fail: `() => { throw Object.assign(new RangeError("too far"), { code: "E_FAR", data: { by: 3 } }) }`,
      text: `() => { throw "just text" }`,
      circular: `() => { const loop = {}; loop.loop = loop; return loop }`,
      big: `() => 1n`,
    });
    const error = await harness.call(tool, "fail").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RemoteError);
    expect(error).toMatchObject({ name: "RangeError", message: "too far", code: "E_FAR", data: { by: 3 } });
    expect((error as Error).stack).toContain("tool.js:1:");
    await expect(harness.call(tool, "text")).rejects.toThrow("just text");
    await expect(harness.call(tool, "circular")).rejects.toThrow(/circular/);
    await expect(harness.call(tool, "big")).rejects.toThrow(/BigInt/);
    await expect(harness.call(tool, "missing")).rejects.toThrow('There is no method "missing"');
    await expect(harness.call(tool, "__proto__")).rejects.toThrow("There is no method");
  });

  it("say what is wrong with code that cannot be loaded", async () => {
    await expect(harness.call(toolOf({}, { code: "module.exports = {" }), "x")).rejects.toThrow(/Unexpected/);
    await expect(harness.call(toolOf({}, { code: "module.exports = 1" }), "x")).rejects.toThrow(/no methods/);
    const failing = `module.exports = { init() { throw new Error("no database") }, methods: {} }`;
    await expect(harness.call(toolOf({}, { code: failing }), "x")).rejects.toThrow("no database");
    const hanging = `module.exports = { init: () => new Promise(() => {}), methods: {} }`;
    await expect(
      harness.call(toolOf({}, { code: hanging, limits: { initMs: 300 } }), "x"),
    ).rejects.toMatchObject({ code: "sandbox_start_failed", message: expect.stringContaining("300 ms") });
  });

  it("run init once with the settings, and serve the next calls warm", async () => {
    const code = `let inits = 0; let given; module.exports = { init(settings, host) { inits++; given = settings; host.notify("log", { level: "info", text: "init ran" }) }, methods: { look: () => ({ inits, given }) } }`;
    const tool = toolOf({}, { code, settings: { token: "t" } });
    for (let call = 0; call < 3; call++)
      expect(await harness.call(tool, "look")).toEqual({ inits: 1, given: { token: "t" } });
    expect(harness.messages).toContain("tool: init ran");
  });

  it("start one worker for calls that come together", async () => {
    const tool = toolOf({
      wait: `async () => { await new Promise((done) => setTimeout(done, 50)); return globalThis.id ??= Math.random() }`,
    });
    const ids = await Promise.all([1, 2, 3, 4].map(() => harness.call(tool, "wait")));
    expect(new Set(ids).size).toBe(1);
  });

  it("start more workers when one is full, up to the limit", async () => {
    const tool = toolOf(
      {
        wait: `async () => { await new Promise((done) => setTimeout(done, 300)); return globalThis.id ??= Math.random() }`,
      },
      { limits: { concurrency: 1, workers: 2 } },
    );
    const ids = await Promise.all([1, 2, 3, 4].map(() => harness.call(tool, "wait")));
    expect(new Set(ids).size).toBe(2);
  });

  it("serve calls that calls of the same tool wait for, however deep they are nested", async () => {
    const tool = toolOf(
      {
        nest: `async (depth, call) => depth === 0 ? ["end"] : [depth, ...await call.request("nest", depth - 1)]`,
      },
      { limits: { concurrency: 1, workers: 2 } },
    );
    const onRequest = (_method: string, params: unknown) => harness.call(tool, "nest", { params, onRequest });
    const nest = (params: number) => harness.call(tool, "nest", { params, onRequest });
    expect(await nest(6)).toEqual([6, 5, 4, 3, 2, 1, "end"]);
    expect(await Promise.all([1, 1, 2, 2, 1].map(nest))).toHaveLength(5);
  });

  it("are not started again and again while one of them works and others cannot start", async () => {
    let starts = 0;
    const code = `module.exports = { init(start) { if (start > 1) throw new Error("only one at a time") }, methods: { wait: (ms) => new Promise((done) => setTimeout(done, ms, "served")) } }`;
    const spec = toolOf({}, { code, limits: { concurrency: 1, workers: 4 } });
    const tool = Object.defineProperty({ ...spec }, "settings", { get: () => ++starts });
    await harness.call(tool, "wait", { params: 0 });
    const first = harness.call(tool, "wait", { params: 2_000 });
    const second = harness.call(tool, "wait", { params: 0 });
    expect(await Promise.all([first, second])).toEqual(["served", "served"]);
    expect(starts).toBeLessThanOrEqual(4);
  });

  it("are started for the next call after a start that failed", async () => {
    let starts = 0;
    const code = `module.exports = { init(start) { if (start === 1) throw new Error("not yet") }, methods: { run: () => "served" } }`;
    const tool = Object.defineProperty({ ...toolOf({}, { code }) }, "settings", { get: () => ++starts });
    await expect(harness.call(tool, "run")).rejects.toThrow("not yet");
    expect(await harness.call(tool, "run")).toBe("served");
  });

  it("fail a nested call at once when its worker cannot start, as its caller would wait for ever", async () => {
    let starts = 0;
    const code = `module.exports = { init(start) { if (start > 1) throw new Error("only one at a time") }, methods: { nest: (_, call) => call.request("nest", null) } }`;
    const spec = toolOf({}, { code, limits: { concurrency: 1, workers: 4 } });
    const tool = Object.defineProperty({ ...spec }, "settings", { get: () => ++starts });
    const onRequest = () => harness.call(tool, "nest");
    await expect(harness.call(tool, "nest", { onRequest })).rejects.toThrow("only one at a time");
  });

  it("never share a worker between keys", async () => {
    const [first, second] = [toolOf(identity), toolOf(identity)];
    expect(await harness.call(first, "who")).not.toBe(await harness.call(second, "who"));
    expect(await harness.call(first, "who")).toBe(await harness.call(first, "who"));
  });

  it("are replaced after as many calls as they may serve", async () => {
    const tool = toolOf(identity, { limits: { maxCallsPerWorker: 2 } });
    const ids = [];
    for (let call = 0; call < 4; call++) ids.push(await harness.call(tool, "who"));
    expect(ids[0]).toBe(ids[1]);
    expect(ids[2]).toBe(ids[3]);
    expect(ids[0]).not.toBe(ids[2]);
  });

  it("end when they were idle, after their cleanup", async () => {
    const code = `module.exports = { cleanup() { console.log("cleaned up idle") }, methods: { run: () => 1 } }`;
    await harness.call(toolOf({}, { code, limits: { idleMs: 1 } }), "run");
    await vi.waitFor(() => expect(harness.messages).toContain("tool: cleaned up idle"), 10_000);
  });

  it("finish their calls when they are retired, while new calls get a new worker", async () => {
    const code = `module.exports = { cleanup() { console.log("cleaned up retired"); throw new Error("and failed") }, methods: { slow: async () => { await new Promise((done) => setTimeout(done, 300)); return globalThis.id ??= Math.random() }, who: () => globalThis.id ??= Math.random() } }`;
    const tool = toolOf({}, { code });
    const before = await harness.call(tool, "who");
    const slow = harness.call(tool, "slow");
    harness.sandbox.retire([tool.key, "unknown"]);
    expect(await harness.call(tool, "who")).not.toBe(before);
    expect(await slow).toBe(before);
    await vi.waitFor(() => expect(harness.messages).toContain("tool: cleaned up retired"), 10_000);
    await vi.waitFor(() => expect(harness.messages.join()).toContain("and failed"), 10_000);
  });

  it("are killed when their cleanup hangs", async () => {
    const code = `module.exports = { cleanup: () => new Promise(() => setInterval(() => {}, 1000)), methods: { pid: () => 1 } }`;
    const tool = toolOf({}, { code, limits: { cleanupMs: 100 } });
    await harness.call(tool, "pid");
    const { warm } = harness.sandbox.stats();
    harness.sandbox.retire([tool.key]);
    await vi.waitFor(() => expect(harness.sandbox.stats().warm).toBeLessThan(warm), 10_000);
  });

  it("fail only their own calls when they crash, with the end of stderr", async () => {
    const tool = toolOf({
      crash: `() => { console.trace; process.stderr.write("last words\\n"); process.exit(3) }`,
      ...identity,
    });
    const other = toolOf({
      wait: `async () => { await new Promise((done) => setTimeout(done, 200)); return "fine" }`,
    });
    await harness.call(other, "wait");
    const waiting = harness.call(other, "wait");
    await expect(harness.call(tool, "crash")).rejects.toMatchObject({
      code: "sandbox_crashed",
      data: { exitCode: 3, stderr: "last words" },
    });
    expect(await waiting).toBe("fine");
    expect(await harness.call(tool, "echo", { params: 1 })).toBe(1);
  });

  it("let calls beside a cancelled one finish", async () => {
    const tool = toolOf(
      {
        deaf: `() => new Promise(() => setInterval(() => {}, 1000))`,
        wait: `async () => { await new Promise((done) => setTimeout(done, 600)); return "fine" }`,
        ...identity,
      },
      { limits: { graceMs: 50 } },
    );
    const before = await harness.call(tool, "who");
    const controller = new AbortController();
    const deaf = harness.call(tool, "deaf", { signal: controller.signal });
    const wait = harness.call(tool, "wait");
    controller.abort(new Error("enough"));
    await expect(deaf).rejects.toThrow("enough");
    expect(await wait).toBe("fine");
    expect(await harness.call(tool, "who")).not.toBe(before);
  });

  it("hand the caller's abort on as a signal, and go on when it is heeded", async () => {
    const tool = toolOf({
      heed: `(_, call) => new Promise((done, fail) => { call.signal.addEventListener("abort", () => { globalThis.reason = call.signal.reason.message; fail(call.signal.reason) }) })`,
      reason: `() => globalThis.reason`,
      ...identity,
    });
    const before = await harness.call(tool, "who");
    const controller = new AbortController();
    const call = harness.call(tool, "heed", { signal: controller.signal });
    controller.abort(new Error("changed my mind"));
    await expect(call).rejects.toThrow("changed my mind");
    expect(await harness.call(tool, "reason")).toBe("changed my mind");
    expect(await harness.call(tool, "who")).toBe(before);
    await expect(
      harness.call(tool, "who", { signal: AbortSignal.abort(new Error("early")) }),
    ).rejects.toThrow("early");
  });

  it("ask the host and hear its errors", async () => {
    const tool = toolOf({
      ask: `async (value, call) => { try { return await call.request("double", value) } catch ({ name, message, code, data }) { return { name, message, code, data } } }`,
    });
    const onRequest = async (method: string, params: unknown) => {
      if (params === null)
        throw Object.assign(new TypeError("nothing to double"), { code: "E_NONE", data: [1] });
      return `${method} ${params}`;
    };
    expect(await harness.call(tool, "ask", { params: 4, onRequest })).toBe("double 4");
    expect(await harness.call(tool, "ask", { onRequest })).toEqual({
      name: "TypeError",
      message: "nothing to double",
      code: "E_NONE",
      data: [1],
    });
    expect(await harness.call(tool, "ask")).toMatchObject({
      message: 'The host has no "double" to offer here.',
    });
  });

  it("hear of an error of the host whose data is not JSON, without the data", async () => {
    const tool = toolOf({
      ask: `async (value, call) => { try { return await call.request("ask", value) } catch ({ message, data }) { return { message, data } } }`,
    });
    const loop: { self?: unknown } = {};
    loop.self = loop;
    for (const data of [1n, loop, { deep: [2n] }])
      expect(
        await harness.call(tool, "ask", {
          onRequest: async () => {
            throw Object.assign(new Error("with data"), { data });
          },
        }),
      ).toEqual({ message: "with data" });
    expect(await harness.call(tool, "ask", { onRequest: async () => 1n })).toMatchObject({
      message: expect.stringContaining("BigInt"),
    });
  });

  it("send what a tool prints to the call that printed it", async () => {
    const tool = toolOf({
      print: `async (name) => { await new Promise((done) => setTimeout(done, 20)); console.log("hello %s", name); console.error("bad", { name }) }`,
      raw: `async () => { process.stdout.write("past the console\\n"); await new Promise((done) => setTimeout(done, 100)) }`,
    });
    const logs: Record<string, unknown[]> = { a: [], b: [], raw: [] };
    await Promise.all(
      ["a", "b"].map((name) =>
        harness.call(tool, "print", {
          params: name,
          onNotify: (_method, params) => logs[name]?.push(params),
        }),
      ),
    );
    await harness.call(tool, "raw", { onNotify: (_method, params) => logs.raw?.push(params) });
    expect(logs).toEqual({
      a: [
        { level: "info", text: "hello a" },
        { level: "error", text: "bad { name: 'a' }" },
      ],
      b: [
        { level: "info", text: "hello b" },
        { level: "error", text: "bad { name: 'b' }" },
      ],
      raw: [{ level: "info", text: "past the console" }],
    });
  });

  it("have the globals of the web", async () => {
    const names = [
      "fetch",
      "TextEncoder",
      "AbortController",
      "structuredClone",
      "URL",
      "Blob",
      "FormData",
      "crypto",
      "setTimeout",
      "queueMicrotask",
      "WebAssembly",
    ];
    const tool = toolOf({ look: `(names) => names.filter((name) => globalThis[name] === undefined)` });
    expect(await harness.call(tool, "look", { params: names })).toEqual([]);
  });

  it("have the time zone of the host, which they cannot look up", async () => {
    const tool = toolOf({ zone: `() => Intl.DateTimeFormat().resolvedOptions().timeZone` });
    expect(await harness.call(tool, "zone")).toBe(Intl.DateTimeFormat().resolvedOptions().timeZone);
  });

  it("say that there is no network when a tool tries", async () => {
    const tool = toolOf({ get: `async () => { await fetch("https://example.com/x") }` });
    await expect(harness.call(tool, "get")).rejects.toThrow(
      "Could not fetch https://example.com/x: tool has no network access. Declare the host in the tool and let the operator grant it.",
    );
  });
});

it.each(levelsToTest)(
  "at level %i, closing cleans up the idle, ends the busy and refuses the next",
  { timeout: 30_000 },
  async (level) => {
    const harness = await SandboxHarness.open({ level });
    const code = `module.exports = { cleanup() { console.log("cleaned up at close") }, methods: { run: () => 1, hang: () => new Promise(() => setInterval(() => {}, 1000)) } }`;
    const [idle, busy] = [toolOf({}, { code }), toolOf({}, { code })];
    await harness.call(idle, "run");
    const hanging = expect(harness.call(busy, "hang")).rejects.toMatchObject({ code: "sandbox_ended" });
    await vi.waitFor(() => expect(harness.sandbox.stats().busy).toBe(1), 10_000);
    await harness[Symbol.asyncDispose]();
    await hanging;
    expect(harness.messages).toEqual(["tool: cleaned up at close"]);
    expect(harness.sandbox.stats()).toEqual({ blank: 0, warm: 0, busy: 0 });
    await expect(harness.call(idle, "run")).rejects.toMatchObject({ code: "sandbox_ended" });
  },
);

it("serves a call although the blank worker died while it waited", { timeout: 30_000 }, async () => {
  await using harness = await SandboxHarness.open();
  const blank = await vi.waitFor(() => {
    const [found] = childrenThatAre("startWorker");
    expect(found).toBeDefined();
    return found;
  }, 10_000);
  process.kill(-Number(blank), "SIGKILL");
  expect(await harness.call(toolOf(identity), "echo", { params: "served" })).toBe("served");
  await vi.waitFor(() => expect(harness.sandbox.stats().blank).toBe(1), 10_000);
});

it("keeps settings and code out of the arguments that everybody can read", { timeout: 30_000 }, async () => {
  await using harness = await SandboxHarness.open();
  const tool = toolOf({ run: `() => "code-is-private"` }, { settings: { token: "settings-are-private" } });
  await harness.call(tool, "run");
  const lines = childrenThatAre("startWorker").map((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8"));
  expect(lines).not.toEqual([]);
  expect(lines.join()).not.toMatch(/are-private|is-private/);
});

/** Process ids of this process's children that have the word in their arguments. */
function childrenThatAre(word: string): string[] {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(" ");
  return children.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(word));
}

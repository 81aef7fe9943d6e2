import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { SandboxHarness, toolOf } from "./sandbox-harness.fixture.ts";
import { levelsToTest } from "./test-levels.fixture.ts";

describe.each(levelsToTest)("limits at level %i", { timeout: 60_000 }, (level) => {
  let harness: SandboxHarness;
  beforeAll(async () => {
    harness = await SandboxHarness.open({ level });
  });
  afterAll(() => harness[Symbol.asyncDispose]());

  const run = (source: string, limits = {}) => harness.call(toolOf({ run: source }, { limits }), "run");

  it("ends a tool that fills its heap", async () => {
    await expect(
      run(`() => { const all = []; for (;;) all.push(new Array(1e5).fill({})) }`, { memoryMb: 64 }),
    ).rejects.toMatchObject({ code: "sandbox_limit", data: { limit: "memory" } });
  });

  it.each([
    ["buffers", `Buffer.alloc(16 << 20, 1)`],
    ["typed arrays", `new Float64Array(2 << 20).fill(1)`],
    ["texts", `Buffer.alloc(16 << 20, 65).toString("latin1")`],
    [
      "memory of WebAssembly",
      `(() => { const memory = new WebAssembly.Memory({ initial: 256 }); new Uint8Array(memory.buffer).fill(1); return memory })()`,
    ],
  ])("bounds what a tool can hold in %s", async (_what, piece) => {
    const source = `() => { const all = []; try { for (;;) all.push(${piece}) } catch {} const count = all.length; all.length = 0; return count * 16 }`;
    const held = await run(source, { memoryMb: 128 }).catch((error: unknown) => error);
    // An engine that would rather end than throw is fine as well.
    if (typeof held === "number") expect(held).toBeLessThan(400);
    else expect(held).toMatchObject({ code: "sandbox_limit" });
  });

  it.each([
    ["a loop", `() => { for (;;); }`],
    [
      "a loop of microtasks",
      `() => new Promise(() => { const spin = () => Promise.resolve().then(spin); spin() })`,
    ],
    ["a loop of ticks", `() => new Promise(() => { const spin = () => process.nextTick(spin); spin() })`],
    ["an endless wait", `() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)`],
    ["a regular expression", `() => /^(a+)+$/.test("a".repeat(60) + "b")`],
    [
      "a promise that never settles and a signal that is not heeded",
      `() => new Promise(() => setInterval(() => {}, 1000))`,
    ],
  ])("stops %s when the caller gives up, and the worker is gone", async (_what, source) => {
    const controller = new AbortController();
    const tool = toolOf({ run: source }, { limits: { graceMs: 50 } });
    const call = harness.call(tool, "run", { signal: controller.signal });
    await vi.waitFor(() => expect(harness.sandbox.stats().busy).toBe(1), 10_000);
    controller.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
    await vi.waitFor(() => expect(harness.sandbox.stats().busy).toBe(0), 10_000);
  });

  it("ends a call that uses more processor time than it may", async () => {
    await expect(run(`() => { for (;;); }`, { cpuSeconds: 1 })).rejects.toMatchObject({
      code: "sandbox_limit",
      data: { limit: "cpu" },
    });
  });

  it.each([
    ["the console", `() => { for (;;) console.log("x".repeat(1000)) }`],
    [
      "the console, with pauses",
      `async () => { for (;;) { console.log("x".repeat(10000)); await new Promise(setImmediate) } }`,
    ],
    ["stdout", `() => { for (;;) process.stdout.write("x".repeat(1000)) }`],
    ["stderr", `() => { for (;;) require("fs").writeSync(2, "x".repeat(1000)) }`],
    [
      "a message without an end",
      `async () => { for (;;) { try { require("fs").writeSync(3, "x".repeat(1000)) } catch { await new Promise(setImmediate) } } }`,
    ],
    [
      "notifications",
      `async (_, call) => { for (;;) { call.notify("n", "x".repeat(1000)); await null; if (Math.random() < 0.01) await new Promise(setImmediate) } }`,
    ],
    [
      "requests",
      `async (_, call) => { for (;;) { call.request("r", "x".repeat(1000)).catch(() => {}); await new Promise(setImmediate) } }`,
    ],
  ])("ends a tool that floods %s", async (_what, source) => {
    await expect(run(source, { outputBytes: 200_000, memoryMb: 128 })).rejects.toMatchObject({
      code: "sandbox_limit",
      data: { limit: "output" },
    });
  });

  it("refuses an answer that is too large, and the worker lives on", async () => {
    const tool = toolOf(
      { large: `() => "x".repeat(300000)`, small: `() => "small"` },
      { limits: { outputBytes: 200_000 } },
    );
    await expect(harness.call(tool, "large")).rejects.toThrow("The answer has 300");
    expect(await harness.call(tool, "small")).toBe("small");
  });

  it("bounds the files that a tool can write", async () => {
    const source = `() => { const fs = require("fs"); let written = 0; const piece = Buffer.alloc(1 << 20, 1); const fd = fs.openSync(process.env.TMPDIR + "/flood", "w"); try { for (; written < 1000; written++) fs.writeSync(fd, piece) } catch (error) { return { written, code: error.code } } return { written } }`;
    const { written, code } = (await run(source, { scratchMb: 8 })) as { written: number; code: string };
    expect(written).toBeLessThanOrEqual(16);
    expect(code).toMatch(/ENOSPC|EFBIG/);
  });

  it.runIf(level === 2)("ends a tool that writes more into its scratch directory than fits", async () => {
    const source = `async () => { const fs = require("fs"); for (let file = 0; file < 6; file++) fs.writeFileSync(process.env.TMPDIR + "/" + file, Buffer.alloc(3 << 20, 1)); await new Promise((done) => setTimeout(done, 15000)) }`;
    await expect(run(source, { scratchMb: 8 })).rejects.toMatchObject({
      code: "sandbox_limit",
      data: { limit: "scratch" },
      message: expect.stringContaining("8 MB"),
    });
  });

  it("ends a worker that uses the processor between calls", async () => {
    const tool = toolOf({
      start: `() => { setTimeout(() => { for (;;); }, 50); return process.pid }`,
      pid: `() => globalThis.id ??= Math.random()`,
    });
    const before = await harness.call(tool, "pid");
    await harness.call(tool, "start");
    await vi.waitFor(() => expect(harness.messages.join()).toContain("between calls"), 10_000);
    expect(await harness.call(tool, "pid")).not.toBe(before);
  });

  it.runIf(level === 3)("bounds the scratch directory as a whole", async () => {
    const source = `() => { const fs = require("fs"); for (let file = 0; file < 100; file++) { try { fs.writeFileSync(process.env.TMPDIR + "/" + file, Buffer.alloc(1 << 20, 1)) } catch (error) { return { file, code: error.code } } } }`;
    const answer = await run(source, { scratchMb: 8 });
    expect(answer).toMatchObject({ code: "ENOSPC" });
  });

  it("bounds the files that a tool can have open", async () => {
    const source = `() => { const fs = require("fs"); fs.writeFileSync(process.env.TMPDIR + "/f", ""); let count = 0; try { for (; count < 5000; count++) fs.openSync(process.env.TMPDIR + "/f") } catch (error) { return [count < 300, error.code] } }`;
    expect(await run(source)).toEqual([true, "EMFILE"]);
  });

  it("drops what a tool says after the end of its call", async () => {
    const heard: string[] = [];
    const tool = toolOf({
      late: `(_, call) => { setTimeout(() => { call.notify("late", 1); call.request("late", 1).catch((error) => { globalThis.answer = error.message }); console.log("late") }, 20); return "done" }`,
      after: `async () => { await new Promise((done) => setTimeout(done, 100)); return globalThis.answer ?? "no answer" }`,
    });
    const listen = {
      onNotify: (method: string) => void heard.push(method),
      onRequest: async (method: string) => void heard.push(method),
    };
    expect(await harness.call(tool, "late", listen)).toBe("done");
    expect(await harness.call(tool, "after", listen)).toBe("no answer");
    expect(heard).toEqual([]);
  });

  it.each([
    ["exits", `() => process.exit(7)`, /code 7/],
    [
      "throws out of turn",
      `() => new Promise(() => setTimeout(() => { throw new Error("out of turn") }))`,
      /out of turn/,
    ],
    ["aborts", `() => process.abort()`, /code 134|SIGABRT/],
  ])("says how a tool ended that %s", async (_what, source, message) => {
    const error = await run(source).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: "SandboxError", code: "sandbox_crashed" });
    expect(String(error)).toMatch(message);
  });
});

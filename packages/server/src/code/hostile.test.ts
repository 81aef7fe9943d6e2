import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CodeHarness, node } from "./code-harness.fixture.ts";

let rack: CodeHarness;
beforeAll(async () => {
  rack = await CodeHarness.open();
  rack.add("add", async ({ input }) => ({ n: Object(input).a + Object(input).b }));
  rack.add("hidden", async () => "never for code", { metadata: { callers: ["model"] } });
}, 30_000);
afterAll(() => rack[Symbol.asyncDispose]());

/** Writes to the pipe between worker and host. */
const forge = (message: object, more = "") =>
  `${node}require("fs").writeSync(3, ${JSON.stringify(`${JSON.stringify(message)}\n`)});${more}`;

async function stillWorks(): Promise<void> {
  expect(await rack.value("return (await tools.rack.add({ a: 1, b: 2 })).n")).toBe(3);
}

describe("hostile code", { timeout: 60_000 }, () => {
  it("gets a clear error for loops, memory and forks, and nothing else suffers", async () => {
    const runs = [
      rack.run("for (;;);", {}, { timeout: 1_500 }),
      rack.run("const all = []; for (;;) all.push(new Array(1e6).fill(1));"),
      rack.run("const all = []; for (;;) all.push(Buffer.alloc(32 * 1024 * 1024, 1));"),
      rack.run(`${node}for (;;) require("child_process").spawn("/bin/sh");`),
      rack.run("for (;;) console.log('x'.repeat(100000));"),
      rack.run("globalThis.process.exit(0)"),
      rack.run("globalThis.process.kill(globalThis.process.pid, 'SIGKILL'); await new Promise(() => {})"),
      rack.run("return 'x'.repeat(11 * 1024 * 1024)"),
      rack.run("const a = {}; a.a = a; return a"),
    ];
    await stillWorks();
    const contents = (await Promise.all(runs)).map(({ content, type }) => {
      expect(type).toBe("error");
      return content;
    });
    expect(contents[0]).toContain("did not finish within 1.5 s");
    expect(contents[1]).toContain("ran out of the memory");
    expect(contents[2]).toMatch(/memory|ended in the middle/);
    expect(contents[3]).toMatch(/denied|restricted|not allowed|ENOENT|permission/i);
    expect(contents[4]).toContain("The code was ended: it put out more than");
    expect(contents[5]).toContain("ended in the middle of its work");
    expect(contents[7]).toMatch(/bytes are allowed|are allowed/);
    expect(contents[8]).toContain("circular");
    await stillWorks();
  });

  it("cannot change what the host is told by changing its own globals and prototypes", async () => {
    const tricks = [
      "Array.isArray = () => true; Object.prototype.parts = ['rack', 'hidden'];",
      "Map.prototype.get = () => undefined; Promise.prototype.then = function () { return this };",
      'JSON.stringify = () => \'{"type":"result","id":1,"result":{"value":"forged"}}\';',
      "Object.defineProperty(Object.prototype, 'method', { get: () => 'call', set() {} });",
      "Function.prototype.call = () => 'x'; String.prototype.split = () => [];",
    ];
    for (const trick of tricks) {
      // Whatever comes of it is the run's own affair: an error, a time limit, or its own answer.
      await rack.run(`${trick} return await tools.rack.add({ a: 1, b: 1 })`, {}, { timeout: 1_000 });
      await stillWorks();
    }
    expect("polluted" in {}).toBe(false);
  });

  it("is ended or ignored when it writes messages of its own to the host", async () => {
    const messages: object[] = [
      { type: "answer", id: 1, result: "forged" },
      { type: "request", id: 7, call: 1, method: "call", params: { parts: ["rack", "hidden"], args: {} } },
      { type: "request", id: 8, call: 1, method: "call", params: { parts: ["toolrack_run"], args: {} } },
      { type: "request", id: 9, call: 1, method: "call", params: null },
      { type: "request", id: 10, call: 99, method: "call", params: { parts: ["rack", "add"] } },
      { type: "request", id: 11, call: 1, method: "call", params: { parts: { length: 1e9 }, args: [] } },
      { type: "notify", call: 1, method: "quiet", params: {} },
      { type: "notify", call: 1, method: "log", params: { level: "__proto__", text: { a: 1 } } },
      { type: "loaded" },
      JSON.parse(
        '{"type":"result","id":1,"result":{"__proto__":{"polluted":1},"value":{"constructor":{"prototype":{"polluted":1}}}}}',
      ),
    ];
    for (const message of messages) {
      const { content } = await rack.run(
        forge(message, "await new Promise((done) => setTimeout(done, 50)); return 'ended by itself'"),
      );
      expect(content).not.toContain("never for code");
      expect("polluted" in {}).toBe(false);
    }
    await stillWorks();
  });

  it("may give tools only what is JSON", async () => {
    const code =
      "const results = [];\nfor (const args of [null, 'text', [1], 10n, () => 1, Symbol('x'), { a: NaN, b: undefined }]) {\n  try { results.push(await tools.rack.add(args)) } catch (error) { results.push(error.name) }\n}\nreturn results.length";
    expect(await rack.value(code)).toBe(7);
  });
});

import { describe, expect, it, vi } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { startRegistry } from "../testing/test-registry.ts";

/** A tool that is right but for what is given. */
function toolWith(members: string): string {
  return `module.exports = { getMetadata: () => ({ id: "t", description: "" }), getSchema: () => ({ type: "object", properties: {} }), execute: () => "ran", ${members} };`;
}

describe("a single-file tool that is wrong is listed with the reason and what would fix it", {
  timeout: 120_000,
}, () => {
  const endless = "x".repeat(300_000);
  const cases: readonly [what: string, source: string, failure: object][] = [
    ["a syntax error", "module.exports = {\n  execute( {\n};", { line: 3, remedy: /syntax/ }],
    ["no export", "const tool = 5;", { reason: /exports no tool/, remedy: /toolrack new/ }],
    ["an export that is a number", "module.exports = 5;", { reason: /exports no tool/ }],
    [
      "a file that throws",
      "\n\nthrow new RangeError('too far');",
      { line: 3, reason: /RangeError: too far/ },
    ],
    ["a relative import", "require('./helper');", { line: 1, reason: /is one file/ }],
    ["no execute", toolWith("execute: undefined"), { reason: /no execute\(\)/ }],
    [
      "execute that is no function",
      toolWith("execute: 5"),
      { reason: /execute is a number instead of a function/ },
    ],
    ["no getMetadata", toolWith("getMetadata: undefined"), { reason: /no getMetadata\(\)/ }],
    [
      "metadata that throws",
      toolWith("getMetadata() {\n throw new Error('no'); }"),
      { line: 2, reason: /getMetadata\(\) threw no/ },
    ],
    [
      "metadata that is a text",
      toolWith("getMetadata: () => 'x'"),
      { reason: /returned the text "x" instead of an object/ },
    ],
    [
      "metadata without an id",
      toolWith("getMetadata: () => ({ name: 'x' })"),
      { reason: /returned nothing as the id/ },
    ],
    [
      "a name that is a number",
      toolWith("getMetadata: () => ({ id: 'x', name: 7 })"),
      { reason: /the number 7 as the name/ },
    ],
    [
      "a timeout that is a text",
      toolWith("getMetadata: () => ({ id: 'x', timeout: 'soon' })"),
      { reason: /the text "soon" as timeout/ },
    ],
    [
      "hosts that are addresses",
      toolWith("getMetadata: () => ({ id: 'x', network: ['https://a.b/c'] })"),
      { remedy: /without https/ },
    ],
    [
      "a schema that is a list",
      toolWith("getSchema: () => []"),
      { reason: /getSchema\(\) returned an empty list/ },
    ],
    [
      "a schema that is none",
      toolWith("getSchema: () => ({ parameters: { type: 'object', properties: { a: { type: 'strin' } } } })"),
      { reason: /parameters that are no JSON Schema.*a/ },
    ],
    [
      "a schema of another type",
      toolWith("getSchema: () => ({ type: 'string' })"),
      { reason: /"string" instead of "object"/ },
    ],
    [
      "an environment that is none",
      toolWith("getSchema: () => ({ environment: { properties: 7 } })"),
      { reason: /environment that are no JSON Schema/ },
    ],
    [
      "a variable that has no name",
      toolWith("getSchema: () => ({ environment: { properties: { 'A B': {} } } })"),
      { reason: /"A B"/ },
    ],
    [
      "a schema that throws",
      toolWith("getSchema() { return this.missing.schema; }"),
      { reason: /getSchema\(\) threw TypeError/ },
    ],
    [
      "dependencies that are a text",
      toolWith("getDependencies: () => 'lodash'"),
      { reason: /getDependencies\(\) is wrong/ },
    ],
    [
      "a dependency from a folder",
      toolWith("getDependencies: () => ({ x: 'file:/etc' })"),
      { reason: /no version, range or tag/ },
    ],
    [
      "a package that is not declared",
      `const x = require('some-package'); ${toolWith("")}`,
      { reason: /requires "some-package"/, remedy: /getDependencies/ },
    ],
    [
      "errors that are an object",
      toolWith("getBusinessErrors: () => ({})"),
      { reason: /getBusinessErrors\(\) returned an object instead of a list/ },
    ],
    [
      "an error without a code",
      toolWith("getBusinessErrors: () => [{ match: 'x' }]"),
      { reason: /position 1/ },
    ],
    [
      "an error with a number to match",
      toolWith("getBusinessErrors: () => [{ code: 'A', match: 5 }]"),
      { reason: /the number 5 as the match of A/ },
    ],
    [
      "bridges that are a number",
      toolWith("getBridges: () => 7"),
      { reason: /getBridges\(\) returned the number 7/ },
    ],
    ["init that is a text", toolWith("init: 'x'"), { reason: /init is a string instead of a function/ }],
    [
      "an answer that is very large",
      toolWith(`getMetadata: () => ({ id: 't', description: '${endless}' })`),
      { reason: /300\d\d\d characters/ },
    ],
    ["10 MB of source", `// ${"x".repeat(10 * 1024 * 1024)}\n${toolWith("")}`, { reason: /10\.0 MiB/ }],
    ["a process that ends", "process.reallyExit(3);", { reason: /could not be asked/ }],
  ];

  it("each of them, beside one that is right", async () => {
    const sources = cases.map(([, source], index) => [
      `tools/${String(index).padStart(2, "0")}.tool.js`,
      source,
    ]);
    await using workspace = await TemporaryWorkspace.create({
      ...Object.fromEntries(sources),
      "tools/good.tool.js": toolWith("getMetadata: () => ({ id: 'good' })"),
    });
    const { report, registry } = await workspace.open({ builtins: false });
    for (const [index, [what, , expected]] of cases.entries()) {
      const { status, tools, failure } = report.files[index]!;
      expect({ what, status, tools }).toEqual({ what, status: "failed", tools: [] });
      for (const [key, wanted] of Object.entries(expected)) {
        const came = failure?.[key as "reason"];
        if (wanted instanceof RegExp) expect(came, what).toMatch(wanted);
        else expect(came, `${what}: ${JSON.stringify(failure)}`).toBe(wanted);
      }
    }
    expect(report.files.at(-1)?.status).toBe("loaded");
    expect((await registry.execute("good", {})).content).toBe("ran");
  });

  it("an endless loop at the top, and one in getMetadata", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/a.tool.js": "for (;;);",
      "tools/b.tool.js": toolWith("getMetadata() { for (;;); }"),
    });
    const { report, files } = await workspace.open({ builtins: false });
    for (const { failure } of report.files) expect(failure?.reason).toContain("within 10 s");
    // It may have been the machine: they are asked again, and not for ever. What never answers is as late sooner.
    const { timeout } = AbortSignal;
    using _ = vi.spyOn(AbortSignal, "timeout").mockImplementation((limit) => timeout(limit / 10));
    const compiled = async () => (await files.load()).compiled;
    expect(await compiled()).toEqual(["tools/a.tool.js", "tools/b.tool.js"]);
    expect(await compiled()).toHaveLength(2);
    expect(await compiled()).toEqual([]);
  });

  it("a dependency that does not exist is named, and the file is tried again when it changes", async () => {
    const registry = await startRegistry({});
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.tool.js": toolWith("getDependencies: () => ({ 'toolrack-test-nowhere': '^1.0.0' })"),
    });
    await registry.useFor(workspace.directory);
    const { report, files } = await workspace.open({ builtins: false });
    await registry.close();
    expect(report.files[0]?.failure).toMatchObject({
      reason: expect.stringContaining('"toolrack-test-nowhere"'),
      remedy: expect.stringContaining("Check its name"),
    });
    await workspace.write("tools/t.tool.js", toolWith("getDependencies: () => ({})"));
    expect((await files.load()).files[0]).toMatchObject({ status: "loaded" });
  });
});

describe("a call of a tool that misbehaves", { timeout: 120_000 }, () => {
  const open = async (members: string, config = "{}") => {
    const workspace = await TemporaryWorkspace.create({
      "tools/t.tool.js": toolWith(members),
      "toolrack.config.mjs": `export default ${config};`,
    });
    return { workspace, app: await workspace.open({ builtins: false }) };
  };

  it("whose init hangs or throws fails with that reason, and not for ever", async () => {
    const hanging = await open(
      "init: () => new Promise(() => {})",
      "{ sandbox: { limits: { initMs: 300 } } }",
    );
    await using _ = hanging.workspace;
    expect((await hanging.app.registry.execute("t", {})).content).toMatch(/init/);
    const throwing = await open("init() { throw new Error('no door'); }");
    await using __ = throwing.workspace;
    expect((await throwing.app.registry.execute("t", {})).content).toContain("init() failed: no door");
  });

  it("whose cleanup throws or hangs does not keep the server from closing", async () => {
    for (const cleanup of [
      "cleanup() { throw new Error('stuck'); }",
      "cleanup: () => new Promise(() => {})",
    ]) {
      const { workspace, app } = await open(cleanup, "{ sandbox: { limits: { cleanupMs: 200 } } }");
      await using _ = workspace;
      expect((await app.registry.execute("t", {})).content).toBe("ran");
      await app.close();
    }
  });

  it.each<[what: string, result: string, outcome: object]>([
    ["nothing", "undefined", { type: "text", content: "" }],
    [
      "a date and a big number",
      "({ at: new Date(0), big: 5n, nan: NaN })",
      { structured: { at: "1970-01-01T00:00:00.000Z", big: "5", nan: "NaN" } },
    ],
    [
      "a map and a set",
      "({ map: new Map([['a', 1]]), set: new Set([1]) })",
      { structured: { map: { a: 1 }, set: [1] } },
    ],
    [
      "a cycle",
      "(() => { const a = { b: 1 }; a.self = a; return a; })()",
      { structured: { b: 1, self: "[circular]" } },
    ],
    ["a function inside", "({ a: 1, f() {} })", { structured: { a: 1 } }],
    ["bytes", "Buffer.from('hi')", { attachments: [{ url: "data:application/octet-stream;base64,aGk=" }] }],
    [
      "a stream",
      "require('stream').Readable.from(['x'])",
      { type: "error", content: expect.stringContaining("stream") },
    ],
    ["a failure", "({ success: false, error: 'not today' })", { type: "error", content: "not today" }],
    [
      "an object that cannot be read",
      "({ get a() { throw new Error('private'); } })",
      { type: "error", content: "private" },
    ],
  ])("that returns %s", async (_, result, outcome) => {
    const { workspace, app } = await open(`execute: () => (${result})`);
    await using __ = workspace;
    expect(await app.registry.execute("t", {})).toMatchObject(outcome);
  });

  it("that crashes, or throws something odd, fails alone, and the next call is served", async () => {
    const { workspace, app } = await open(
      "getSchema: () => ({ type: 'object', properties: { how: {} } }), execute({ how }) { if (how === 'die') globalThis.process.reallyExit(9); if (how) throw how; return 'ran'; }",
    );
    await using _ = workspace;
    expect((await app.registry.execute("t", { how: "die" })).error?.code).toBe("execution_failed");
    expect((await app.registry.execute("t", { how: { odd: 1 } })).content).toContain("odd");
    expect((await app.registry.execute("t", {})).content).toBe("ran");
  });

  it("that never ends is stopped by its time limit, and the next call is served", async () => {
    const { workspace, app } = await open(
      "getMetadata: () => ({ id: 't', timeout: 3000 }), getSchema: () => ({ type: 'object', properties: { how: {} } }), execute({ how }) { if (how === 'loop') for (;;); if (how) return new Promise(() => {}); return 'ran'; }",
    );
    await using _ = workspace;
    expect((await app.registry.execute("t", { how: "loop" })).error?.code).toBe("timed_out");
    expect((await app.registry.execute("t", { how: "wait" })).error?.code).toBe("timed_out");
    expect((await app.registry.execute("t", {})).content).toBe("ran");
  });
});

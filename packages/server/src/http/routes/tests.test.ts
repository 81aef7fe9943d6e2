import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCli } from "../../cli/testing/run-cli.ts";
import { ServedWorkspace } from "../../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { readTestFile } from "../../tests/index.ts";

describe("tests on a server", { timeout: 120_000 }, () => {
  let workspace: TemporaryWorkspace;
  let served: ServedWorkspace;
  let asked = 0;
  const service = createServer((_request, response) => {
    asked++;
    response.setHeader("content-type", "application/json").end('{"rate":1.5}');
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
    const { port } = service.address() as AddressInfo; // A server at an address has a port.
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": `export default { builtins: false, network: { allowPrivate: ["127.0.0.1"] } };`,
      "tools/bank.ts": `import { Tool } from "@toolrack/core";
const none = { type: "object", properties: {} };
let count = 0;
export const next = Tool.define({ name: "next", parameters: none, metadata: { readOnly: true }, execute: async () => ({ count: ++count }) });
export const twice = Tool.define({ name: "twice", parameters: none,
  execute: async ({ call }) => [(await call("next", {})).structured, (await call("next", {})).structured] });
export const convert = Tool.define({ name: "convert", parameters: { type: "object", properties: { amount: { type: "number" } }, required: ["amount"] },
  execute: async ({ input, call }) => input.amount * (await call("fx_rate", {})).structured.rate });`,
      "skills/fx/SKILL.md": "---\nname: fx\ndescription: Rates.\n---\nRates.\n",
      "skills/fx/tools.json": JSON.stringify({
        tools: [
          {
            id: "fx_rate",
            name: "rate",
            description: "A rate.",
            type: "http",
            endpoint: `http://127.0.0.1:${port}/`,
          },
        ],
      }),
    });
    served = await ServedWorkspace.here(workspace.directory);
  }, 120_000);
  afterAll(async () => {
    await served?.[Symbol.asyncDispose]();
    service.close();
    await workspace?.[Symbol.asyncDispose]();
  });
  const save = async (callId: string, name: string) => {
    const { status, body } = await served.ask("POST", `/api/calls/${callId}/test`, { name });
    expect([status, body]).toEqual([200, expect.anything()]);
    const { tests } = await readTestFile(workspace.directory, body.file);
    return tests.find((test) => test.name === name)!;
  };

  it("answer calls by name, arguments and occurrence, and are recorded as such", async () => {
    const { body } = await served.call("twice", {});
    expect(body.result.structured).toEqual([{ count: 1 }, { count: 2 }]);
    await save(body.callId, "counts on");
    const run = await served.ask("POST", "/api/tests/run", { tool: "twice", mock: "strict" });
    expect(run.body).toMatchObject({
      passed: 1,
      failed: 0,
      results: [{ status: "passed", name: "counts on" }],
    });
    // Tests that only answer a call of the tool are its tests too, for the list and for the run.
    const touched = await served.ask("POST", "/api/tests/run", { tool: "next" });
    expect(touched.body.results).toMatchObject([{ name: "counts on" }]);
    const listed = await served.ask("GET", "/api/tests?tool=next");
    expect(listed.body.items).toMatchObject([
      { name: "counts on", tool: "twice", last: { status: "passed" } },
    ]);
    const records = await served.ask("GET", "/api/calls?caller=test*");
    expect(
      records.body.items.map((one: { toolName: string; via?: string }) => [one.toolName, one.via]),
    ).toContainEqual(["twice", "test"]);
    const inner = await served.ask("GET", `/api/calls?tool=next&status=completed`);
    expect(inner.body.items.filter((one: { flags?: object }) => one.flags !== undefined)).toHaveLength(4);
    // The tool itself was not asked again.
    expect((await served.call("next", {})).body.result.structured).toEqual({ count: 3 });
  });

  it("answer HTTP skills, within chains and alone, from the record", async () => {
    const chain = (await served.call("convert", { amount: 10 })).body;
    expect(chain.result.content).toBe("15");
    const alone = (await served.call("fx_rate", {})).body;
    await save(chain.callId, "converts");
    const test = await save(alone.callId, "gives a rate");
    expect(test.calls).toMatchObject([{ tool: "fx_rate", answer: { rate: 1.5 } }]);
    const before = asked;
    for (const mock of ["recorded", "strict"]) {
      const run = await served.ask("POST", "/api/tests/run", { mock });
      expect(run.body).toMatchObject({ passed: 3, failed: 0 });
    }
    expect(asked).toBe(before);
    expect((await served.ask("POST", "/api/tests/run", { tool: "convert", mock: "off" })).body.passed).toBe(
      1,
    );
    expect(asked).toBe(before + 1);
  });

  it("are made as whoever made the call: an expert, or a token with its reach", async () => {
    await served.ask("POST", "/api/experts", { name: "counter", tools: ["twice"] });
    const asExpert = await served.ask("POST", "/api/tools/twice/calls?expert=counter", {});
    expect(asExpert.body.result.error).toMatchObject({ message: expect.stringContaining("next") });
    const expertTest = await save(asExpert.body.callId, "may not count");
    expect(expertTest.as).toEqual({ expert: "counter" });
    const made = await served.ask("POST", "/api/tokens", { name: "ci", scopes: { tools: ["twice", "ne*"] } });
    const asToken = await served.ask("POST", "/api/tools/twice/calls", {}, made.body.token);
    const tokenTest = await save(asToken.body.callId, "may count");
    expect(tokenTest.as).toEqual({ tools: ["twice", "ne*"] });
    const run = await served.ask("POST", "/api/tests/run", { tool: "twice" });
    expect(run.body).toMatchObject({ passed: 3, failed: 0 });
    // The same without a server.
    expect(await runCli(["test"], { cwd: workspace.directory })).toMatchObject({ code: 0 });
  });

  it("are for admins only", async () => {
    const made = await served.ask("POST", "/api/tokens", { name: "reader", scopes: { tools: ["*"] } });
    const { callId } = (await served.ask("POST", "/api/tools/next/calls", {}, made.body.token)).body;
    for (const [method, path] of [
      ["GET", "/api/tests"],
      ["POST", "/api/tests/run"],
      ["POST", `/api/calls/${callId}/test`],
    ] as const) {
      const { status } = await served.ask(method, path, method === "POST" ? {} : undefined, made.body.token);
      expect([path, status]).toEqual([path, 403]);
    }
  });

  it("put no tool of a recording on the rack that is served", async () => {
    await workspace.write(
      "tests/gone.calls.yaml",
      `tests:
  - { name: gone, tool: mcp_gone_rate, arguments: {}, calls: [{ tool: mcp_gone_rate, answer: 1 }] }
tools:
  mcp_gone_rate: { inputSchema: { type: object }, origin: mcp server gone }
`,
    );
    const { body } = await served.ask("POST", "/api/tests/run", { name: "gone" });
    expect(body.results[0].problems[0].message).toMatch(/no tool named "mcp_gone_rate"/);
    expect((await served.ask("GET", "/api/tools/mcp_gone_rate")).status).toBe(404);
  });

  it("refuse a call that is unknown, and files outside of the folder", async () => {
    expect((await served.ask("POST", "/api/calls/none/test", {})).body.error.code).toBe("call_not_found");
    const { callId } = (await served.call("next", {})).body;
    const outside = await served.ask("POST", `/api/calls/${callId}/test`, { file: "../../evil" });
    expect(outside.body.error.code).toBe("invalid_request");
  });
});

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestServer } from "../server.fixture.ts";

const files = {
  "tools/shop/price.js": `const lookup = (list, item) => list.find((one) => one.name === item).price;
module.exports = {
  name: "price",
  description: "Price of an item.",
  inputSchema: { type: "object", properties: { item: { type: "string" } } },
  handler: async (args) => ({ content: [{ type: "text", text: String(lookup([], args.item)) }] }),
};`,
  "tools/shout.ts": `interface Line { text: string }

export const schema = { name: "shout", description: "Says it louder.", type: "object", properties: {} };
export default async function () {
  const line = undefined as Line | undefined;
  return { content: [{ type: "text", text: line!.text }] };
}`,
  "tools/twice.ts": `import { Tool } from "@toolrack/core";
interface Words { words: string[] }
export const twice = Tool.define({
  name: "twice",
  parameters: { type: "object", properties: {} },
  execute: async ({ input }) => {
    await Promise.resolve();
    return (input as unknown as Words).words.join(" ");
  },
});`,
  "tools/count.tool.js": `module.exports = {
  getMetadata() { return { id: "count", name: "count", description: "Counts.", version: "1.0.0" }; },
  getSchema() { return { parameters: { type: "object", properties: {} } }; },

  async execute() {
    const nothing = null;
    return nothing.length;
  },
};`,
  "skills/sums/SKILL.md": "---\nname: sums\ndescription: Sums.\n---\nCall it.\n",
  "skills/sums/tools.json": JSON.stringify({
    tools: [
      { id: "sum-js", name: "js", description: "d", type: "script", command: "node index.js" },
      { id: "sum-py", name: "py", description: "d", type: "script", command: "python3 main.py" },
    ].map((tool) => ({ ...tool, usage: { parameters: { type: "object", properties: {} } } })),
  }),
  "skills/sums/index.js": `const inner = (given) => given.missing.deep;
module.exports = { execute: async (tool, params) => inner(params) };`,
  "skills/sums/main.py": `def inner(given):
    return given["missing"]

def execute(tool, params, context):
    return inner(params)
`,
};

const places = {
  internal_shop_price: ["tools/shop/price.js:1", "TypeError"],
  shout: ["tools/shout.ts:6", "TypeError"],
  twice: ["tools/twice.ts:8", "TypeError"],
  count: ["tools/count.tool.js:7", "TypeError"],
  "sum-js": ["skills/sums/index.js:1", "TypeError"],
  "sum-py": ["skills/sums/main.py:2", "KeyError"],
} as const;

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ files });
});
afterAll(() => server[Symbol.asyncDispose]());

describe("the trace of a tool that crashed", () => {
  for (const [tool, [at, thrown]] of Object.entries(places)) {
    it(`names the line of ${at.split(":")[0]} and the frames of its author's files alone`, async () => {
      const { body } = await server.call(tool);
      expect(body.result.error).toMatchObject({ code: "execution_failed", details: { thrown } });
      expect(body.result.error.recoverable).toBe(thrown !== "TypeError");
      expect(body.trace.at).toBe(at);
      const [head, ...frames] = body.trace.stack.split("\n");
      expect(head).toContain(thrown);
      expect(frames.length).toBeGreaterThan(0);
      const [file = ""] = at.split(":");
      for (const frame of frames) expect(frame).toContain(file);
      expect((await server.ask(`/api/calls/${body.callId}`)).body.trace).toEqual(body.trace);
      expect((await server.ask(`/api/calls/${body.callId}/record`)).body.trace).toEqual(body.trace);
    });
  }

  it("is kept from a limited token, and so are the paths of the server", async () => {
    const token = await server.issue({ tools: ["*"] });
    for (const tool of Object.keys(places)) {
      const { body } = await server.call(tool, {}, {}, { token });
      expect(body.result.error.code).toBe("execution_failed");
      const seen = [
        body,
        (await server.ask(`/api/calls/${body.callId}`, { token })).body,
        (await server.ask(`/api/calls/${body.callId}/record`, { token })).body,
        (await server.ask("/api/calls", { token })).body,
      ];
      expect(JSON.stringify(seen)).not.toContain("trace");
      expect(JSON.stringify(seen)).not.toContain(server.workspace.directory);
    }
  });

  it("is absent of a call that was refused, and of one that went well", async () => {
    const { body } = await server.call("no_such_tool");
    expect(JSON.stringify(body)).not.toContain("trace");
  });
});

import { Tool } from "@toolrack/core";
import { estimateTokens } from "@toolrack/core/internal";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ServedRack, toolFile } from "../mcp/serve/testing/served-rack.ts";
import { searchAnswer } from "./meta-tools.ts";

let rack: ServedRack;
const COUNT = 130;

beforeAll(async () => {
  rack = await ServedRack.open({
    "toolrack.config.ts":
      "export default { builtins: false, code: { mode: 'off' }, mcp: { alwaysListed: ['tool_7'] } };",
    "tools/many.ts": `import { BusinessError, Tool } from "@toolrack/core";
export const tools = Array.from({ length: ${COUNT} }, (_, index) => Tool.define({
  name: "tool_" + index,
  description: "Does the thing number " + index + ".",
  parameters: { type: "object", properties: { n: { type: "number" } } },
  execute: async ({ input }) => "tool " + index + " got " + input.n,
}));
export const fails = Tool.define({
  name: "fails",
  parameters: { type: "object", properties: { how: { type: "string" } } },
  metadata: { timeout: 100 },
  execute: async ({ input }) => {
    if (input.how === "business") throw new BusinessError("No paper.", { data: { tray: 2 } });
    if (input.how === "slow") await new Promise(() => {});
    throw new Error("broken");
  },
});
export const counts = Tool.define({
  name: "counts",
  parameters: { type: "object", properties: {} },
  execute: async ({ progress }) => { progress(1, 2, "half"); return "counted"; },
});
`,
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const textOf = (result: unknown) => (result as { content: { text: string }[] }).content[0]!.text;

test("a client with more tools than the threshold is shown three and those that are always listed", async () => {
  const client = await rack.connect("modern");
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual([
    "tool_7",
    "toolrack_call",
    "toolrack_describe",
    "toolrack_search",
  ]);
  expect(client.getInstructions()).toContain("toolrack_search");
});

test("calls by any name work all the same", async () => {
  const client = await rack.connect("legacy");
  expect(textOf(await client.callTool({ name: "tool_99", arguments: { n: 1 } }))).toBe("tool 99 got 1");
  const through = { name: "tool_98", arguments: { n: 2 } };
  expect(textOf(await client.callTool({ name: "toolrack_call", arguments: through }))).toBe("tool 98 got 2");
});

test("every tool is found by its own name, as the first", async () => {
  const client = await rack.connect("modern");
  for (let index = 0; index < COUNT; index++) {
    const found = await client.callTool({ name: "toolrack_search", arguments: { query: `tool_${index}` } });
    const [server, first] = textOf(found).split("\n");
    expect(server).toBe("// this rack");
    expect(first).toBe(`tool_${index}(args: { n?: number }) // Does the thing number ${index}.`);
  }
});

test("whole schemas are answered for the tools that are named, and only for those that the caller may use", async () => {
  const token = await rack.issue({ tools: ["tool_1*"] });
  const client = await rack.connect("modern", {}, { token });
  const describe = (...names: string[]) =>
    client.callTool({ name: "toolrack_describe", arguments: { names } });
  const { structuredContent } = await describe("tool_1", "tool_12", "tool_1", "tool_2", "toolrack_call");
  const shown = (index: number) => ({
    name: `tool_${index}`,
    description: `Does the thing number ${index}.`,
    parameters: { type: "object", properties: { n: { type: "number" } } },
  });
  expect(structuredContent).toEqual({ tools: [shown(1), shown(12)], notFound: ["tool_2", "toolrack_call"] });
  const refused = await describe("tool_2");
  expect(refused.isError).toBe(true);
  expect(textOf(refused)).toMatch(/^There is no tool named "tool_2" that you may use\./);
  expect(textOf(refused)).not.toMatch(/tool_2\d/);
});

test("a token finds and reaches through them what it may use, and nothing else", async () => {
  const token = await rack.issue({ tools: ["tool_1*"] });
  const client = await rack.connect("modern", {}, { token });
  const found = await client.callTool({
    name: "toolrack_search",
    arguments: { query: "thing number", limit: 50 },
  });
  const [, ...lines] = textOf(found).split("\n");
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.every((line) => line.startsWith("tool_1"))).toBe(true);
  const refused = await client.callTool({
    name: "toolrack_call",
    arguments: { name: "tool_2", arguments: {} },
  });
  expect(refused.isError).toBe(true);
  const reached = await client.callTool({
    name: "toolrack_call",
    arguments: { name: "tool_12", arguments: { n: 3 } },
  });
  expect(textOf(reached)).toBe("tool 12 got 3");
});

test("who asks for a tool that there is not is told where the names are, and none that it may not know", async () => {
  const tokens = [rack.token, await rack.issue({ tools: ["tool_1*"] })];
  for (const [at, token] of tokens.entries()) {
    const client = await rack.connect("modern", {}, { token });
    for (const name of ["nothing_like_it", "counst", "tool_2000"]) {
      const refused = await client.callTool({ name: "toolrack_call", arguments: { name } });
      expect(refused.isError).toBe(true);
      expect(textOf(refused)).toContain(`There is no tool named "${name}"`);
      expect(textOf(refused)).not.toContain("called by");
      expect(refused._meta?.["toolrack/error"]).toMatchObject({ code: "tool_not_found" });
      expect(textOf(refused)).toContain("toolrack_search");
      expect(textOf(refused)).not.toContain("list of tools");
      if (at === 1) expect(textOf(refused)).not.toMatch(/counts|tool_2\b|tool_20\b/);
    }
  }
  const client = await rack.connect("modern");
  await expect(client.callTool({ name: "nothing_like_it" })).rejects.toThrow(
    /nothing_like_it.+toolrack_search/,
  );
});

test("a wrong argument is told in the words of the tool that was meant", async () => {
  const client = await rack.connect("modern");
  const args = { name: "tool_3", arguments: { n: "x" } };
  const result = await client.callTool({ name: "toolrack_call", arguments: args });
  expect(result.isError).toBe(true);
  expect(textOf(result)).toContain("tool_3");
});

test.each([{ how: "business" }, { how: "slow" }, { how: "other" }, { how: 5 }])(
  "a failure is told as the tool itself tells it: %j",
  async (args) => {
    const answered = async (name: string, given: object) => {
      const { message } = await rack.call("modern", name, given);
      // Only how long it took differs.
      return JSON.parse(JSON.stringify(message.result).replace(/"elapsed":\d+/, '"elapsed":0'));
    };
    const direct = await answered("fails", args);
    expect(direct._meta["toolrack/error"].details.toolName).toBe("fails");
    expect(await answered("toolrack_call", { name: "fails", arguments: args })).toEqual(direct);
  },
);

test("the time that a tool may take is its own, also when it is called through the meta-tool", async () => {
  await using own = await ServedRack.open({
    "toolrack.config.ts": "export default { builtins: false, timeout: 100 };",
    "tools/all.ts": toolFile(
      'name: "patient", metadata: { timeout: 60_000 }, execute: () => new Promise((resolve) => setTimeout(resolve, 300, "done"))',
    ),
  });
  const { message } = await own.call("modern", "toolrack_call", { name: "patient" });
  expect(textOf(message.result)).toBe("done");
});

test.each(["modern", "legacy"] as const)(
  "a %s client hears of the progress of what it calls through the meta-tool",
  async (era) => {
    const client = await rack.connect(era);
    const heard: unknown[] = [];
    const result = await client.callTool(
      { name: "toolrack_call", arguments: { name: "counts", arguments: {} } },
      { onprogress: (update) => void heard.push(update) },
    );
    expect(textOf(result)).toBe("counted");
    expect(heard).toEqual([{ progress: 1, total: 2, message: "half" }]);
  },
);

test("ten tools are answered in 600 tokens, however large their schemas are", () => {
  const tool = (at: number, members: number) =>
    Tool.define({
      name: `tool_number_${at}`,
      description: `Does ${"many different things ".repeat(members)} for you.`,
      parameters: {
        type: "object",
        properties: Object.fromEntries(
          Array.from({ length: members }, (_, index) => [
            `parameter_${index}`,
            { type: "object", properties: { kind: { enum: ["first", "second", "third"] }, size: {} } },
          ]),
        ),
        required: ["parameter_0"],
      },
      execute: async () => "",
    });
  const answer = searchAnswer(
    Array.from({ length: 10 }, (_, at) => tool(at, at === 0 ? 1 : 30)),
    10,
  );
  expect(estimateTokens(answer)).toBeLessThanOrEqual(600);
  const [, small, large] = answer.split("\n");
  // What is short is shown whole.
  expect(small).toContain('parameter_0: { kind?: "first" | "second" | "third"; size?: unknown } })');
  expect(large).toMatch(/^tool_number_1\(args: \{ parameter_0: object; .*… \}\) \/\/ Does many/);
  expect(answer.split("\n")).toHaveLength(11);
});

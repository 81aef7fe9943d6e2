import { afterAll, beforeAll, expect, test } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import { legacyCodec } from "./answers.ts";
import { Caller } from "./caller.ts";
import { type Era, ServedRack } from "./testing/served-rack.ts";
import { surfaceParts } from "./testing/surface-parts.ts";
import { toolListBytes } from "./tool-lists.ts";

let rack: ServedRack;
const COUNT = 2_345;

beforeAll(async () => {
  rack = await ServedRack.open({
    "toolrack.config.ts": "export default { builtins: false, mcp: { metaTools: 'off' } };",
    "tools/many.ts": `import { Tool } from "@toolrack/core";
export const tools = Array.from({ length: ${COUNT} }, (_, index) => Tool.define({
  name: "tool_" + index,
  parameters: { type: "object", properties: {} },
  execute: async () => String(index),
}));
`,
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

test.each<Era>(["modern", "legacy"])(
  "a long list comes to %s clients in pages, each tool once",
  async (era) => {
    const names: string[] = [];
    let cursor: string | undefined;
    do {
      const params = cursor === undefined ? {} : { cursor };
      const { message } = await rack.post(era, { jsonrpc: "2.0", id: 1, method: "tools/list", params });
      expect(message.result.tools.length).toBeLessThanOrEqual(1_000);
      names.push(...message.result.tools.map(({ name }: { name: string }) => name));
      cursor = message.result.nextCursor;
    } while (cursor !== undefined);
    const own = names.filter((name) => name.startsWith("tool_"));
    expect(own).toHaveLength(COUNT);
    expect(new Set(own).size).toBe(COUNT);
    expect(names).toEqual(names.toSorted());
  },
);

test("a cursor holds when the tool that it names is gone", async () => {
  const list = (params: object) =>
    rack.post("modern", { jsonrpc: "2.0", id: 1, method: "tools/list", params });
  const first = (await list({})).message.result;
  rack.serving.app.registry.unregister(first.tools.at(-1).name);
  const second = (await list({ cursor: first.nextCursor })).message.result;
  expect(second.tools[0].name > first.tools.at(-1).name).toBe(true);
});

test.each<Era>(["modern", "legacy"])(
  "a cursor of one list is refused by every other, for %s clients",
  async (era) => {
    const list = async (method: string, params: object) =>
      (await rack.post(era, { jsonrpc: "2.0", id: 1, method, params })).message;
    const cursor = (await list("tools/list", {})).result.nextCursor;
    for (const method of ["prompts/list", "resources/list", "resources/templates/list"]) {
      expect((await list(method, { cursor })).error.code).toBe(-32602);
    }
    expect((await list("tools/list", { cursor })).result.tools.length).toBeGreaterThan(0);
  },
);

test("what is kept of a list is its pages, whatever cursors come", async () => {
  const { serving } = await surfaceParts(rack);
  const caller = new Caller(masterGrant);
  const list = (cursor?: string) => toolListBytes(serving, caller, { codec: legacyCodec }, cursor);
  const whole = list();
  for (let index = 0; index < 20; index++) {
    const before = Buffer.from(`tools after:!${index}`).toString("base64url");
    expect(list(before)).toEqual(whole);
    const between = Buffer.from(`tools after:tool_1${index}!`).toString("base64url");
    expect(list(between)).toBeInstanceOf(Buffer);
  }
  expect(() => list("")).toThrow("not one of this list");
  expect(serving.lists.of(caller).pages.size).toBe(1);
});

import { afterAll, beforeAll, expect, test } from "vitest";
import { ServedRack, toolFile } from "../mcp/serve/testing/served-rack.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "toolrack.config.ts": "export default { builtins: false, server: { maxCallsPerTool: 2 } };",
    "tools/all.ts": toolFile(
      'name: "deletes", metadata: { dangerous: true }, execute: async () => "deleted"',
      'name: "echo", execute: async () => "echo"',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

test.each([
  ["a tool", "deletes", {}, "deletes", {}],
  ["the tool that calls others", "toolrack_call", { name: "deletes" }, "toolrack_call", { name: "echo" }],
])(
  "one caller's unanswered questions do not keep others from %s, but are only so many",
  async (_, name, args, otherName, otherArgs) => {
    const { approvals } = rack.serving.store;
    const greedy = { token: await rack.issue({ tools: ["*"] }) };
    const other = { token: await rack.issue({ tools: ["*"] }) };
    const waiting = [rack.call("modern", name, args, greedy), rack.call("modern", name, args, greedy)];
    await pending(2);
    const refused = await rack.call("modern", name, args, greedy);
    expect(JSON.stringify(refused.message)).toContain("wait for an answer");
    const call = rack.call("modern", otherName, otherArgs, other);
    if (otherName === "deletes") await pending(3);
    else expect((await call).message.result.content).toEqual([{ type: "text", text: "echo" }]);
    for (const { id } of (await approvals.list({ state: "pending", limit: 10 })).items) await allow(id);
    for (const { message } of await Promise.all([...waiting, call])) {
      expect(message.result.isError).toBeUndefined();
    }
  },
);

async function pending(count: number): Promise<void> {
  for (;;) {
    const { items } = await rack.serving.store.approvals.list({ state: "pending", limit: 10 });
    if (items.length >= count) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function allow(id: string): Promise<void> {
  const response = await fetch(`${rack.serving.url}/api/approvals/${id}`, {
    method: "POST",
    headers: { authorization: `Bearer ${rack.token}`, "content-type": "application/json" },
    body: JSON.stringify({ decision: "allow" }),
  });
  expect(response.status).toBe(200);
}

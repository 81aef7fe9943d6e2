import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { revisions, SUITE_LIMIT } from "../serve/testing/conformance-suite.ts";
import type { ServedRack } from "../serve/testing/served-rack.ts";
import { EverythingServer } from "./testing/everything-server.fixture.ts";
import { conforms, rackBefore } from "./testing/gateway.fixture.ts";

let everything: EverythingServer;
let rack: ServedRack;

beforeAll(async () => {
  everything = await EverythingServer.start();
  rack = await rackBefore({ url: everything.url });
}, SUITE_LIMIT);

afterAll(async () => {
  await rack[Symbol.asyncDispose]();
  await everything[Symbol.asyncDispose]();
}, SUITE_LIMIT);

test.each(revisions)(
  "a server at an address passes all that %s requires, through the rack",
  (revision) => conforms(rack, revision),
  SUITE_LIMIT,
);

describe("through the rack", { timeout: 60_000 }, () => {
  const asked = { _meta: { "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } } } };

  function call(name: string, params: object = {}, through = rack) {
    const message = {
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name, arguments: {}, ...params },
    };
    return through.post("modern", message);
  }

  test("a protocol error of a server has its code, its data and the status of its code", async () => {
    const { status, message } = await call("test_missing_capability");
    expect([status, message.error]).toMatchObject([
      400,
      { code: -32021, data: { requiredCapabilities: { sampling: {} } } },
    ]);
    const refused = await call("test_refusal", { arguments: { code: -32602 } });
    expect([refused.status, refused.message.error]).toMatchObject([
      200,
      { code: -32602, data: { why: "said so" } },
    ]);
    expect(refused.message.error.message).toContain('The MCP server "every" refused the call: No.');
  });

  test.each([-32601, -32600, -32020, -32022])(
    "an error about the rack's own connection, %i, is a failed call and nothing that the client did wrong",
    async (code) => {
      const { status, message } = await call("test_refusal", { arguments: { code } });
      expect([status, message.error, message.result.isError]).toEqual([200, undefined, true]);
      expect(message.result.content[0].text).toContain(`(code ${code})`);
    },
  );

  test("questions have the keys of the server, in each round", async () => {
    const inputResponses = { again: { action: "accept", content: { name: "Ada" } } };
    const first = (await call("test_same_key", asked)).message.result;
    expect(first.inputRequests).toMatchObject({ again: { params: { message: "Round 1?" } } });
    expect(JSON.stringify(first.inputRequests)).not.toContain("toolrack/key");
    const once = { ...asked, requestState: first.requestState, inputResponses };
    const second = (await call("test_same_key", once)).message.result;
    expect(second.inputRequests).toMatchObject({ again: { params: { message: "Round 2?" } } });
    const twice = { ...asked, requestState: second.requestState, inputResponses };
    expect((await call("test_same_key", twice)).message.result.content[0].text).toBe("Asked twice.");
  });

  test("the client's token for progress stays with the rack, which sends its own", async () => {
    const { message } = await call("test_tool_with_progress", { _meta: { progressToken: "mine" } });
    expect(message.result.content[0].text).toMatch(/^\d+$/);
  });

  test("the server's token for progress of a question stays with the rack", async () => {
    await using old = await rackBefore({ url: everything.url }, { protocol: "2025-11-25" });
    const { message } = await call("test_input_required_result_elicitation", asked, old);
    const [question] = Object.values<{ params: object }>(message.result.inputRequests);
    expect(question?.params).toMatchObject({ message: "What is your name?" });
    expect(JSON.stringify(question)).not.toContain("progressToken");
  });
});

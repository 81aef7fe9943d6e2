import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "text", execute: async () => "Some text with \\"quotes\\", \\u2028 and 中文."',
      'name: "empty", execute: async () => ""',
      'name: "nothing", execute: async () => undefined',
      'name: "object", execute: async () => ({ a: 1, b: [true, null] })',
      'name: "list", execute: async () => [1, 2]',
      'name: "number", outputSchema: { type: "number" }, execute: async () => 5',
      'name: "shaped", title: "Shaped", outputSchema: { type: "object", properties: { a: { type: "number" } } }, execute: async () => ({ a: 1 })',
      'name: "long", outputSchema: { type: "object" }, execute: async () => ({ a: "0123456789".repeat(30_000) })',
      'name: "huge", outputSchema: { type: "object" }, execute: async () => ({ a: "0123456789".repeat(200_000) })',
      'name: "image", execute: async () => ({ content: [{ type: "image", data: "AAAA", mimeType: "image/png" }] })',
      'name: "blocks", execute: async () => ({ content: [{ type: "text", text: "a", annotations: { priority: 1 } }, { type: "text", text: "b" }], _meta: { x: 1 } })',
      'name: "fails", execute: async () => { throw new Error("No."); }',
      'name: "needs", parameters: { type: "object", properties: { n: { type: "number" } }, required: ["n"] }, execute: async ({ input }) => String(input.n)',
      'name: "asks", execute: async ({ elicit }) => JSON.stringify(await elicit("Really?"))',
      'name: "wants", execute: async ({ client, signal }) => client.request("sampling/createMessage", { messages: [], maxTokens: 1 }, signal)',
      'name: "says", execute: async ({ client }) => { client?.notify("notifications/message", { level: "error", data: "x" }); return "said"; }',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const call = (name: unknown, others: object = {}) => ({
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: { name, arguments: {}, ...others },
});
const list = (others: object = {}) => ({ jsonrpc: "2.0", id: 1, method: "tools/list", ...others });

const messages: Record<string, object> = {
  list: list({ params: {} }),
  "list without parameters": list(),
  "list with a cursor that is none": list({ params: { cursor: "nonsense" } }),
  "list with an empty cursor": list({ params: { cursor: "" } }),
  "list with a cursor of another kind": list({ params: { cursor: 5 } }),
  text: call("text"),
  "an empty text": call("empty"),
  "no result": call("nothing"),
  "an object": call("object"),
  "a list": call("list"),
  "a number that the schema promises": call("number"),
  "an object that the schema promises": call("shaped"),
  "a long object that the schema promises": call("long"),
  "an object that the schema promises and no answer can carry": call("huge"),
  "an image": call("image"),
  "several blocks": call("blocks"),
  "a failure": call("fails"),
  "arguments that do not fit": call("needs", { arguments: { n: "x" } }),
  "arguments that fit": call("needs", { arguments: { n: 5 } }),
  "arguments of another kind": call("needs", { arguments: [5] }),
  "no arguments": { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "text" } },
  "arguments that are null": call("text", { arguments: null }),
  "an unknown tool": call("txet"),
  "a name of another kind": call(5),
  "a name that is missing": call(undefined),
  "more than the protocol knows": call("text", { more: true }),
  "a trace": call("text", {
    _meta: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
  }),
  "a question": call("asks"),
  "a question that nobody can be asked": call("wants"),
  "a line of a log": call("says"),
  "an id that is a text": { ...call("text"), id: 'a "b"' },
  "an id that is no whole number": { ...call("text"), id: 1.5 },
  "an id that is null": { ...call("text"), id: null },
  "another version of JSON-RPC": { ...call("text"), jsonrpc: "1.0" },
  "a member that JSON-RPC has not": { ...call("text"), more: 1 },
  "capabilities of another kind": call("text", {
    _meta: { "io.modelcontextprotocol/clientCapabilities": 5 },
  }),
  "a client without a name": call("text", {
    _meta: { "io.modelcontextprotocol/clientInfo": { version: "1" } },
  }),
  "a version that there is not": call("text", {
    _meta: { "io.modelcontextprotocol/protocolVersion": "1999-01-01" },
  }),
};

describe.each<Era>(["modern", "legacy"])("in the %s era", (era) => {
  test.each(Object.keys(messages))("%s is answered as the protocol says", async (name) => {
    const { status, text } = await rack.post(era, messages[name]!);
    // Every call has an id of its own, and a state that nobody else can make.
    const own = text
      .replaceAll(/"requestState":"[^"]+"/g, '"requestState":""')
      .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "(call)")
      .replaceAll(/"version":"[^"]+"/g, '"version":""');
    const cut = own.length > 3_000 ? `${own.slice(0, 300)} … ${own.slice(-1_500)}` : own;
    expect(`${status} ${cut}`).toMatchSnapshot();
  });
});

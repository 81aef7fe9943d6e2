import { afterAll, beforeAll, expect, test } from "vitest";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;
/** Each of these characters is written as two, so that every other place is in the middle of one. */
const FACES = 80_000;

/** A tool of the toolbox contract, whose output schema describes its data. */
function toolbox(name: string, outputCheck: string | undefined, text: string): string {
  const outputSchema = { type: "object", properties: { total: { type: "number" } }, required: ["total"] };
  const metadata = outputCheck && { outputCheck };
  const schema = { name, description: "d", type: "object", properties: {}, outputSchema, metadata };
  return `export const schema = ${JSON.stringify(schema)};
    export default async () => ({ content: [{ type: "text", text: ${text} }] });`;
}

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(`name: "faces", execute: async () => "x" + "😀".repeat(${FACES})`),
    "tools/rows.ts": toolbox("rows", "strict", "JSON.stringify({ total: 2 }, null, 2)"),
    "tools/words.ts": toolbox("words", undefined, '"two rows"'),
    "tools/data.ts": toolbox("data", undefined, "{ total: 2 }"),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

async function read(uri: string) {
  const request = { jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri } };
  const { message } = await rack.post("modern", request);
  const [part] = message.result.contents;
  return { text: part.text as string, meta: part._meta as Record<string, unknown> };
}

async function callFaces(): Promise<string> {
  const { message } = await rack.call("modern", "faces");
  return message.result.content.find(({ type }: { type: string }) => type === "resource_link").uri;
}

test("no part of a long result begins or ends within a character", async () => {
  let next: unknown = await callFaces();
  let whole = "";
  while (typeof next === "string") {
    const { text, meta } = await read(next);
    expect([text.isWellFormed(), meta["toolrack/offset"]]).toEqual([true, whole.length]);
    whole += text;
    next = meta["toolrack/next"];
  }
  expect(whole === `x${"😀".repeat(FACES)}`).toBe(true);
});

test("who asks for the middle of a character is given the whole of it, and is told where it begins", async () => {
  const uri = await callFaces();
  const { text, meta } = await read(`${uri}?offset=2`);
  expect([text.isWellFormed(), text.startsWith("😀"), meta["toolrack/offset"]]).toEqual([true, true, 1]);
  expect((await read(`${uri}?offset=3`)).meta["toolrack/offset"]).toBe(3);
});

test.each<Era>(["modern", "legacy"])(
  "%s clients can call a tool whose output schema describes its data, whatever it returns as text",
  async (era) => {
    const client = await rack.connect(era);
    const { tools } = await client.listTools();
    const promised = tools.filter(({ outputSchema }) => outputSchema !== undefined).map(({ name }) => name);
    // Only this one promises that its results fit.
    expect(promised).toEqual(["rows"]);
    expect(await client.callTool({ name: "rows", arguments: {} })).toMatchObject({
      content: [{ type: "text", text: '{\n  "total": 2\n}' }],
      structuredContent: { total: 2 },
    });
    expect(await client.callTool({ name: "words", arguments: {} })).toMatchObject({
      content: [{ type: "text", text: "two rows" }],
    });
    expect(await client.callTool({ name: "data", arguments: {} })).toMatchObject({
      content: [{ type: "text", text: '{"total":2}' }],
      structuredContent: { total: 2 },
    });
  },
);

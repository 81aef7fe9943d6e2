import { afterAll, beforeAll, expect, test } from "vitest";
import { openLegacySession } from "./testing/legacy-session.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";
import { StdioPeer } from "./testing/stdio-peer.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

let rack: ServedRack;
const eras: Era[] = ["modern", "legacy"];

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": `${toolFile('name: "quick", execute: async () => "quick"')}
export const offers = [Prompt.define({ name: "greet", arguments: [{ name: "who" }], messages: ({ who }) => "Hello " + who })];
`,
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const request = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params });

test.each(eras)("in the %s era parameters that do not fit are told of in a sentence", async (era) => {
  const wrong: [string, object, RegExp][] = [
    [
      "prompts/get",
      { name: "greet", arguments: { who: 5 } },
      /^The parameters of prompts\/get do not fit: arguments\.who: .+string.+\.$/,
    ],
    ["resources/read", { uri: 5 }, /^The parameters of resources\/read do not fit: uri: .+string.+\.$/],
    [
      "tools/call",
      { name: "quick", arguments: [5] },
      /^The parameters of tools\/call do not fit: arguments: .+\.$/,
    ],
  ];
  for (const [method, params, sentence] of wrong) {
    const { message } = await rack.post(era, request(method, params));
    expect(message.error).toEqual({ code: -32602, message: expect.stringMatching(sentence) });
    expect(message.error.message).not.toMatch(/[[{]/);
  }
});

test("a level that there is not is told of in a sentence, and is not taken", async () => {
  const session = await openLegacySession(rack);
  const { message } = await session.post(request("logging/setLevel", { level: "loud" }));
  expect(message.error.code).toBe(-32602);
  expect(message.error.message).toMatch(
    /^The parameters of logging\/setLevel do not fit: level: .+"debug".+\.$/,
  );
});

test("a resource that there is not has the code of the client's version", async () => {
  const read = request("resources/read", { uri: "note://none" });
  const missing = (code: number) => ({
    code,
    message: expect.stringContaining("note://none"),
    data: { uri: "note://none" },
  });
  expect((await rack.post("modern", read)).message.error).toEqual(missing(-32602));
  expect((await rack.post("legacy", read)).message.error).toEqual(missing(-32002));
  const session = await openLegacySession(rack);
  expect((await session.post(read)).message.error).toEqual(missing(-32002));
  const surface = await surfaceParts(rack);
  const peer = new StdioPeer();
  const connection = await surface.stdio(peer.streams);
  await peer.initialize();
  peer.send(read);
  expect((await peer.next(({ id }) => id === 1)).error).toEqual(missing(-32002));
  peer.send(request("resources/subscribe", { uri: "note://none" }));
  expect((await peer.next(({ id }) => id === 1)).error).toEqual(missing(-32002));
  await connection.close();
});

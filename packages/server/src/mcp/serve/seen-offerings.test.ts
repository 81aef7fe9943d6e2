import { afterAll, beforeAll, expect, test } from "vitest";
import type { OfferingChange } from "../../calls/offering-source.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;
let tell = (_: OfferingChange) => {};
const eras: Era[] = ["modern", "legacy"];

const offers = `import { Prompt, Resource } from "@toolrack/core";
export const all = ["weather_note", "secret_note"].flatMap((name) => [
  Prompt.define({ name, messages: () => "text of " + name }),
  Resource.define({ uri: "note://" + name, name, read: () => "text of " + name }),
  Resource.define({ uriTemplate: "many://" + name + "/{id}", name, read: ({ id }) => name + " " + id }),
]);
`;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile('name: "weather_now", execute: async () => "sunny"'),
    "tools/offers.ts": offers,
  });
  await rack.serving.app.skills.experts.create({ name: "Forecaster", tools: ["weather_*", "mcp_sky_*"] });
  // Named as those of other servers are.
  rack.serving.app.offerings.add({
    key: "mcp:several",
    prompts: ({ mayUse }) => ["mcp_sky_look", "mcp_bank_look"].map((name) => ({ name })).filter(mayUse),
    resources: ({ mayUse }) =>
      ["mcp_sky_blue", "mcp_bank_gold"].map((name) => ({ name, uri: `up://${name}` })).filter(mayUse),
    readResource: async (uri) => ({ contents: [{ uri, text: "read" }] }),
    watchResource: () => () => {},
    subscribe(listener) {
      tell = listener;
      return () => {};
    },
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

test.each(["a token for the expert alone", "the operator's own token"])(
  "at an expert's address %s sees and reads the prompts and resources that its patterns name, and no others",
  async (who) => {
    const isOperator = who.startsWith("the operator");
    const token = isOperator ? rack.token : await rack.issue({ experts: ["Forecaster"] });
    const client = await rack.connect("modern", {}, { token, path: "/mcp/Forecaster" });
    const namesOf = (items: readonly { name: string }[]) => items.map(({ name }) => name).toSorted();
    expect(namesOf((await client.listPrompts()).prompts)).toEqual(["mcp_sky_look", "weather_note"]);
    expect(namesOf((await client.listResources()).resources)).toEqual(["mcp_sky_blue", "weather_note"]);
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(namesOf(resourceTemplates)).toEqual(["call-result", "weather_note"]);
    expect((await client.readResource({ uri: "note://weather_note" })).contents).toHaveLength(1);
    expect((await client.readResource({ uri: "many://weather_note/1" })).contents).toHaveLength(1);
    for (const uri of ["note://secret_note", "many://secret_note/1", "up://mcp_bank_gold"]) {
      await expect(client.readResource({ uri })).rejects.toThrow(/not found/);
    }
    await expect(client.getPrompt({ name: "secret_note" })).rejects.toThrow(/no prompt/);
    const ref = { type: "ref/prompt" as const, name: "secret_note" };
    await expect(client.complete({ ref, argument: { name: "a", value: "" } })).rejects.toThrow(/no such/);
  },
);

test.each(eras)("a %s client is told of changes of what it may read, and of nothing else", async (era) => {
  const token = await rack.issue({ tools: ["mcp_sky_*"] });
  const uris = ["up://mcp_bank_gold", "up://mcp_sky_blue"];
  // Somebody else watches all of them, so that changes are told at all.
  const operator = await rack.connect("modern");
  await operator.listen({ resourceSubscriptions: uris });
  const client = await rack.connect(era, {}, { token });
  const heard: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
    heard.push(params.uri);
    resolve();
  });
  if (era === "modern") await client.listen({ resourceSubscriptions: uris });
  else {
    await expect(client.subscribeResource({ uri: uris[0]! })).rejects.toThrow(/not found/);
    await client.subscribeResource({ uri: uris[1]! });
  }
  await new Promise((wait) => setTimeout(wait, 300));
  for (const uri of uris) tell({ kind: "resource", uri });
  await promise;
  expect(heard).toEqual(["up://mcp_sky_blue"]);
  await client.close();
  await operator.close();
});

test("a session watches only so many resources", async () => {
  rack.serving.app.offerings.add({
    key: "many",
    resourceTemplates: () => [{ name: "many", uriTemplate: "much://{id}" }],
    watchResource: () => () => {},
  });
  const client = await rack.connect("legacy");
  for (let id = 0; id < 256; id++) await client.subscribeResource({ uri: `much://${id}` });
  await expect(client.subscribeResource({ uri: "much://more" })).rejects.toThrow(/256 resources/);
  await client.unsubscribeResource({ uri: "much://0" });
  await client.subscribeResource({ uri: "much://more" });
});

test("what a client would listen to and did not write as a list is refused by the protocol's own error", async () => {
  const params = { notifications: { resourceSubscriptions: 5 } };
  const answer = await rack.post("modern", { jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params });
  expect(answer.status).toBeLessThan(500);
  expect(answer.message).toMatchObject({ jsonrpc: "2.0", id: 1, error: { code: -32602 } });
});

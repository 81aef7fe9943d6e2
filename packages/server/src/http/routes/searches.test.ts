import { Tool } from "@toolrack/core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
const secret = "k3y-of-the-house";
let token: { readonly mine: string; readonly other: string; readonly limited: string };

const named = (name: string, description: string) =>
  Tool.define({ name, description, parameters: { type: "object" }, execute: async () => "done" });

beforeEach(async () => {
  const tools = [
    named("refund_order", "Gives the money of an order back."),
    named("order_report", "Lists each order of a month, for the bookkeeping of an order."),
    named("order_label", "Prints an order."),
  ];
  server = await TestServer.start({
    tools: [...sampleTools().tools, ...tools],
    open: { secrets: () => [secret] },
  });
  token = {
    mine: await server.issue({ tools: ["*"] }, { name: "mine" }),
    other: await server.issue({ tools: ["*"] }, { name: "other" }),
    limited: await server.issue({ tools: ["order_report", "add"] }, { name: "limited" }),
  };
});
afterEach(() => server[Symbol.asyncDispose]());

const search = async (words: string, bearer: string) => {
  const { body } = await server.ask(`/api/tools?q=${encodeURIComponent(words)}`, { token: bearer });
  return body.items.map(({ name }: { name: string }) => name);
};
const call = (name: string, bearer: string, args: object = {}) =>
  server.ask(`/api/tools/${name}/calls`, { method: "POST", token: bearer, body: { arguments: args } });
const learned = async (bearer?: string) => {
  const { body } = await server.ask("/api/searches", bearer === undefined ? {} : { token: bearer });
  return body.items.map(
    ({ query, toolName }: { query: string; toolName: string }) => `${query} > ${toolName}`,
  );
};

it("a search that was followed by a call of what it had shown helps everybody, and is shown to its owner alone", async () => {
  const words = "trouble with an order of this month";
  expect((await search(words, token.mine))[0]).not.toBe("refund_order");
  await call("refund_order", token.mine);
  expect(await learned(token.mine)).toEqual([`${words} > refund_order`]);
  expect(await learned(token.other)).toEqual([]);
  expect(await learned()).toEqual([`${words} > refund_order`]);
  expect((await search(words, token.other))[0]).toBe("refund_order");
  expect((await search("an order made trouble last month", token.other))[0]).toBe("refund_order");
});

it("nobody is shown a tool that they may not use, whatever was learned", async () => {
  await search("trouble with an order of this month", token.mine);
  await call("refund_order", token.mine);
  expect(await search("trouble with an order of this month", token.limited)).toEqual(["order_report"]);
});

it("nothing is learned of calls that fail, that no search came before, or that it had not shown", async () => {
  await call("add", token.mine, { a: 1 });
  await search("always fails", token.mine);
  await call("fail", token.mine);
  await call("add", token.mine, { a: 1 });
  // What one token searched for says nothing about the calls of another.
  await search("adds two numbers", token.mine);
  await call("add", token.other, { a: 1 });
  expect(await learned()).toEqual([]);
});

it("keeps the words and the tool, counts, and nothing of the arguments", async () => {
  for (const note of ["first", "second"]) {
    await search("Adds numbers", token.mine);
    await call("add", token.mine, { a: 4711, note });
  }
  const { body } = await server.ask("/api/searches", { token: token.mine });
  expect(body).toMatchObject({ learning: true, total: 1, items: [{ query: "Adds numbers", uses: 2 }] });
  const rows = JSON.stringify(await server.store.searches.list());
  expect(rows).not.toMatch(/4711|first|second/);
});

it("a search with a secret in it is not kept", async () => {
  await search(`add numbers ${secret}`, token.mine);
  await call("add", token.mine, { a: 1 });
  expect(await learned()).toEqual([]);
});

it("a search of very many characters is not kept, nor held until a call comes", async () => {
  await search(`adds numbers ${"and more ".repeat(300)}`, token.mine);
  await call("add", token.mine, { a: 1 });
  expect(await learned()).toEqual([]);
  await search(`adds numbers ${"and more ".repeat(100)}`, token.mine);
  await call("add", token.mine, { a: 1 });
  expect(await learned()).toHaveLength(1);
});

it("is forgotten one by one or as a whole, each by its owner or an admin", async () => {
  for (const bearer of [token.mine, token.other]) {
    await search("adds numbers", bearer);
    await call("add", bearer, { a: 1 });
  }
  const { body } = await server.ask("/api/searches", { token: token.mine });
  const path = `/api/searches/${body.items[0].id}`;
  const hidden = await server.ask(path, { method: "DELETE", token: token.other });
  expect([hidden.status, hidden.body.error.code]).toEqual([404, "search_not_found"]);
  expect((await server.ask(path, { method: "DELETE", token: token.mine })).status).toBe(200);
  expect(await learned()).toHaveLength(1);
  const cleared = await server.ask("/api/searches", { method: "DELETE", token: token.mine });
  expect(cleared.body).toEqual({ count: 0 });
  expect((await server.ask("/api/searches", { method: "DELETE" })).body).toEqual({ count: 1 });
  expect(await learned()).toEqual([]);
});

it("can be switched off by an admin: what was learned stays and helps nobody, and nothing is added", async () => {
  const words = "trouble with an order of this month";
  const before = await search(words, token.mine);
  await call("refund_order", token.mine);
  expect((await search(words, token.mine))[0]).toBe("refund_order");
  const refused = await server.ask("/api/searches", {
    method: "PATCH",
    token: token.mine,
    body: { learning: false },
  });
  expect(refused.status).toBe(403);
  const off = await server.ask("/api/searches", { method: "PATCH", body: { learning: false } });
  expect(off.body).toEqual({ learning: false });
  expect(await search(words, token.mine)).toEqual(before);
  await call("order_label", token.mine);
  expect(await learned()).toEqual([`${words} > refund_order`]);
  await server.ask("/api/searches", { method: "PATCH", body: { learning: true } });
  expect((await search(words, token.mine))[0]).toBe("refund_order");
});

it("what another server of the workspace has learned or forgotten arrives", async () => {
  const words = "trouble with an order of this month";
  await search(words, token.mine);
  await server.store.searches.add({ query: words, toolName: "refund_order", owner: "somebody" });
  await expect
    .poll(async () => (await search(words, token.mine))[0], { timeout: 20_000 })
    .toBe("refund_order");
  await server.store.searches.remove({});
  await expect
    .poll(async () => (await search(words, token.mine))[0], { timeout: 20_000 })
    .not.toBe("refund_order");
});

it("what somebody searched for is not found by its words alone: a word that no tool has finds nothing", async () => {
  await search("refund the order of project Quillfeather", token.mine);
  await call("refund_order", token.mine);
  expect(await learned()).toHaveLength(1);
  expect(await search("Quillfeather", token.other)).toEqual([]);
});

it("one caller that searches very much drowns neither what others have taught nor what they are kept in", async () => {
  const words = "trouble with an order of this month";
  await search(words, token.mine);
  await call("refund_order", token.mine);
  for (let index = 0; index < 2_100; index++)
    await server.store.searches.add({
      query: `${words} ${index}`,
      toolName: "order_label",
      owner: "spammer",
    });
  await server.store.searches.trim();
  const { length } = await server.store.searches.list({ owner: "spammer" });
  // Those of the same millisecond go together.
  expect(length).toBeGreaterThan(1_900);
  expect(length).toBeLessThanOrEqual(2_000);
  expect(await learned(token.mine)).toEqual([`${words} > refund_order`]);
  // The server reads anew what was written past it.
  for (const learning of [false, true])
    await server.ask("/api/searches", { method: "PATCH", body: { learning } });
  expect((await search(words, token.other)).slice(0, 2)).toContain("refund_order");
});

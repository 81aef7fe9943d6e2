import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { z } from "zod";
import { StreamReader, sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
let events: StreamReader;

beforeAll(async () => {
  server = await TestServer.start({ tools: [...sampleTools().tools, erase], inbox: true });
  events = new StreamReader(await server.fetch("/api/events"));
  await events.until("ready");
});

afterAll(async () => {
  await events.cancel();
  await server[Symbol.asyncDispose]();
});

const erase = Tool.define({
  name: "erase",
  description: "Is dangerous to one disk.",
  parameters: z.object({ disk: z.string() }),
  metadata: { dangerous: true },
  execute: async ({ input }) => `erased ${input.disk}`,
});

/** The next question, as the event feed tells of it. */
async function question(): Promise<{ id: string; callId: string }> {
  for (;;) {
    const { data } = await events.until("approval.changed");
    if (data.state === "pending") return data;
  }
}

const decide = (id: string, body: object, token?: string) =>
  server.ask(`/api/approvals/${id}`, { method: "POST", body, ...(token === undefined ? {} : { token }) });

it("lets a call go on when it is allowed, and answers a second decision with 409", async () => {
  const call = server.call("wipe");
  const { id, callId } = await question();
  expect((await server.ask("/api/approvals")).body.items).toMatchObject([{ id, callId, state: "pending" }]);
  expect((await decide(id, { decision: "allow" })).body).toMatchObject({
    state: "allowed",
    decidedBy: "http",
  });
  expect((await call).body.result.content).toBe("wiped");
  const { stages } = (await server.ask(`/api/calls/${callId}`)).body;
  expect(stages.map(({ name }: { name: string }) => name)).toEqual(["validate", "approve", "run", "after"]);

  const second = await decide(id, { decision: "deny" });
  expect(second.status).toBe(409);
  expect(second.body.error).toMatchObject({ code: "approval_decided", details: { state: "allowed" } });
  expect((await server.ask("/api/approvals")).body.items).toEqual([]);
  expect((await server.ask("/api/approvals?state=all")).body.items).toHaveLength(1);
  expect((await server.ask(`/api/approvals/${id}`)).body.state).toBe("allowed");
});

it("tells whoever may approve that questions changed, without saying which, and nobody else", async () => {
  const tokens = [await server.issue({ approve: ["erase"] }), await server.issue({ tools: ["add"] })];
  const [approver, other] = await Promise.all(
    tokens.map(async (token) => new StreamReader(await server.fetch("/api/events", { token }))),
  );
  const call = server.call("wipe");
  const { id } = await question();
  expect((await approver!.until("approval.changed")).data).toEqual({});
  await decide(id, { decision: "deny" });
  await call;
  const body = { arguments: { a: 1 } };
  await server.ask("/api/tools/add/calls", { method: "POST", body, token: tokens[1]! });
  const heard: string[] = [];
  while (heard.at(-1) !== "call.completed") heard.push((await other!.next())!.event);
  expect(heard).not.toContain("approval.changed");
  for (const reader of [approver, other]) await reader!.cancel();
});

it("hands the reason of a denial to the caller", async () => {
  const call = server.call("wipe");
  const { id } = await question();
  await decide(id, { decision: "deny", reason: "not on a Friday" });
  const { status, body } = await call;
  expect(status).toBe(403);
  expect(body.error.message).toContain("not on a Friday");
});

it("shows a call that waits as under way, like a list of calls does, and can cancel it", async () => {
  const call = server.call("wipe", {}, { callId: "waits" });
  const { id } = await question();
  expect((await server.ask("/api/calls/waits")).body.status).toBe("running");
  expect((await server.ask("/api/calls/waits", { method: "DELETE" })).status).toBe(200);
  expect((await call).body.result.error.code).toBe("cancelled");
  await expect.poll(async () => (await server.ask(`/api/approvals/${id}`)).body.state).toBe("denied");
  expect((await decide(id, { decision: "allow" })).status).toBe(409);
});

it("closes a question whose caller went away", async () => {
  const gone = new AbortController();
  const call = server.call("wipe", {}, {}, { signal: gone.signal }).catch(() => {});
  const { id } = await question();
  gone.abort();
  await call;
  await expect.poll(async () => (await server.ask(`/api/approvals/${id}`)).body.state).toBe("denied");
});

it("makes an answer a rule of the session, which can be listed and taken back", async () => {
  const call = server.call("wipe", {}, { sessionID: "s1" });
  const { id } = await question();
  await decide(id, { decision: "allow", scope: "session" });
  await call;
  expect((await server.call("wipe", {}, { sessionID: "s1" })).body.result.content).toContain("wiped");
  const { items } = (await server.ask("/api/approval-rules")).body;
  expect(items).toMatchObject([{ tool: "wipe", sessionID: "s1", caller: "http", decision: "allow" }]);
  // Another caller that names the same session is asked all the same.
  const token = await server.issue({ tools: ["wipe"] });
  const stranger = server.call("wipe", {}, { sessionID: "s1" }, { token });
  await decide((await question()).id, { decision: "deny" });
  expect((await stranger).status).toBe(403);

  const path = `/api/approval-rules/${items[0].id}`;
  expect((await server.ask(path, { method: "DELETE" })).status).toBe(200);
  expect((await server.ask(path, { method: "DELETE" })).status).toBe(404);
  const rule = { tool: "wi*", decision: "deny" };
  const added = await server.ask("/api/approval-rules", { method: "POST", body: rule });
  expect(added.status).toBe(200);
  expect((await server.call("wipe")).status).toBe(403);
  await server.ask(`/api/approval-rules/${added.body.id}`, { method: "DELETE" });
});

it("makes an answer a rule for exactly the arguments that were agreed to, and remembers what was agreed", async () => {
  const call = server.call("erase", { disk: "*" });
  const { id } = await question();
  const pattern = { arguments: { disk: "[*]" }, exact: true };
  const decided = await decide(id, { decision: "allow", scope: "always", pattern });
  const rule = { tool: "erase", input: { disk: "[*]" }, exact: true };
  expect(decided.body.rule).toEqual(rule);
  await call;
  expect((await server.call("erase", { disk: "*" })).body.result.content).toContain("erased");
  const { items } = (await server.ask("/api/approval-rules")).body;
  expect(items).toMatchObject([rule]);
  const other = server.call("erase", { disk: "sda" });
  await decide((await question()).id, { decision: "deny" });
  expect((await other).status).toBe(403);
  await server.ask(`/api/approval-rules/${items[0].id}`, { method: "DELETE" });
  expect((await server.ask(`/api/approvals/${id}`)).body.rule).toEqual(rule);
  const vague = { tool: "erase", decision: "allow", exact: true };
  expect((await server.ask("/api/approval-rules", { method: "POST", body: vague })).status).toBe(400);
});

it("refuses what makes no sense, and leaves the question open", async () => {
  const call = server.call("wipe");
  const { id } = await question();
  for (const body of [
    {},
    { decision: "maybe" },
    { decision: "deny", arguments: {} },
    { decision: "allow", scope: "session" },
    { decision: "allow", pattern: { tool: "*" } },
    { decision: "allow", scope: "always", pattern: { exact: true } },
  ]) {
    expect((await decide(id, body)).status).toBe(400);
  }
  expect((await decide("nothing", { decision: "allow" })).body.error.code).toBe("approval_not_found");
  await decide(id, { decision: "allow" });
  expect((await call).status).toBe(200);
});

it("is for admins: who may call a tool may not consent to it", async () => {
  const token = await server.issue({ tools: ["*"] });
  const call = server.call("wipe", {}, {}, { token });
  const { id } = await question();
  expect((await decide(id, { decision: "allow" }, token)).status).toBe(403);
  expect((await server.fetch("/api/approvals", { token })).status).toBe(403);
  expect((await server.fetch("/api/approval-rules", { token })).status).toBe(403);
  await decide(id, { decision: "allow" });
  expect((await call).body.result.content).toBe("wiped");
});

import { ToolRegistry } from "@toolrack/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import { StreamReader } from "../../http/server.fixture.ts";
import { Caller, ConnectedClients } from "./caller.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;
beforeAll(async () => {
  rack = await ServedRack.open({ "tools/one.ts": toolFile(`name: "one", execute: async () => "1"`) });
});
afterAll(() => rack[Symbol.asyncDispose]());

async function list(): Promise<Record<string, unknown>[]> {
  const response = await fetch(`${rack.serving.url}/api/clients`, {
    headers: { authorization: `Bearer ${rack.token}` },
  });
  return ((await response.json()) as { items: Record<string, unknown>[] }).items;
}

it("knows the clients of both eras, and which of them hold an old list of tools", async () => {
  expect(await list()).toEqual([]);
  const token = await rack.issue({ tools: ["*"] });
  const legacy = await rack.connect("legacy");
  const modern = await rack.connect("modern", {}, { token });
  await legacy.listTools();
  await modern.listTools();
  const before = await list();
  expect(before).toHaveLength(2);
  for (const era of ["legacy", "modern"]) {
    expect(before).toContainEqual({
      name: "tester",
      version: "1",
      transport: "http",
      era,
      caller: era === "legacy" ? "http" : expect.stringMatching(/^tester_/),
      lastSeenAt: expect.any(Number),
    });
  }

  await rack.workspace.write("tools/two.ts", toolFile(`name: "two", execute: async () => "2"`));
  await rack.serving.app.files.load();
  // Not with the client, which may keep the list that it has for a while.
  await rack.post("modern", { jsonrpc: "2.0", id: 1, method: "tools/list" }, { token });
  const after = await list();
  expect(after.filter(({ stale }) => stale).map(({ era }) => era)).toEqual(["legacy"]);
  expect(after[0]?.era).toBe("modern");
});

it("tells admins, and nobody else, when a client connects", async () => {
  const follow = async (token: string) => {
    const response = await fetch(`${rack.serving.url}/api/events`, {
      headers: { authorization: `Bearer ${token}` },
    });
    const events = new StreamReader(response);
    await events.until("ready");
    return events;
  };
  const admin = await follow(rack.token);
  const other = await follow(await rack.issue({ tools: ["*"] }));
  const legacy = await rack.connect("legacy");
  expect((await admin.until("client.connected")).data).toMatchObject({ name: "tester", era: "legacy" });
  await rack.connect("modern", {}, { token: await rack.issue({ tools: ["*"] }) });
  expect((await admin.until("client.connected")).data).toMatchObject({ name: "tester", era: "modern" });
  // What everybody is told comes after it, and is the first that the other hears.
  await legacy.listTools();
  await rack.workspace.write("tools/three.ts", toolFile(`name: "three", execute: async () => "3"`));
  await rack.serving.app.files.load();
  expect((await other.next())?.event).toBe("tools.changed");
  await admin.cancel();
  await other.cancel();
});

it("remembers no more than so many, and passes over what says nothing of its sender", () => {
  const clients = new ConnectedClients(new ToolRegistry());
  const caller = new Caller(masterGrant);
  const initialize = (name: string) => clients.see({ name, version: "1" }, "legacy", caller, "initialize");
  clients.see(undefined, "legacy", caller, "tools/list");
  initialize("");
  expect(clients.list()).toEqual([]);
  for (let count = 0; count < 500; count++) initialize(`client ${count} ${"x".repeat(1_000)}`);
  const known = clients.list();
  expect(known).toHaveLength(200);
  for (const { name } of known) expect(name.length).toBeLessThan(110);
});

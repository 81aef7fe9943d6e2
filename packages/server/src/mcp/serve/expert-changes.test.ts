import { once } from "node:events";
import { request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import { openStore } from "../../store/store.ts";
import { McpMount } from "./http.ts";
import { JoinedClients } from "./stdio.ts";
import { openLegacySession } from "./testing/legacy-session.ts";
import { serveMount } from "./testing/serve-mount.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";
import { modernParams, StdioPeer } from "./testing/stdio-peer.ts";
import { surfaceParts } from "./testing/surface-parts.ts";

let rack: ServedRack;
let served: Awaited<ReturnType<typeof serveMount>>;
const eras: Era[] = ["modern", "legacy"];
/** How long changes may take to be told, for what must not be. */
const LATER = 500;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": `${toolFile('name: "sun_now", execute: async () => "sunny"', 'name: "rain_now", execute: async () => "wet"')}
export const offers = ["sun_note", "rain_note"].flatMap((name) => [
  Prompt.define({ name, messages: () => "text of " + name }),
  Resource.define({ uri: "note://" + name, name, read: () => "text of " + name }),
]);
`,
    "skills/notes/SKILL.md": "---\nname: notes\ndescription: Notes.\n---\nText.",
  });
  const { serving } = await surfaceParts(rack);
  served = await serveMount(new McpMount(serving, new JoinedClients(serving)), masterGrant);
});

afterAll(async () => {
  await served?.[Symbol.asyncDispose]();
  await rack?.[Symbol.asyncDispose]();
});

/** A client that keeps what it is told, and can wait for it. */
async function listener(era: Era, path: string) {
  const told: string[] = [];
  let heard = () => {};
  const note = (kind: string) => ({
    onChanged: () => {
      told.push(kind);
      heard();
    },
  });
  const listChanged = { tools: note("tools"), prompts: note("prompts"), resources: note("resources") };
  const client = await rack.connect(era, { listChanged }, { path, url: served.url });
  return {
    client,
    told,
    async hears(...kinds: string[]) {
      while (!kinds.every((kind) => told.includes(kind))) {
        await new Promise<void>((resolve) => {
          heard = resolve;
        });
      }
    },
  };
}

/** What comes on a stream by which a client of the newer version listens, after the beginning of it has come. */
async function listen(path: string) {
  const params = modernParams({ notifications: { toolsListChanged: true } });
  const response = await fetch(new URL(path, rack.serving.url), {
    method: "POST",
    headers: {
      authorization: `Bearer ${rack.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "subscriptions/listen",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params }),
  });
  const chunks = response.body!.values();
  expect(Buffer.from((await chunks.next()).value!).toString()).toContain("acknowledged");
  return chunks;
}

const settled = () => new Promise((resolve) => setTimeout(resolve, LATER));
const namesOf = (items: readonly { name: string }[]) => items.map(({ name }) => name);

test.each(eras)("%s clients of an expert are told when it sees more, and others are not", async (era) => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: `Sunny ${era}`, tools: ["sun_*"] });
  await experts.create({ name: `Other ${era}`, tools: ["sun_*"] });
  const path = `/mcp/${encodeURIComponent(`Sunny ${era}`)}`;
  const ofExpert = await listener(era, path);
  const ofAnother = await listener(era, `/mcp/${encodeURIComponent(`Other ${era}`)}`);
  const ofAll = await listener(era, "/mcp");
  // The older versions tell on a stream of its own, which the client opens after it has connected.
  await settled();
  await experts.update(id, { tools: ["sun_*", "rain_note"] });
  await ofExpert.hears("prompts", "resources");
  expect(namesOf((await ofExpert.client.listPrompts()).prompts)).toEqual(["rain_note", "sun_note"]);
  expect(namesOf((await ofExpert.client.listResources()).resources)).toEqual(["rain_note", "sun_note"]);
  await settled();
  expect(ofExpert.told).not.toContain("tools");
  await experts.update(id, { tools: ["sun_*", "rain_*"] });
  await ofExpert.hears("tools");
  expect(namesOf((await ofExpert.client.listTools()).tools)).toEqual(["rain_now", "sun_now"]);
  await experts.update(id, { skills: ["notes"], tools: [] });
  ofExpert.told.length = 0;
  await ofExpert.hears("tools", "prompts", "resources");
  expect(namesOf((await ofExpert.client.listPrompts()).prompts)).toEqual(["notes"]);
  await settled();
  expect(ofAnother.told).toEqual([]);
  expect(ofAll.told).toEqual([]);
});

test("a stream of the newer version ends when its expert is removed, and another of that name is another", async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Left_modern", tools: ["sun_*"] });
  const streams = [await listen("/mcp/Left_modern"), await listen(`/mcp/${id}`)];
  await experts.remove(id);
  await experts.create({ name: "Left_modern", tools: ["rain_*"] });
  for (const stream of streams) expect((await stream.next()).done).toBe(true);
});

test("a session ends with its expert, and its stream with it, though another one has the name by now", async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Left_legacy", tools: ["sun_*"] });
  const session = await openLegacySession(rack, { path: "/mcp/Left_legacy" });
  const stream = await session.get();
  await experts.remove(id);
  await experts.create({ name: "Left_legacy", tools: ["rain_*"] });
  expect(await stream.text()).not.toContain("list_changed");
  const params = { name: "sun_now", arguments: {} };
  const call = await session.post({ jsonrpc: "2.0", id: 2, method: "tools/call", params });
  expect([call.status, call.message.error.message]).toEqual([404, expect.stringContaining("session")]);
});

test("a stream ends when its expert is renamed to what the token may not use", async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Mine_a", tools: ["sun_*"] });
  const token = await rack.issue({ experts: ["Mine_*"] });
  const session = await openLegacySession(rack, { path: "/mcp/Mine_a", token });
  const stream = await session.get();
  await experts.update(id, { name: "Theirs" });
  await stream.text();
});

test("a session stays when its expert is renamed to what the token may use", async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Old", tools: ["sun_*"] });
  const session = await openLegacySession(rack, { path: `/mcp/${id}` });
  await experts.update(id, { name: "New" });
  const list = await session.post({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  expect(namesOf(list.message.result.tools)).toEqual(["sun_now"]);
});

test("a session stays when another expert is called by the id of its own", async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Stays", tools: ["sun_*"] });
  const session = await openLegacySession(rack, { path: "/mcp/Stays" });
  const refusal = { issues: [{ path: "name", message: expect.stringContaining('the expert "Stays"') }] };
  await expect(experts.create({ name: id, tools: ["rain_*"] })).rejects.toMatchObject(refusal);
  const other = await experts.create({ name: "Moves", tools: ["rain_*"] });
  await expect(experts.update(other.id, { name: id.toUpperCase() })).rejects.toMatchObject(refusal);
  await expect(experts.create({ id: "stays", name: "Third" })).rejects.toMatchObject({
    issues: [{ path: "id", message: expect.stringContaining('the expert "Stays"') }],
  });
  // What older versions allowed may be there.
  await rack.serving.store.experts.update(other.id, { name: id });
  await experts.load();
  const list = await session.post({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  expect(namesOf(list.message.result.tools)).toEqual(["sun_now"]);
});

test("a request whose body is late sees what its expert sees when it has come", async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Late", tools: ["sun_*", "rain_*"] });
  const session = await openLegacySession(rack, { path: "/mcp/Late" });
  const late = request(new URL("/mcp/Late", rack.serving.url), {
    method: "POST",
    headers: {
      ...session.headers,
      authorization: `Bearer ${rack.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
  });
  const answered = once(late, "response");
  late.write('{"jsonrpc":"2.0","id":1,"method":"tools/call",');
  // What is asked later is answered, so that the one before it has been looked at.
  await session.post({ jsonrpc: "2.0", id: 2, method: "tools/list" });
  await experts.update(id, { tools: ["sun_*"] });
  late.end('"params":{"name":"rain_now","arguments":{}}}');
  const [response] = await answered;
  expect(await text(response)).toContain("-32602");
  const list = { jsonrpc: "2.0", id: 3, method: "tools/list", params: { _meta: { progressToken: 1 } } };
  expect(namesOf((await session.post(list)).message.result.tools)).toEqual(["sun_now"]);
});

test.each(["short", "long"])("a session sees what its expert sees now, on the %s way", async (way) => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: `Narrow_${way}`, tools: ["sun_*", "rain_*"] });
  const session = await openLegacySession(rack, { path: `/mcp/Narrow_${way}` });
  await experts.update(id, { tools: ["sun_*"] });
  const headers: Record<string, string> =
    way === "short" ? {} : { "content-type": "application/json; charset=utf-8" };
  const list = await session.post({ jsonrpc: "2.0", id: 1, method: "tools/list" }, headers);
  expect(namesOf(list.message.result.tools)).toEqual(["sun_now"]);
  const params = { name: "rain_now", arguments: {} };
  const call = await session.post({ jsonrpc: "2.0", id: 2, method: "tools/call", params }, headers);
  expect(call.message.error.code).toBe(-32602);
  const prompts = await session.post({ jsonrpc: "2.0", id: 3, method: "prompts/list" }, headers);
  expect(namesOf(prompts.message.result.prompts)).toEqual(["sun_note"]);
});

test("over standard input and output an expert's client is told too, and sees what the expert sees now", async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Piped", tools: ["sun_*"] });
  const surface = await surfaceParts(rack);
  const peer = new StdioPeer();
  const connection = await surface.stdio(peer.streams, "Piped");
  await peer.initialize();
  await settled();
  await experts.update(id, { tools: ["rain_*"] });
  await peer.next(({ method }) => method === "notifications/tools/list_changed");
  peer.send({ id: 1, method: "tools/list" });
  const { result } = await peer.next(({ id }) => id === 1);
  expect(namesOf(result.tools)).toEqual(["rain_now"]);
  await connection.close();
});

test("over standard input and output the connection ends with its expert", async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Cut", tools: ["sun_*"] });
  const surface = await surfaceParts(rack);
  const peer = new StdioPeer();
  const connection = await surface.stdio(peer.streams, "Cut");
  await peer.initialize();
  await experts.remove(id);
  await experts.create({ name: "Cut", tools: ["rain_*"] });
  await connection.closed;
});

test("what another process does to an expert counts here too", { timeout: 20_000 }, async () => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: "Far", tools: ["sun_*", "rain_*"] });
  const session = await openLegacySession(rack, { path: "/mcp/Far" });
  const stream = await session.get();
  const surface = await surfaceParts(rack);
  const peer = new StdioPeer();
  const connection = await surface.stdio(peer.streams, "Far");
  await peer.initialize();
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  await using elsewhere = new AsyncDisposableStack();
  const store = await openStore({ directory: join(rack.workspace.directory, ".toolrack"), logger });
  elsewhere.defer(() => store.close());
  await store.experts.update(id, { tools: ["sun_*"] });
  await peer.next(({ method }) => method === "notifications/tools/list_changed");
  const params = { name: "rain_now", arguments: {} };
  peer.send({ id: 1, method: "tools/call", params });
  expect((await peer.next(({ id }) => id === 1)).error.code).toBe(-32602);
  const call = await session.post({ jsonrpc: "2.0", id: 2, method: "tools/call", params });
  expect(call.message.error.code).toBe(-32602);
  await store.experts.remove(id);
  await connection.closed;
  await stream.text();
});

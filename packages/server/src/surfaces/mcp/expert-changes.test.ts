import { afterAll, beforeAll, expect, test } from "vitest";
import { masterGrant } from "../../auth/grant.ts";
import { mcpMount } from "./http/mcp-mount.ts";
import { openLegacySession } from "./testing/legacy-session.ts";
import { serveMount } from "./testing/serve-mount.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";
import { StdioPeer } from "./testing/stdio-peer.ts";
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
  const { parts } = await surfaceParts(rack);
  served = await serveMount(mcpMount(parts), masterGrant);
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

test.each(eras)("a %s client of an expert that is removed is told that nothing is left", async (era) => {
  const { experts } = rack.serving.app.skills;
  const { id } = await experts.create({ name: `Gone ${era}`, tools: ["sun_*"] });
  const { hears } = await listener(era, `/mcp/${encodeURIComponent(`Gone ${era}`)}`);
  await settled();
  await experts.remove(id);
  await hears("tools", "prompts", "resources");
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

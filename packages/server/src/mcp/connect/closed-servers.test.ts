import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import type { McpServerStore } from "../../store/mcp-servers.ts";
import { LegacyHttpServer } from "./testing/legacy-http-server.fixture.ts";
import { ModernHttpServer } from "./testing/modern-http-server.fixture.ts";
import { everybody, processesWith, UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));

function oddServer(flags: readonly string[] = [], more: object = {}): object {
  return { command: process.execPath, args: [odd, ...flags], ...more };
}

/** The store, but for what is given instead. */
function storeWith(store: McpServerStore, other: Partial<McpServerStore>): McpServerStore {
  return {
    list: () => store.list(),
    get: (key) => store.get(key),
    add: (key, entry) => store.add(key, entry),
    put: (key, change) => store.put(key, change),
    remove: (key) => store.remove(key),
    tools: (server) => store.tools(server),
    putTool: (server, name, change) => store.putTool(server, name, change),
    names: () => store.names(),
    countNames: () => store.countNames(),
    claimNames: (server, names) => store.claimNames(server, names),
    tellOthers: () => store.tellOthers(),
    ...other,
  };
}

it("a server that is stopped while it owes its lists is not waited for", async () => {
  await using rack = await UpstreamRack.create();
  const mark = `ODD_TEST=${crypto.randomUUID()}`;
  const [name, value] = mark.split("=") as [string, string];
  // Longer than the test may take.
  const toolrack = { limits: { list: 600_000 } };
  await rack.open({ odd: oddServer(["listless"], { env: { [name]: value }, toolrack }) });
  const isAsked = () => rack.servers.log("odd").some(({ text }) => text.includes("asked for its tools"));
  await rack.eventually(isAsked, "the server was asked for its tools");
  await rack.servers.close();
  expect(await processesWith(mark)).toEqual([]);
});

it("what was learnt about a server is written before the end", async () => {
  await using rack = await UpstreamRack.create();
  const real = rack.store.mcpServers;
  const store = storeWith(real, {
    put: async (key, change) => {
      await delay(1_000);
      await real.put(key, change);
    },
  });
  await rack.open({ odd: oddServer() }, { store });
  await rack.until("odd", "ready");
  await rack.servers.close();
  expect(await real.get("odd")).toMatchObject({
    verdict: { era: "legacy" },
    catalogue: { at: expect.any(Number) },
  });
});

it("of a server that is removed nothing is kept, whatever it says while it is", async () => {
  await using rack = await UpstreamRack.create();
  const real = rack.store.mcpServers;
  const file = join(rack.directory, "tools.json");
  await writeFile(file, JSON.stringify([{ name: "change" }]));
  const store = storeWith(real, {
    remove: async (key) => {
      const isRemoved = await real.remove(key);
      await writeFile(file, JSON.stringify([{ name: "change" }, { name: "late" }]));
      await rack.call("mcp_odd_change");
      // So much time would be enough to read the new list and to keep it.
      await delay(500);
      return isRemoved;
    },
  });
  await rack.open({}, { store });
  await rack.servers.add("odd", oddServer([], { env: { ODD_TOOLS_FILE: file } }));
  await rack.until("odd", "ready");
  await rack.servers.remove("odd");
  expect(await real.list()).toEqual([]);
  expect(await real.tools("odd")).toEqual([]);
});

it("a server that could not be removed goes on", async () => {
  await using rack = await UpstreamRack.create();
  const remove = () => Promise.reject(new Error("The disk is full."));
  await rack.open({}, { store: storeWith(rack.store.mcpServers, { remove }) });
  await rack.servers.add("odd", oddServer());
  await rack.until("odd", "ready");
  await expect(rack.servers.remove("odd")).rejects.toThrow(/disk is full/);
  await rack.until("odd", "ready");
  expect(await rack.call("mcp_odd_echo", { text: "a" })).toMatchObject({ content: "a" });
});

it("one server that cannot be brought in line lets nobody forget the others", async () => {
  await using rack = await UpstreamRack.create();
  const mark = `ODD_TEST=${crypto.randomUUID()}`;
  const [name, value] = mark.split("=") as [string, string];
  const real = rack.store.mcpServers;
  const tools: McpServerStore["tools"] = async (server) => {
    if (server === "bad") throw new Error("The disk is full.");
    // The other is slower than the failure.
    await delay(300);
    return real.tools(server);
  };
  await rack.open({}, { store: storeWith(real, { tools }) });
  const entry = oddServer([], { env: { [name]: value } });
  await rack.writeFile({ mcpServers: { bad: entry, odd: entry } });
  await expect(rack.servers.reload()).rejects.toThrow(/disk is full/);
  await rack.servers.close();
  await delay(500);
  expect(await processesWith(mark)).toEqual([]);
});

it("a change of the file that cannot be followed is told of", async () => {
  await using rack = await UpstreamRack.create();
  const real = rack.store.mcpServers;
  let isFull = false;
  const list = () => (isFull ? Promise.reject(new Error("The disk is full.")) : real.list());
  await rack.open({}, { store: storeWith(real, { list }) });
  rack.servers.watch();
  isFull = true;
  const isTold = async () => {
    // A watch begins a moment after it was asked for.
    await rack.writeFile({ mcpServers: {} });
    await delay(100);
    return rack.messages.some((text) => /mcp\.json.*The disk is full/.test(text));
  };
  await rack.eventually(isTold, "the failure is told of");
});

it("servers that cannot be opened all leave none behind", async () => {
  await using rack = await UpstreamRack.create();
  const mark = `ODD_TEST=${crypto.randomUUID()}`;
  const [name, value] = mark.split("=") as [string, string];
  const real = rack.store.mcpServers;
  const tools: McpServerStore["tools"] = async (server) => {
    if (server === "odd") return real.tools(server);
    await rack.eventually(async () => (await processesWith(mark)).length > 0, "the other has started");
    throw new Error("The disk is full.");
  };
  const entry = oddServer([], { env: { [name]: value } });
  const opening = rack.open({ odd: entry, bad: entry }, { store: storeWith(real, { tools }) });
  await expect(opening).rejects.toThrow(/disk is full/);
  expect(await processesWith(mark)).toEqual([]);
});

it("the session at a server over HTTP ends with the connection", async () => {
  await using server = await LegacyHttpServer.start();
  await using rack = await UpstreamRack.create();
  await rack.open({ old: { url: server.url("/mcp") } });
  await rack.until("old", "ready");
  await rack.servers.restart("old");
  expect(server.sessions).toBe(1);
  await rack.servers.close();
  expect(server.sessions).toBe(0);
});

it("resources that are watched at the same moment share one stream", async () => {
  await using server = await ModernHttpServer.start();
  await using rack = await UpstreamRack.create();
  await rack.open({ new: { url: server.url } });
  await rack.until("new", "ready");
  const updated = new Set<string>();
  rack.offerings.subscribe((change) => {
    if (change.kind === "resource") updated.add(change.uri);
  });
  const uris = ["new://clock", "new://calendar"];
  await Promise.all(uris.map((uri) => rack.offerings.watchResource(uri, everybody)));
  await rack.eventually(() => {
    server.tick();
    return updated.size === 2;
  }, "both are told of");
  await rack.eventually(() => server.listeners === 1, "there is one stream");
});

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import type { McpServerStore } from "../../store/mcp-servers.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));

/** The real store, but for what is put in the place of some of its methods. */
function withOther(store: McpServerStore, others: Partial<McpServerStore>): McpServerStore {
  return new Proxy(store, {
    get(target, name) {
      const other: unknown = Reflect.get(others, name);
      const member: unknown = other ?? Reflect.get(target, name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

/** A server whose tool `pay` can be given another description, on a store with other methods. */
async function payingRack(
  others: (store: McpServerStore) => Partial<McpServerStore>,
  parts: { readonly pinning?: "trust" } = {},
) {
  const rack = await UpstreamRack.create();
  const file = join(rack.directory, "tools.json");
  const describePay = (description: string) =>
    writeFile(file, JSON.stringify([{ name: "pay", description }, { name: "change" }]));
  await describePay("Pays.");
  const real = rack.store.mcpServers;
  const entry = { command: process.execPath, args: [odd], env: { ODD_TOOLS_FILE: file } };
  await rack.open({ odd: entry }, { ...parts, store: withOther(real, others(real)) });
  await rack.until("odd", "ready");
  return Object.assign(rack, {
    entry,
    async change(description: string) {
      await describePay(description);
      await rack.call("mcp_odd_change");
      const isSeen = () => rack.servers.tools("odd")[0]?.description === description;
      await rack.eventually(isSeen, "the change is seen");
    },
  });
}

/** No pin can be written while there is no room. */
function fullWhile(isFull: () => boolean) {
  return (store: McpServerStore): Partial<McpServerStore> => ({
    async putTool(...change) {
      if (isFull()) throw new Error("The disk is full.");
      await store.putTool(...change);
    },
  });
}

it("a tool that changes while the store is read stays in quarantine", async () => {
  let isReading = false;
  let gate: Promise<void> = Promise.resolve();
  await using rack = await payingRack((store) => ({
    async tools(server) {
      isReading = true;
      await gate;
      return store.tools(server);
    },
  }));
  const { promise, resolve: open } = Promise.withResolvers<void>();
  gate = promise;
  isReading = false;
  const refreshed = rack.servers.refresh();
  await rack.eventually(() => isReading, "the store is read");
  await rack.change("Pays somebody else.");
  expect(rack.servers.tools("odd")[0]?.pin).toBe("quarantined");
  open();
  await refreshed;
  expect(rack.servers.get("odd").quarantined).toBe(1);
  expect(rack.registry.require("mcp_odd_pay")).toMatchObject({ disabled: true, description: "Pays." });
  expect((await rack.call("mcp_odd_pay")).content).toMatch(/approve odd pay/);
});

it("a tool of the catalogue that was kept is judged as it is there", async () => {
  await using rack = await payingRack(() => ({}));
  await rack.change("Pays somebody else.");
  await rack.close();
  // As if the process had ended before it could write that the tool is in quarantine.
  const database = new DatabaseSync(join(rack.directory, ".toolrack", "toolrack.db"));
  database.exec("update mcp_tools set pending = null");
  database.close();
  const again = await UpstreamRack.create(rack.directory);
  try {
    await again.open({ odd: rack.entry });
    expect(again.registry.require("mcp_odd_pay")).toMatchObject({ disabled: true, description: "Pays." });
  } finally {
    await again.close();
  }
});

it("a server whose entry changes while the store fails is started all the same", async () => {
  let isFailing = false;
  await using rack = await payingRack((store) => ({
    async get(key) {
      if (isFailing) throw new Error("The disk is gone.");
      return store.get(key);
    },
  }));
  const { pid } = rack.servers.get("odd");
  isFailing = true;
  await rack.writeFile({ mcpServers: { odd: { ...rack.entry, args: [odd, "polite"] } } });
  await rack.servers.reload();
  await rack.until("odd", "ready");
  expect(rack.servers.get("odd").pid).not.toBe(pid);
  expect(await rack.call("mcp_odd_pay")).toMatchObject({ content: "called pay" });
  expect(rack.messages.join("\n")).toMatch(
    /"odd" could not be read, so it is learnt anew: The disk is gone\./,
  );
});

it("what was trusted and could not be written is still what a change is judged by, and is written later", async () => {
  let isFailing = true;
  await using rack = await payingRack(fullWhile(() => isFailing));
  const { mcpServers } = rack.store;
  expect(rack.messages.join("\n")).toMatch(/"pay" of the MCP server "odd" is trusted .*The disk is full\./);
  expect(await mcpServers.tools("odd")).toEqual([]);
  await rack.servers.refresh();
  await rack.change("Pays somebody else.");
  expect(rack.servers.tools("odd")[0]?.pin).toBe("quarantined");
  isFailing = false;
  await rack.servers.refresh();
  expect(rack.servers.tools("odd")[0]?.pin).toBe("quarantined");
  const isWritten = async () => (await mcpServers.tools("odd")).length === 2;
  await rack.eventually(isWritten, "it is written");
  expect((await mcpServers.tools("odd")).find(({ name }) => name === "pay")).toMatchObject({
    approved: { description: "Pays." },
    approvedBy: "first use",
  });
});

it.each(["while the rack runs", "when it ends"])(
  "what was trusted and could not be written is written %s, with nobody's doing",
  async (when) => {
    let isAway = true;
    let writes = 0;
    let reads = 0;
    await using rack = await payingRack((store) => ({
      async tools(server) {
        // What is read at the start can be.
        if (isAway && writes > 0 && ++reads > 0) throw new Error("The disk is gone.");
        return store.tools(server);
      },
      async putTool(...change) {
        writes++;
        if (isAway) throw new Error("The disk is gone.");
        await store.putTool(...change);
      },
    }));
    await rack.eventually(() => writes === 2, "both were to be written");
    const { mcpServers } = rack.store;
    if (when === "when it ends") {
      isAway = false;
      await rack.servers.close();
    } else {
      await rack.eventually(() => reads === 2, "it was tried again, and again");
      isAway = false;
      const isWritten = async () => (await mcpServers.tools("odd")).length === 2;
      await rack.eventually(isWritten, "it is written");
    }
    expect(rack.messages.filter((text) => text.includes("is tried again"))).toHaveLength(2);
    expect(await mcpServers.tools("odd")).toMatchObject([
      { name: "change", approvedBy: "first use" },
      { name: "pay", approvedBy: "first use", approved: { description: "Pays." } },
    ]);
  },
);

it("a change that is trusted and could not be written is written later, unless the store has another word by then", async () => {
  let isFailing = false;
  await using rack = await payingRack(
    fullWhile(() => isFailing),
    { pinning: "trust" },
  );
  const { mcpServers } = rack.store;
  const kept = async () =>
    (await mcpServers.tools("odd")).find(({ name }) => name === "pay")?.approved as { description: string };
  await rack.eventually(async () => (await kept())?.description === "Pays.", "the first use is written");
  isFailing = true;
  await rack.change("Pays somebody else.");
  await rack.change("Pays a third one.");
  const isSaid = () => rack.messages.some((text) => text.includes("is tried again"));
  await rack.eventually(isSaid, "it could not be written");
  await rack.servers.refresh();
  isFailing = false;
  await rack.eventually(async () => (await kept()).description === "Pays a third one.", "it is written");
  isFailing = true;
  await rack.change("Pays nobody.");
  await rack.servers.refresh();
  const other = { definition: { name: "pay", inputSchema: { type: "object" } }, at: 1, by: "Ann" };
  await mcpServers.putTool("odd", "pay", { approved: other });
  isFailing = false;
  await rack.servers.close();
  expect(await kept()).toEqual(other.definition);
});

it("of a server that another process has removed nothing is written any more", async () => {
  let isFailing = false;
  await using rack = await payingRack(fullWhile(() => isFailing));
  const { mcpServers } = rack.store;
  await rack.servers.add("stored", { command: process.execPath, args: [odd], env: rack.entry.env });
  await rack.until("stored", "ready");
  await rack.eventually(async () => (await mcpServers.tools("stored")).length === 2, "both are written");
  isFailing = true;
  const file = rack.entry.env.ODD_TOOLS_FILE;
  await writeFile(file, JSON.stringify([{ name: "pay" }, { name: "change" }, { name: "fresh" }]));
  await rack.call("mcp_stored_change");
  const isSaid = () => rack.messages.some((text) => text.includes('"fresh" of the MCP server "stored"'));
  await rack.eventually(isSaid, "it could not be written");
  await mcpServers.remove("stored");
  isFailing = false;
  await rack.servers.refresh();
  expect(rack.servers.list().map(({ key }) => key)).toEqual(["odd"]);
  expect(await mcpServers.tools("stored")).toEqual([]);
});

it("what the store has no more is not written back with what could not be written", async () => {
  let isFailing = false;
  await using rack = await payingRack(fullWhile(() => isFailing));
  const { mcpServers } = rack.store;
  await rack.eventually(async () => (await mcpServers.tools("odd")).length === 2, "both are written");
  isFailing = true;
  await writeFile(rack.entry.env.ODD_TOOLS_FILE, JSON.stringify([{ name: "change" }, { name: "fresh" }]));
  await rack.call("mcp_odd_change");
  const isSaid = () => rack.messages.some((text) => text.includes('"fresh" of the MCP server "odd"'));
  await rack.eventually(isSaid, "it could not be written");
  const database = new DatabaseSync(join(rack.directory, ".toolrack", "toolrack.db"));
  database.exec("delete from mcp_tools");
  database.close();
  isFailing = false;
  await rack.servers.close();
  expect((await mcpServers.tools("odd")).map(({ name }) => name)).toEqual(["fresh"]);
});

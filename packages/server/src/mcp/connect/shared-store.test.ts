import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { ToolSwitches } from "../../access/tool-switches.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
const good = { command: process.execPath, args: [odd] };
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const echo = (description: string) => ({ name: "echo", description, inputSchema: { type: "object" } });

/** Two racks as two processes would have them: with one folder and one database, each with servers of its own. */
async function twoRacks(inFile: object = {}) {
  const stack = new AsyncDisposableStack();
  const one = stack.use(await UpstreamRack.create());
  const other = stack.adopt(await UpstreamRack.create(one.directory), (rack) => rack.close());
  for (const rack of [one, other]) {
    await rack.open(inFile);
    const { registry, store, servers } = rack;
    const following = store.follower.follow("registry", {
      version: () => store.registryVersion.read(),
      refresh: () => servers.refresh(),
      failed: (error) => expect.unreachable(String(error)),
    });
    stack.defer(() => following.stop());
    const switches = await ToolSwitches.open({ registry, store, logger: silent, names: servers });
    stack.defer(async () => switches.close());
  }
  return { one, other, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const stateOf = (rack: UpstreamRack, key: string) =>
  rack.servers.list().find((server) => server.key === key)?.state;

describe("another process on the same store", () => {
  it("follows servers that are added, switched, changed and removed, and leaves the others alone", async () => {
    await using racks = await twoRacks({ steady: good });
    const { one, other } = racks;
    await other.until("steady", "ready");
    const before = await other.call("mcp_steady_pid");

    await one.servers.add("q", good);
    await other.eventually(() => stateOf(other, "q") === "ready", "the other has the new server");
    expect(await other.call("mcp_q_echo", { text: "a" })).toMatchObject({ content: "a" });

    await one.servers.update("q", { enabled: false });
    await other.eventually(() => stateOf(other, "q") === "disabled", "the other has switched it off");
    expect(await other.call("mcp_q_echo")).toMatchObject({ type: "error" });
    await one.servers.update("steady", { enabled: false });
    await other.eventually(() => stateOf(other, "steady") === "disabled", "also one of the file");
    await one.servers.update("steady", { enabled: true });
    await other.until("steady", "ready");
    const after = await other.call("mcp_steady_pid");
    expect(after.content).not.toBe(before.content);

    await one.servers.update("q", { enabled: true, entry: { ...good, env: { A: "from here" } } });
    await other.eventually(async () => {
      const { content } = await other.call("mcp_q_environment");
      return content.includes("from here");
    }, "the other runs the new entry");
    await one.servers.remove("q");
    await other.eventually(() => stateOf(other, "q") === undefined, "the other has removed it");
    expect(await other.call("mcp_steady_pid")).toMatchObject({ content: after.content });
  });

  it("follows what is agreed to and said about tools, without a word to and fro", async () => {
    await using racks = await twoRacks();
    const { one, other } = racks;
    const file = join(one.directory, "tools.json");
    await writeFile(file, JSON.stringify([echo("Says it again.")]));
    await one.servers.add("q", { ...good, env: { ODD_TOOLS_FILE: file } });
    await one.until("q", "ready");
    await other.eventually(() => stateOf(other, "q") === "ready", "the other has it");

    await writeFile(file, JSON.stringify([echo("Sends it on.")]));
    for (const rack of [one, other]) await rack.servers.restart("q");
    for (const rack of [one, other]) expect(rack.registry.get("mcp_q_echo")?.disabled).toBe(true);
    await one.servers.approve("q", undefined, "ada");
    const isOn = () => other.registry.get("mcp_q_echo")?.disabled === false;
    await other.eventually(isOn, "the other has what was approved");
    expect(other.servers.tools("q")).toMatchObject([{ pin: "approved", approvedBy: "ada" }]);

    await one.servers.update("q", { tools: { echo: { rename: "repeat" } } });
    const isRenamed = () => other.registry.get("mcp_q_repeat") !== undefined;
    await other.eventually(isRenamed, "the other has the new name");

    // The same server, in another version here than there: each knows it for itself.
    await writeFile(file, JSON.stringify([echo("Something else.")]));
    await other.servers.restart("q");
    expect(other.servers.tools("q")).toMatchObject([{ pin: "quarantined" }]);
    const version = await one.store.registryVersion.read();
    await one.servers.refresh();
    await other.servers.refresh();
    expect(one.servers.tools("q")).toMatchObject([{ pin: "approved" }]);
    expect(other.servers.tools("q")).toMatchObject([{ pin: "quarantined" }]);
    expect(await one.store.registryVersion.read()).toBe(version);
  });

  it("does not overwrite a server that was added there a moment ago", async () => {
    await using one = await UpstreamRack.create();
    const other = await UpstreamRack.create(one.directory);
    try {
      for (const rack of [one, other]) await rack.open({});
      const theirs = { ...good, env: { A: "theirs" } };
      await one.servers.add("q", theirs);
      await expect(other.servers.add("q", good)).rejects.toMatchObject({ code: "mcp_server_exists" });
      expect((await one.store.mcpServers.get("q"))?.entry).toEqual(theirs);
      // And knows of it, also to change it.
      await one.servers.add("r", theirs);
      expect(await other.servers.update("r", { enabled: false })).toMatchObject({ state: "disabled" });
      // Both at once: one of them is told.
      const outcomes = await Promise.allSettled([one.servers.add("s", theirs), other.servers.add("s", good)]);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    } finally {
      await other.close();
    }
  });

  it("follows tools that are switched, and their names", async () => {
    await using racks = await twoRacks({ a_b: good });
    const { one, other } = racks;
    for (const rack of [one, other]) await rack.until("a_b", "ready");
    const switches = await ToolSwitches.open({ registry: one.registry, store: one.store, logger: silent });
    await switches.set("mcp_a_b_echo", false, "ada");
    switches.close();
    const isOff = () => other.registry.get("mcp_a_b_echo")?.disabled === true;
    await other.eventually(isOff, "the other has switched it off");

    const file = join(one.directory, "tools.json");
    await writeFile(file, JSON.stringify([{ ...echo("Mine."), name: "b_echo" }]));
    await one.servers.add("a", { ...good, env: { ODD_TOOLS_FILE: file } });
    await other.eventually(() => stateOf(other, "a") === "ready", "the other has the new server");
    for (const rack of [one, other]) {
      await rack.eventually(() => rack.registry.get("mcp_a_b_echo") === undefined, "the name is nobody's");
      const { rackName = "" } = rack.servers.tools("a_b").find(({ name }) => name === "echo") ?? {};
      expect(rackName).toMatch(/^mcp_a_b_echo_/);
      // Nobody can switch it on by wanting its name.
      expect(rack.registry.get(rackName)?.disabled).toBe(true);
    }
  });
});

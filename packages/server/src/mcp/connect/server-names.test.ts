import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));

/** A server with such tools. */
async function serverWith(rack: UpstreamRack, ...names: string[]): Promise<object> {
  const file = join(rack.directory, `${crypto.randomUUID()}.json`);
  await writeFile(file, JSON.stringify(names.map((name) => ({ name, inputSchema: { type: "object" } }))));
  return { command: process.execPath, args: [odd], env: { ODD_TOOLS_FILE: file } };
}

const nameOf = (rack: UpstreamRack, key: string) => rack.servers.tools(key)[0]?.rackName ?? "";

describe("a name that two servers want", () => {
  it("reaches neither of them, also when one is gone and after a restart", async () => {
    await using rack = await UpstreamRack.create();
    const [longer, shorter] = [await serverWith(rack, "c"), await serverWith(rack, "b_c")];
    await rack.open({});
    await rack.servers.add("a_b", longer);
    await rack.until("a_b", "ready");
    expect(nameOf(rack, "a_b")).toBe("mcp_a_b_c");
    await rack.servers.add("a", shorter);
    await rack.until("a", "ready");
    const names = [nameOf(rack, "a_b"), nameOf(rack, "a")];
    expect(new Set([...names, "mcp_a_b_c"]).size).toBe(3);
    for (const name of names) expect(rack.registry.get(name)?.name).toBe(name);
    expect(await rack.call("mcp_a_b_c")).toMatchObject({ content: expect.stringContaining(names[0]!) });

    await rack.servers.remove("a_b");
    expect([rack.registry.get("mcp_a_b_c"), nameOf(rack, "a")]).toEqual([undefined, names[1]]);
    await rack.close();
    const later = await UpstreamRack.create(rack.directory);
    try {
      await later.open({});
      await later.until("a", "ready");
      expect([later.registry.get("mcp_a_b_c"), nameOf(later, "a")]).toEqual([undefined, names[1]]);
    } finally {
      await later.close();
    }
  });

  it("is told apart in the same way whichever came first", async () => {
    const found: string[][] = [];
    for (const order of [
      ["a", "a_b"],
      ["a_b", "a"],
    ]) {
      await using rack = await UpstreamRack.create();
      await rack.open({});
      for (const key of order) {
        await rack.servers.add(key, await serverWith(rack, key === "a" ? "b_c" : "c"));
        await rack.until(key, "ready");
      }
      found.push([nameOf(rack, "a"), nameOf(rack, "a_b")]);
    }
    expect(found[0]).toEqual(found[1]);
  });
});

describe("tools of one server whose names differ by case only", () => {
  it("are both there, and neither is reached by the name that both want", async () => {
    await using rack = await UpstreamRack.create();
    // Others are nearer to it by their spelling.
    await rack.open({
      case: await serverWith(rack, "delete", "Delete", "deletes", "delet", "deleted", "elete"),
    });
    await rack.until("case", "ready");
    const [lower, upper] = rack.servers.tools("case");
    expect([lower, upper]).toMatchObject([{ offered: true }, { offered: true }]);
    expect(rack.servers.get("case")).toMatchObject({ tools: 6, refused: [] });
    expect(await rack.call(lower!.rackName)).toMatchObject({ content: "called delete" });
    expect(await rack.call(upper!.rackName)).toMatchObject({ content: "called Delete" });
    for (const plain of ["mcp_case_delete", "mcp_case_Delete"]) {
      const { error } = await rack.call(plain);
      expect(error).toMatchObject({ code: "tool_not_found" });
      expect(error?.details).toMatchObject({
        suggestions: expect.arrayContaining([lower!.rackName, upper!.rackName]),
      });
    }
  });

  it("are refused where somebody gives one of them such a name", async () => {
    await using rack = await UpstreamRack.create();
    const entry = await serverWith(rack, "delete", "erase", "wipe");
    await rack.open({ case: { ...entry, toolrack: { tools: { rename: { wipe: "DELETE" } } } } });
    await rack.until("case", "ready");
    expect(rack.servers.get("case").refused).toEqual([
      { name: "case/wipe", reason: expect.stringContaining("renamed to mcp_case_DELETE, which is the name") },
    ]);
    await expect(
      rack.servers.update("case", { tools: { erase: { rename: "Delete" } } }),
    ).rejects.toMatchObject({ code: "mcp_server_invalid" });
    expect(await rack.call("mcp_case_delete")).toMatchObject({ content: "called delete" });
  });
});

it("tools of a server that is switched off are there, and say so", async () => {
  await using rack = await UpstreamRack.create();
  await rack.open({ "My q": await serverWith(rack, "echo") });
  await rack.until("My q", "ready");
  const name = nameOf(rack, "My q");
  expect(await rack.call(name, { text: "a" })).toMatchObject({ content: "a" });
  await rack.servers.update("My q", { enabled: false });
  expect(await rack.call(name)).toMatchObject({
    error: { code: "tool_disabled" },
    content: expect.stringMatching(/"My q" is switched off.*toolrack mcp-servers enable 'My q'/s),
  });
  expect(rack.registry.list().map((tool) => tool.name)).not.toContain(name);
  // Whatever switches the tool on: its server stays off.
  rack.registry.enable(name);
  expect(await rack.call(name)).toMatchObject({ error: { code: "tool_disabled" } });
  await rack.servers.update("My q", { enabled: true });
  await rack.until("My q", "ready");
  expect(rack.registry.list().map((tool) => tool.name)).toContain(name);
});

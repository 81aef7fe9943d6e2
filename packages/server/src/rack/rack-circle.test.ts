import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { program, spawnCli } from "../cli/testing/spawn-cli.ts";
import { ServedRack, toolFile } from "../mcp/serve/testing/served-rack.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

const limits = { timeout: 120_000 };
const PATIENCE = { timeout: 60_000, interval: 50 };

const config = "export default { builtins: false };";
const toolOf = (name: string) => toolFile(`name: "${name}", execute: async () => "it is ${name}"`);

/** An entry that starts the workspace through a shell, so that only what happens then shows which rack it is. */
function hidden(directory: string): object {
  const line = [...program, "mcp", "--dir", directory].map((word) => `'${word}'`).join(" ");
  return { command: "sh", args: ["-c", `exec ${line}`] };
}

function writeServers({ directory }: TemporaryWorkspace, mcpServers: object): void {
  writeFileSync(join(directory, "mcp.json"), JSON.stringify({ mcpServers }));
}

/** As the server's own API shows them. */
async function serversOf({
  serving,
  token,
}: ServedRack): Promise<Record<string, { state: string; reason?: string }>> {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(new URL("/api/mcp-servers", serving.url), { headers });
  const { items } = (await response.json()) as { items: { key: string; state: string; reason?: string }[] };
  return Object.fromEntries(items.map((item) => [item.key, item]));
}

/** Processes of the program that serve this workspace to whoever started them. */
function processesOn({ directory }: TemporaryWorkspace): number {
  return readdirSync("/proc").filter((id) => {
    try {
      const words = readFileSync(`/proc/${id}/cmdline`, "utf8").split("\0");
      return words[0] === process.execPath && words.includes("mcp") && words.includes(directory);
    } catch {
      return false; // It has ended.
    }
  }).length;
}

function namesOf({ serving }: ServedRack): string[] {
  return serving.app.registry.list().map(({ name }) => name);
}

test(
  "an entry that starts the rack itself, or is its address, is refused when it is added or imported",
  limits,
  async () => {
    await using rack = await ServedRack.open({ "tools/a.ts": toolOf("a") });
    const { directory } = rack.workspace;
    const home = await TemporaryWorkspace.create({});
    const env = { HOME: home.directory };
    expect((await spawnCli(["install", "cursor", "--dir", directory], { cwd: directory, env })).code).toBe(0);
    const file = join(home.directory, ".cursor/mcp.json");
    const imported = await spawnCli(["mcp-servers", "import", file], { cwd: directory, env });
    expect(imported.stderr).toContain("It is this rack itself");
    expect(imported.code).toBe(1);
    const add = (entry: object) =>
      fetch(new URL("/api/mcp-servers", rack.serving.url), {
        method: "POST",
        headers: { authorization: `Bearer ${rack.token}`, "content-type": "application/json" },
        body: JSON.stringify({ key: "own", entry }),
      });
    const { port } = new URL(rack.serving.url);
    for (const host of ["127.0.0.1", "localhost"]) {
      const refused = await add({ url: `http://${host}:${port}/mcp` });
      expect(refused.status).toBe(400);
      expect(await refused.text()).toContain("It is this rack itself");
    }
    expect(await serversOf(rack)).toEqual({});
    await home[Symbol.asyncDispose]();
  },
);

test("a rack that is started by itself starts nothing, and is refused with the reason", limits, async () => {
  const workspace = await TemporaryWorkspace.create({
    "toolrack.config.ts": config,
    "tools/a.ts": toolOf("a"),
  });
  writeServers(workspace, { own: hidden(workspace.directory) });
  await using rack = await ServedRack.over(workspace);
  await vi.waitUntil(async () => (await serversOf(rack)).own?.state === "failed", PATIENCE);
  expect((await serversOf(rack)).own!.reason).toContain("It is this rack itself");
  await vi.waitUntil(() => processesOn(workspace) === 0, PATIENCE);
  expect(namesOf(rack).filter((name) => name.startsWith("mcp_"))).toEqual([]);
});

test(
  "a rack that starts another one, which starts the first, works with it and ends the circle there",
  limits,
  async () => {
    const workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": config,
      "tools/a.ts": toolOf("a"),
    });
    await using other = await TemporaryWorkspace.create({
      "toolrack.config.ts": config,
      "tools/b.ts": toolOf("b"),
    });
    writeServers(workspace, { other: hidden(other.directory) });
    writeServers(other, { first: hidden(workspace.directory) });
    await using rack = await ServedRack.over(workspace);
    await vi.waitUntil(async () => (await serversOf(rack)).other?.state === "ready", PATIENCE);
    await vi.waitUntil(() => namesOf(rack).includes("mcp_other_b"), PATIENCE);
    expect((await rack.serving.app.registry.execute("mcp_other_b", {})).content).toBe("it is b");
    await vi.waitUntil(() => processesOn(workspace) === 0, PATIENCE);
    expect(processesOn(other)).toBe(1);
    expect(namesOf(rack).filter((name) => name.endsWith("_a"))).toEqual([]);
  },
);

test(
  "racks that have each other as servers over HTTP, through a third, do not go round in a circle",
  limits,
  async () => {
    await using one = await ServedRack.open({ "tools/t.ts": toolOf("one") });
    await using two = await ServedRack.open({ "tools/t.ts": toolOf("two") });
    await using three = await ServedRack.open({ "tools/t.ts": toolOf("three") });
    const link = async (from: ServedRack, to: ServedRack) => {
      const entry = { url: `${to.serving.url}/mcp`, headers: { Authorization: `Bearer ${to.token}` } };
      const response = await fetch(new URL("/api/mcp-servers", from.serving.url), {
        method: "POST",
        headers: { authorization: `Bearer ${from.token}`, "content-type": "application/json" },
        body: JSON.stringify({ key: "next", entry }),
      });
      expect(response.status, await response.clone().text()).toBe(200);
      await vi.waitUntil(
        async () => /ready|failed/.test((await serversOf(from)).next?.state ?? ""),
        PATIENCE,
      );
      return (await serversOf(from)).next!;
    };
    expect((await link(one, two)).state).toBe("ready");
    expect((await link(two, three)).state).toBe("ready");
    // Different racks in a chain work, at any distance.
    await vi.waitUntil(() => namesOf(one).includes("mcp_next_mcp_next_three"), PATIENCE);
    expect((await one.serving.app.registry.execute("mcp_next_mcp_next_three", {})).content).toBe(
      "it is three",
    );
    const closing = await link(three, one);
    expect(closing).toMatchObject({ state: "failed", reason: expect.stringContaining("circle") });
    expect(namesOf(three)).not.toContain("mcp_next_one");
  },
);

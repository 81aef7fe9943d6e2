import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
const good = { command: process.execPath, args: [odd] };

describe("an entry of the file that is not valid", () => {
  it("keeps its running server as it last was, until it is mended", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ x: good, gone: good });
    await rack.until("x", "ready");
    const { content: pid } = await rack.call("mcp_x_pid");
    await rack.writeFile({ mcpServers: { x: { ...good, timeout: "abc" } } });
    await rack.servers.reload();
    await rack.servers.reload();
    expect(rack.servers.list()).toMatchObject([
      {
        key: "x",
        state: "ready",
        place: "file",
        problem: expect.stringMatching(/timeout.*goes on.*Mend it/),
      },
    ]);
    expect(rack.servers.get("x").reason).toBeUndefined();
    expect(rack.messages.filter((text) => text.includes("timeout"))).toHaveLength(1);
    expect(await rack.call("mcp_x_pid")).toMatchObject({ content: pid });
    expect((await rack.servers.update("x", { enabled: false })).state).toBe("disabled");
    await rack.servers.update("x", { enabled: true });
    await rack.until("x", "ready");

    await rack.writeFile({ mcpServers: { x: { ...good, env: { A: "mended" } } } });
    await rack.servers.reload();
    expect(rack.servers.get("x").problem).toBeUndefined();
    await rack.until("x", "ready");
    expect((await rack.call("mcp_x_environment")).content).toContain("mended");
  });

  it("has failed when it was so from the start, and starts when it is mended", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ x: { comand: "node" }, y: good });
    expect(rack.servers.get("x")).toMatchObject({
      state: "failed",
      place: "file",
      reason: expect.stringMatching(/mcp\.json is not valid.*"command"/),
    });
    expect(rack.messages.filter((text) => text.includes("comand"))).toHaveLength(1);
    await expect(rack.servers.remove("x")).rejects.toMatchObject({ code: "mcp_server_read_only" });
    await rack.until("y", "ready");
    await rack.writeFile({ mcpServers: { x: good, y: good } });
    await rack.servers.reload();
    await rack.until("x", "ready");
  });
});

describe("a file behind a link", () => {
  const write = (path: string, servers: object) => writeFile(path, JSON.stringify({ mcpServers: servers }));
  const keys = (rack: UpstreamRack) => rack.servers.list().map(({ key }) => key);

  it("that is away for a while ends nothing, and is read when it is back", async () => {
    await using rack = await UpstreamRack.create();
    const [path, target] = [join(rack.directory, "linked.json"), join(rack.directory, "target.json")];
    await write(target, { one: good });
    await symlink(target, path);
    await rack.open({}, { file: "linked.json" });
    rack.servers.watch();
    await rack.until("one", "ready");
    await rm(target);
    const isNoticed = () => rack.servers.fileProblem !== undefined;
    await rack.eventually(isNoticed, "it is noticed that the file is away");
    expect(rack.servers.get("one").state).toBe("ready");
    await write(target, { one: good, two: good });
    await rack.eventually(() => keys(rack).length === 2, "what is back is read");
    expect(rack.servers.fileProblem).toBeUndefined();
  });

  it("is followed when a folder on the way becomes another", async () => {
    await using rack = await UpstreamRack.create();
    const at = (...names: string[]) => join(rack.directory, ...names);
    for (const [folder, key] of Object.entries({ v1: "one", v2: "two" })) {
      await mkdir(at(folder));
      await write(at(folder, "config.json"), { [key]: good });
    }
    await symlink("v1", at("..data"));
    await symlink("..data/config.json", at("config.json"));
    await rack.open({}, { file: "config.json" });
    rack.servers.watch();
    expect(keys(rack)).toEqual(["one"]);
    await symlink("v2", at("..next"));
    await rename(at("..next"), at("..data"));
    await rack.eventually(() => keys(rack).join() === "two", "the other file is read");
  });
});

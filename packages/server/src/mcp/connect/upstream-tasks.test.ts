import { fileURLToPath } from "node:url";
import type { CallClient } from "@toolrack/core";
import { describe, expect, it, vi } from "vitest";
import { ModernTaskServer } from "./testing/modern-task-server.fixture.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const program = fileURLToPath(new URL("./testing/task-server.fixture.mjs", import.meta.url));

const ada: CallClient = {
  can: () => true,
  request: async () => ({ action: "accept", content: { name: "Ada" } }),
  notify() {},
};

/** What was reported on calls. */
function reportsOf(rack: UpstreamRack): unknown[] {
  const reports: unknown[] = [];
  rack.registry.subscribe((event) => {
    if (event.type === "progress") reports.push(event.update);
  });
  return reports;
}

describe("a tool that its server works on only as a task", () => {
  async function open(): Promise<UpstreamRack> {
    const rack = await UpstreamRack.create();
    await rack.open({ far: { command: process.execPath, args: [program] } });
    await rack.until("far", "ready");
    return rack;
  }
  const askedOf = async (rack: UpstreamRack): Promise<string[]> =>
    JSON.parse(String((await rack.call("mcp_far_asked")).content));

  it("is called as any other, and what the server says meanwhile is passed on", async () => {
    await using rack = await open();
    const reports = reportsOf(rack);
    expect(await rack.call("mcp_far_quick")).toMatchObject({ content: "quick is done" });
    expect(reports).toEqual([
      { progress: 1, message: "step 0" },
      { progress: 2, message: "step 1" },
      // From then on it reports by itself.
      { progress: 40, total: 50 },
    ]);
    const asked = await askedOf(rack);
    expect(asked.slice(asked.indexOf("tools/call quick"))).toEqual([
      "tools/call quick",
      "tasks/get",
      "tasks/get",
      "tasks/get",
      "tasks/result",
      "tools/call asked",
    ]);
  });

  it("is not followed where the server answers at once", async () => {
    await using rack = await open();
    expect(await rack.call("mcp_far_at-once")).toMatchObject({ content: "needed no task" });
  });

  it("asks whoever called it, also while others of the kind are under way", async () => {
    await using rack = await open();
    const nobody: CallClient = { ...ada, request: () => Promise.reject(new Error("not for me")) };
    const stop = new AbortController();
    const other = rack.call("mcp_far_endless", {}, { client: nobody, signal: stop.signal });
    await rack.eventually(async () => (await askedOf(rack)).includes("tasks/get"), "the other is under way");
    const { content } = await rack.call("mcp_far_ask", {}, { client: ada });
    expect(content).toMatch(/^task-\d for Ada$/);
    stop.abort();
    await other;
  });

  it("asks nobody else once it was given up", async () => {
    await using rack = await open();
    const stop = new AbortController();
    const request = vi.fn(ada.request);
    const first = rack.call("mcp_far_endless", {}, { client: ada, signal: stop.signal });
    const other = rack.call("mcp_far_endless", {}, { client: { ...ada, request }, timeout: 3_000 });
    const isAt = async (count: number) =>
      (await askedOf(rack)).filter((method) => method === "tasks/get").length > count;
    await rack.eventually(() => isAt(4), "both are under way");
    stop.abort();
    await rack.eventually(async () => (await askedOf(rack)).includes("refused"), "its question is refused");
    expect((await first).error?.code).toBe("cancelled");
    await other;
    expect(request).not.toHaveBeenCalled();
  });

  it("fails with what the server says of its task", async () => {
    await using rack = await open();
    const { content, error } = await rack.call("mcp_far_fail");
    expect(content).toMatch(/"far" refused the call: the archive is closed\. \(code -32603\)/);
    expect(error?.details).toMatchObject({ kind: "refused" });
  });

  it.each([
    ["endless", "while it runs"],
    ["late", "before it has begun"],
  ])("is cancelled as a task when its time is over: %s, %s", async (name) => {
    await using rack = await open();
    const { error } = await rack.call(`mcp_far_${name}`, {}, { timeout: 500 });
    expect(error?.code).toBe("timed_out");
    await rack.eventually(async () => (await askedOf(rack)).includes("tasks/cancel"), "it is cancelled");
  });

  it("is lost with its server, and never begun a second time", async () => {
    await using rack = await open();
    const call = rack.call("mcp_far_endless");
    await rack.eventually(async () => (await askedOf(rack)).includes("tasks/get"), "it is under way");
    process.kill(rack.servers.get("far").pid!, "SIGKILL");
    expect((await call).error?.details).toMatchObject({ kind: "lost" });
    await rack.until("far", "ready");
    expect(await askedOf(rack)).not.toContain("tools/call endless");
  });
});

describe("a server of the stateless protocol that answers with a task", () => {
  async function open(server: ModernTaskServer): Promise<UpstreamRack> {
    const rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    return rack;
  }

  it("is asked until there is a result, also when it cannot be reached once or twice", async () => {
    await using server = await ModernTaskServer.start();
    await using rack = await open(server);
    const reports = reportsOf(rack);
    server.outages = 2;
    expect(await rack.call("mcp_far_work")).toMatchObject({ content: "worked" });
    expect(server.asked).toEqual(Array(3).fill("tasks/get task-1"));
    expect(reports.at(-1)).toEqual({ progress: 4, message: "looked at 3 times" });
  });

  it("has its question answered by whoever called, once", async () => {
    await using server = await ModernTaskServer.start();
    await using rack = await open(server);
    const request = vi.fn(ada.request);
    const { content } = await rack.call("mcp_far_ask", {}, { client: { ...ada, request } });
    expect(content).toBe('{"action":"accept","content":{"name":"Ada"}}');
    expect(request).toHaveBeenCalledOnce();
    expect(server.asked).toContain("tasks/update task-1");
  });

  it("is told to stop where nobody can be asked", async () => {
    await using server = await ModernTaskServer.start();
    await using rack = await open(server);
    expect((await rack.call("mcp_far_ask")).content).toMatch(/"far" refused the call: .*cannot be asked/);
    await rack.eventually(() => server.asked.includes("tasks/cancel task-1"), "it is cancelled");
  });

  it("may fail, and may be given up", async () => {
    await using server = await ModernTaskServer.start();
    await using rack = await open(server);
    expect((await rack.call("mcp_far_fail")).content).toMatch(
      /refused the call: no more paper \(code -32050\)/,
    );
    const { error } = await rack.call("mcp_far_endless", {}, { timeout: 300 });
    expect(error?.code).toBe("timed_out");
    await rack.eventually(() => server.asked.includes("tasks/cancel task-2"), "it is cancelled");
    expect(rack.servers.get("far")).toMatchObject({ state: "ready", inFlight: 0 });
  });
});

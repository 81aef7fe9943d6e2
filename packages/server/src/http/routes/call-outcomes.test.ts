import { readFile } from "node:fs/promises";
import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { Hold, TestServer } from "../server.fixture.ts";

let server: TestServer;
const hold = new Hold();

beforeAll(async () => {
  const work = Tool.define({
    name: "work",
    parameters: z.object({ id: z.string().default("x") }),
    execute: async ({ input, signal }) => {
      await hold.wait(input.id, signal);
      return "done";
    },
  });
  const asks = Tool.define({
    name: "asks",
    parameters: z.object({}),
    execute: async ({ ask }) => {
      await ask("Go on?");
      return "went on";
    },
  });
  const outer = Tool.define({
    name: "outer",
    parameters: z.object({}),
    execute: async ({ call }) => (await call("asks", {})).content,
  });
  const plain = Tool.define({ name: "plain", parameters: z.object({}), execute: async () => "x" });
  server = await TestServer.start({ tools: [work, asks, outer, plain], inbox: true });
});
afterAll(() => server[Symbol.asyncDispose]());

const recorded = async (callId: string) => (await server.ask(`/api/calls/${callId}`)).body;

describe("the record of a call", () => {
  it("that was cancelled says so, and counts as no failure", async () => {
    const call = server.call("work", { id: "a" }, { callId: "given-up" });
    await hold.started("a");
    expect((await server.ask("/api/calls/given-up", { method: "DELETE" })).body.status).toBe("cancelled");
    await call;
    const ids = async (status: string) =>
      (await server.ask(`/api/calls?status=${status}`)).body.items.map(
        (one: { callId: string }) => one.callId,
      );
    expect(await ids("cancelled")).toContain("given-up");
    expect(await ids("error")).not.toContain("given-up");
    const metrics = await (await server.fetch("/metrics")).text();
    expect(metrics).toContain('toolrack_calls_total{tool="work",status="cancelled"} 1');
    expect(metrics).toContain('toolrack_calls_total{tool="work",status="error"} 0');
    expect(metrics).toContain('toolrack_call_duration_seconds_count{tool="work"} 0');
    expect(metrics).not.toContain('code="cancelled"');
  });

  it("that waited for a person while it ran counts the wait apart, and so does the call above it", async () => {
    const calling = server.call("outer", {}, { callId: "asked" });
    const feed = Promise.withResolvers<void>();
    const unsubscribe = server.app.registry.subscribe((event) => {
      if (event.type === "approval" && event.decision === undefined) feed.resolve();
    });
    await feed.promise;
    unsubscribe();
    let [question] = (await server.ask("/api/approvals")).body.items;
    while (question === undefined) [question] = (await server.ask("/api/approvals")).body.items;
    await server.ask(`/api/approvals/${question.id}`, { method: "POST", body: { decision: "allow" } });
    await calling;
    const { items } = (await server.ask("/api/calls?root=asked")).body;
    expect(items).toHaveLength(2);
    for (const { duration, runDuration, flags } of items) {
      expect(flags.waited).toBeGreaterThan(0);
      expect(runDuration + flags.waited).toBeLessThanOrEqual(duration + 0.01);
    }
  });

  it("says by what it was made", async () => {
    const by = async (headers: Record<string, string>) =>
      (await recorded((await server.call("plain", {}, {}, { headers })).body.callId)).via;
    expect(await by({ "user-agent": "curl/8.5.0" })).toBe("curl/8.5.0");
    expect(await by({ "user-agent": "Mozilla/5.0 (X11)", "sec-fetch-site": "same-origin" })).toBe("console");
    expect(await by({ "user-agent": "toolrack-cli" })).toBe("cli");
  });

  it("says so also while it waits for an answer, in the question, and in the log", async () => {
    const headers = { "user-agent": "curl/8.5.0" };
    const calling = server.call("asks", {}, { callId: "by-curl" }, { headers });
    let [question] = (await server.ask("/api/approvals")).body.items;
    while (question === undefined) [question] = (await server.ask("/api/approvals")).body.items;
    expect(question).toMatchObject({ callId: "by-curl", caller: "http", via: "curl/8.5.0" });
    await expect.poll(async () => (await recorded("by-curl")).via).toBe("curl/8.5.0");
    await server.ask(`/api/approvals/${question.id}`, { method: "POST", body: { decision: "allow" } });
    await calling;
    server.app.log.flush();
    const lines = (await readFile(server.app.log.file, "utf8")).trim().split("\n");
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ callId: "by-curl", via: "curl/8.5.0" });
  });
});

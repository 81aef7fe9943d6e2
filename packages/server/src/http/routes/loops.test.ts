import { describe, expect, it } from "vitest";
import { sampleTools, TestServer } from "../server.fixture.ts";

const start = () => TestServer.start({ tools: sampleTools().tools });

describe("loops", () => {
  it("are shown with the calls that count and what would clear them, and a person lets the session go on", async () => {
    await using server = await start();
    const call = async () => (await server.call("add", { a: 1 }, { sessionID: "circles" })).body;
    const results = [];
    for (let turn = 0; turn < 6; turn++) results.push(await call());
    expect(results.at(-1).error).toMatchObject({ code: "loop_blocked" });
    const { items } = (await server.ask("/api/loops")).body;
    expect(items).toMatchObject([
      {
        sessionID: "circles",
        state: "stopped",
        toolName: "add",
        verdict: { action: "stop", signal: "repeat", clears: expect.stringContaining("Only a person") },
      },
    ]);
    const { calls } = items[0].verdict;
    expect(calls.length).toBeGreaterThanOrEqual(4);
    for (const callId of calls)
      expect((await server.ask(`/api/calls/${callId}`)).body).toMatchObject({ sessionID: "circles" });

    const resumed = await server.ask("/api/loops/circles/resume", { method: "POST", body: {} });
    expect(resumed.body).toMatchObject({ sessionID: "circles", by: expect.any(String) });
    expect(await call()).toMatchObject({ status: "completed" });
    expect((await server.ask("/api/loops?session=circles")).body.items).toMatchObject([
      { state: "resumed", resumed: { by: resumed.body.by } },
    ]);
  });

  it("are those of a token's own calls, and only who may approve lets a session go on", async () => {
    await using server = await start();
    const agent = await server.issue({ tools: ["add"] }, { name: "agent" });
    const approver = await server.issue({ tools: ["add"], approve: ["add"] }, { name: "approver" });
    const call = (token: string) =>
      server.ask("/api/tools/add/calls", {
        method: "POST",
        token,
        body: { arguments: { a: 1 }, sessionID: "theirs" },
      });
    for (let turn = 0; turn < 6; turn++) await call(agent);
    const seen = async (token?: string) =>
      (await server.ask("/api/loops", token === undefined ? {} : { token })).body.items.length;
    expect([await seen(), await seen(agent), await seen(approver)]).toEqual([1, 1, 0]);
    const resume = (token: string, session = "theirs") =>
      server.ask(`/api/loops/${session}/resume`, { method: "POST", token, body: {} });
    expect((await resume(agent)).body.error.code).toBe("forbidden");
    expect((await call(agent)).body.error.code).toBe("loop_blocked");
    expect((await resume(agent, "unknown")).body.error.code).toBe("forbidden");
    expect((await resume(approver)).body).toMatchObject({ by: expect.stringMatching(/^approver/) });
    expect((await call(agent)).body.status).toBe("completed");
    const nobody = await server.ask("/api/loops/unknown/resume", { method: "POST", body: {} });
    expect([nobody.status, nobody.body.error.code]).toEqual([404, "loop_not_found"]);
  });

  it("of two sessions of one name go on when whoever says so may approve the tools of both", async () => {
    await using server = await start();
    const agent = await server.issue({ tools: ["add"] }, { name: "agent" });
    const other = await server.issue({ tools: ["fail"], approve: ["fail"] }, { name: "other" });
    const call = (token: string, tool: string, args: object) =>
      server.ask(`/api/tools/${tool}/calls`, {
        method: "POST",
        token,
        body: { arguments: args, sessionID: "shared" },
      });
    for (let turn = 0; turn < 6; turn++) await call(agent, "add", { a: 1 });
    for (let turn = 0; turn < 6; turn++) await call(other, "fail", {});
    const resume = (token?: string) =>
      server.ask("/api/loops/shared/resume", { method: "POST", body: {}, ...(token && { token }) });
    expect((await resume(other)).body.error).toMatchObject({ code: "forbidden" });
    expect((await call(agent, "add", { a: 1 })).body.error.code).toBe("loop_blocked");
    expect((await resume()).status).toBe(200);
    expect((await call(agent, "add", { a: 1 })).body.status).toBe("completed");
  });
});

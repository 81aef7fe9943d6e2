import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Hold, StreamReader, sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
let hold: Hold;

beforeAll(async () => {
  const sample = sampleTools();
  hold = sample.hold;
  server = await TestServer.start({ tools: sample.tools, maxCallsPerTool: 2 });
});
afterAll(() => server[Symbol.asyncDispose]());

describe("GET /api/tools", () => {
  it("lists tools by name, page by page", async () => {
    const first = await server.ask("/api/tools?limit=3");
    expect(first.status).toBe(200);
    expect(first.body.items.map((tool: { name: string }) => tool.name)).toEqual([
      "add",
      "buildReload_tool",
      "fail",
    ]);
    const second = await server.ask(`/api/tools?limit=3&cursor=${first.body.next}`);
    expect(second.body.items[0].name).toBe("log_tool");
    const rest = await server.ask("/api/tools?cursor=6");
    expect(first.body.items.length + second.body.items.length + rest.body.items.length).toBe(
      first.body.total,
    );
    expect(rest.body.next).toBeUndefined();
  });

  it("filters by category, tag and status, and searches", async () => {
    const names = async (query: string) =>
      (await server.ask(`/api/tools?${query}`)).body.items.map((tool: { name: string }) => tool.name);
    expect(await names("category=math")).toEqual(["add"]);
    expect(await names("tag=numbers")).toEqual(["add"]);
    expect(await names("status=disabled")).toEqual([]);
    expect((await names("q=dangerous"))[0]).toBe("wipe");
  });

  it("filters by words, danger, source and group, and counts what each group and tag has", async () => {
    const all = (await server.ask("/api/tools?groups=true&limit=1")).body;
    const counts = (items: { count: number }[]) => items.reduce((sum, { count }) => sum + count, 0);
    expect(counts(all.groups)).toBe(all.total);
    expect(all.tags).toContainEqual({ name: "numbers", count: 1 });
    for (const { source, group, count } of all.groups) {
      const part = (await server.ask(`/api/tools?source=${source}&group=${group}&limit=1`)).body;
      expect([source, group, part.total]).toEqual([source, group, count]);
      expect(part.items[0]).toMatchObject({ source, group });
      expect(part.groups).toBeUndefined();
    }
    const found = (await server.ask("/api/tools?words=ADD%20numbers&groups=true")).body;
    expect(found.items.map((tool: { name: string }) => tool.name)).toEqual(["add"]);
    expect(counts(found.groups)).toBe(1);
    expect(
      (await server.ask("/api/tools?dangerous=true")).body.items.map((tool: { name: string }) => tool.name),
    ).toEqual(["wipe"]);
  });

  it("never counts for a limited token what it may not see, and follows the rack", async () => {
    const token = await server.issue({ tools: ["add", "late_*"] });
    const seen = async () => (await server.ask("/api/tools?groups=true", { token })).body;
    expect(await seen()).toMatchObject({ total: 1, groups: [{ count: 1 }] });
    const { registry } = server.app;
    registry.register({ ...registry.require("add"), name: "late_one", aliases: [] });
    expect((await seen()).items.map((tool: { name: string }) => tool.name)).toEqual(["add", "late_one"]);
    registry.unregister("late_one");
    expect(await seen()).toMatchObject({ total: 1, groups: [{ count: 1 }] });
  });

  it("refuses a query that does not fit, naming each place", async () => {
    const { status, body } = await server.ask("/api/tools?limit=none&colour=red");
    expect(status).toBe(400);
    expect(body.error.code).toBe("invalid_request");
    expect(body.error.details.issues.map((issue: { path: string }) => issue.path).sort()).toEqual([
      "colour",
      "limit",
    ]);
  });
});

describe("GET and PATCH /api/tools/{name}", () => {
  it("shows one tool with its schema, by name or alias", async () => {
    const { body } = await server.ask("/api/tools/plus");
    expect(body).toMatchObject({ name: "add", status: "ok", aliases: ["plus"], readOnly: true });
    expect(body.inputSchema.properties.a).toMatchObject({ type: "number" });
    expect((await server.ask("/api/tools/nothing")).status).toBe(404);
  });

  it("switches a tool off and on", async () => {
    const off = await server.ask("/api/tools/fail", { method: "PATCH", body: { enabled: false } });
    expect(off.body.status).toBe("disabled");
    const { items } = (await server.ask("/api/tools?status=disabled")).body;
    expect(items).toMatchObject([
      { name: "fail", switched: { enabled: false, by: "http", at: expect.any(Number) } },
    ]);
    const refused = await server.call("fail");
    expect([refused.status, refused.body.error.code]).toEqual([409, "tool_disabled"]);
    await server.ask("/api/tools/fail", { method: "PATCH", body: { enabled: true } });
    expect((await server.call("fail")).status).toBe(200);
    expect((await server.ask("/api/tools/fail", { method: "PATCH", body: { enabled: "no" } })).status).toBe(
      400,
    );
  });
});

describe("POST /api/tools/{name}/calls", () => {
  it("answers with the result, recorded under a uuid of version 7", async () => {
    const { status, body } = await server.call("add", { a: 2, b: 3 });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: "completed", toolName: "add", recorded: true });
    expect(body.result.structured).toEqual({ sum: 5 });
    expect(body.callId).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    expect(await server.store.calls.get(body.callId)).toMatchObject({
      toolName: "add",
      caller: "http",
      outcome: "completed",
    });
  });

  it("takes arguments as text the way a model wrote them, and none at all", async () => {
    expect((await server.call("add", '{"a": 1,}')).body.result.structured).toEqual({ sum: 2 });
    expect((await server.ask("/api/tools/fail/calls", { method: "POST" })).status).toBe(200);
  });

  it("answers 200 for a tool that ran and failed", async () => {
    const { status, body } = await server.call("fail");
    expect(status).toBe(200);
    expect(body.status).toBe("error");
    expect(body.result).toMatchObject({ type: "error", error: { code: "execution_failed" } });
    expect(body.result.content).toContain("the disk is on fire");
  });

  it("answers 200 for a tool that ran too long", async () => {
    const { status, body } = await server.call("wait", { id: "slow" }, { timeout: 30 });
    expect([status, body.result.error.code]).toEqual([200, "timed_out"]);
    expect(hold.aborted).toContain("slow");
  });

  it("answers with a 4xx what was refused before the tool ran, and records it", async () => {
    const unknown = await server.call("ad", {});
    expect([unknown.status, unknown.body.error.code]).toEqual([404, "tool_not_found"]);
    expect(unknown.body.error.details.suggestions).toContain("add");
    const invalid = await server.call("add", { a: "two" });
    expect([invalid.status, invalid.body.error.code]).toEqual([422, "invalid_arguments"]);
    expect(invalid.body.error.details.issues[0].path).toBe("a");
    const denied = await server.call("wipe");
    expect([denied.status, denied.body.error.code]).toEqual([403, "approval_denied"]);
    const { callId } = invalid.body.error.details;
    expect(await server.store.calls.get(callId)).toMatchObject({
      outcome: "error",
      error: { code: "invalid_arguments" },
    });
  });

  it("answers 200 when the tool ran and a call that it made was refused", async () => {
    const { status, body } = await server.call("outer", { tool: "add", input: { a: "two" } });
    expect(status).toBe(200);
    expect(body.result.type).toBe("error");
  });

  it("stops a session that goes in circles with 409", async () => {
    const codes: string[] = [];
    for (let round = 0; round < 12; round++) {
      const { status, body } = await server.call("add", { a: 1 }, { sessionID: "circle" });
      codes.push(status === 200 ? "ran" : `${status} ${body.error.code}`);
    }
    expect(codes[0]).toBe("ran");
    expect(codes.at(-1)).toBe("409 loop_blocked");
  });

  it("gives the call the id that was asked for, once", async () => {
    const first = await server.call("add", { a: 1 }, { callId: "mine.1" });
    expect(first.body.callId).toBe("mine.1");
    const second = await server.call("add", { a: 1 }, { callId: "mine.1" });
    expect([second.status, second.body.error.code]).toEqual([409, "call_exists"]);
    expect((await server.call("add", { a: 1 }, { callId: "no/slash" })).status).toBe(400);
  });

  it("reaches tools by aliases that have to be encoded", async () => {
    server.app.registry.update("add", { aliases: ["plus", "数学/加"] });
    const { status } = await server.call(encodeURIComponent("数学/加"), { a: 1 });
    expect(status).toBe(200);
  });

  it("runs no more calls of one tool at once than it may", async () => {
    const running = ["a", "b"].map((id) => server.call("wait", { id }));
    await Promise.all([hold.started("a"), hold.started("b")]);
    const third = await server.call("wait", { id: "c" });
    expect([third.status, third.body.error.code]).toEqual([429, "too_many_calls"]);
    expect(third.headers.get("retry-after")).toBe("1");
    for (const id of ["a", "b"]) hold.release(id);
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200]);
    hold.release("d");
    expect((await server.call("wait", { id: "d" })).status).toBe(200);
  });

  it("streams state and progress, then the result", async () => {
    const headers = { accept: "text/event-stream" };
    const response = await server.fetch("/api/tools/wait/calls", {
      method: "POST",
      headers,
      body: { arguments: { id: "s" } },
    });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const reader = new StreamReader(response);
    expect((await reader.until("state")).data).toMatchObject({ status: "running" });
    expect((await reader.until("progress")).data).toEqual({ progress: 1, total: 2, message: "half way" });
    hold.release("s");
    const rest = await reader.all();
    expect(rest.map(({ event }) => event)).toEqual(["result"]);
    expect(rest[0]!.data).toMatchObject({ status: "completed", result: { content: "done s" } });
  });

  it("gives a refusal its own status also when a stream was asked for", async () => {
    const headers = { accept: "text/event-stream" };
    const ask = (name: string, input: unknown) =>
      server.ask(`/api/tools/${name}/calls`, { method: "POST", headers, body: { arguments: input } });
    expect((await ask("nothing", {})).status).toBe(404);
    expect((await ask("add", { a: "two" })).status).toBe(422);
  });

  it("cancels the call when the caller goes away", async () => {
    const abort = new AbortController();
    const asked = server.fetch("/api/tools/wait/calls", {
      method: "POST",
      body: { arguments: { id: "left" }, callId: "left" },
      signal: abort.signal,
    });
    await hold.started("left");
    abort.abort();
    await expect(asked).rejects.toThrow();
    await expect.poll(() => hold.aborted).toContain("left");
    await expect.poll(async () => (await server.store.calls.get("left"))?.error?.code).toBe("cancelled");
  });

  it.each(["application/json", "text/event-stream"])(
    "goes on with a call that is kept when the caller goes away, and lets it be cancelled: %s",
    async (accept) => {
      const leave = async (callId: string) => {
        const abort = new AbortController();
        const asked = server.fetch("/api/tools/wait/calls", {
          method: "POST",
          headers: { accept },
          body: { arguments: { id: callId }, callId, keep: true },
          signal: abort.signal,
        });
        const text = asked.then((response) => response.text());
        await hold.started(callId);
        abort.abort();
        await expect(text).rejects.toThrow();
        // The server has noticed by then that the other connection is gone.
        await server.call("add", { a: 1 });
      };
      const [kept, ended] = [`kept ${accept}`, `ended ${accept}`].map((name) => name.replace(/\W/g, "-"));
      await leave(kept!);
      expect((await server.ask(`/api/calls/${kept}`)).body.status).toBe("running");
      hold.release(kept!);
      await expect.poll(async () => (await server.store.calls.get(kept!))?.outcome).toBe("completed");
      await leave(ended!);
      const { body } = await server.ask(`/api/calls/${ended}`, { method: "DELETE" });
      expect(body.error.code).toBe("cancelled");
      expect(hold.aborted).toContain(ended);
      expect(hold.aborted).not.toContain(kept);
    },
  );
});

import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { type Hold, sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
let hold: Hold;

beforeAll(async () => {
  const sample = sampleTools();
  hold = sample.hold;
  server = await TestServer.start({ tools: sample.tools });
});
afterAll(() => server[Symbol.asyncDispose]());

const ids = (body: { items: { callId: string }[] }) => body.items.map(({ callId }) => callId);

describe("GET /api/calls", () => {
  it("lists summaries newest first, page by page, with the server's filters", async () => {
    for (const callId of ["p1", "p2", "p3"]) {
      await server.call("add", { a: 1, note: `needle ${callId}` }, { callId, sessionID: "pages" });
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await server.call("fail", {}, { callId: "f1" });
    const first = await server.ask("/api/calls?session=pages&limit=2");
    expect(ids(first.body)).toEqual(["p3", "p2"]);
    expect(first.body.items[0]).toMatchObject({
      status: "completed",
      resultType: "json",
      resultPreview: '{"sum":2}',
    });
    expect(first.body.items[0].result).toBeUndefined();
    const second = await server.ask(`/api/calls?session=pages&limit=2&cursor=${first.body.next}`);
    expect(ids(second.body)).toEqual(["p1"]);
    expect(ids((await server.ask("/api/calls?tool=f*")).body)).toEqual(["f1"]);
    expect(ids((await server.ask("/api/calls?status=error")).body)).toEqual(["f1"]);
    expect(ids((await server.ask("/api/calls?text=needle%20p2")).body)).toEqual(["p2"]);
    expect(ids((await server.ask("/api/calls?minDuration=60000")).body)).toEqual([]);
    expect(ids((await server.ask(`/api/calls?since=${Date.now() + 60_000}`)).body)).toEqual([]);
  });

  it("finds the calls with which sessions went in circles, however many came after them", async () => {
    for (let round = 0; round < 8; round++) await server.call("add", { a: 9 }, { sessionID: "circles" });
    await server.call("add", { a: 1, note: '"loop":' });
    const { items } = (await server.ask("/api/calls?flag=loop")).body;
    expect(items.length).toBeGreaterThan(0);
    for (const { sessionID, flags } of items) {
      expect([sessionID, flags.loop.action]).toEqual(["circles", expect.any(String)]);
    }
    expect((await server.ask("/api/calls?flag=other")).status).toBe(400);
  });

  it.each(["since=99999999999999999999", `minDuration=${"9".repeat(400)}`])(
    "refuses a time that no record can have: %s",
    async (query) => {
      const { status, body } = await server.ask(`/api/calls?${query}`);
      expect(status).toBe(400);
      expect(body.error.code).toBe("invalid_request");
    },
  );

  it("says that a cursor is none of its own", async () => {
    const { status, body } = await server.ask("/api/calls?cursor=made-up");
    expect([status, body.error.code]).toEqual([400, "invalid_request"]);
  });

  it("keeps the calls that tools make, under the call that made them", async () => {
    const { body } = await server.call("outer", { input: { a: 1 } });
    const children = await server.ask(`/api/calls?parent=${body.callId}`);
    expect(children.body.items).toMatchObject([{ toolName: "add", parentCallId: body.callId }]);
    const chain = await server.ask(`/api/calls?root=${body.callId}`);
    expect(chain.body.items.map(({ toolName }: { toolName: string }) => toolName).sort()).toEqual([
      "add",
      "outer",
    ]);
    const top = await server.ask(`/api/calls?root=${body.callId}&top=true`);
    expect(ids(top.body)).toEqual([body.callId]);
    const byCaller = await server.ask(`/api/calls?root=${body.callId}&caller=outer_*`);
    expect(byCaller.body.items).toMatchObject([{ toolName: "add", caller: `outer_${body.callId}` }]);
  });
});

describe("GET and DELETE /api/calls/{callId}", () => {
  it("shows a call under way, cancels it for real, and shows how it ended", async () => {
    const asked = server.call("wait", { id: "doomed" }, { callId: "doomed" });
    await hold.started("doomed");
    const running = await server.ask("/api/calls/doomed");
    expect(running.body).toMatchObject({ status: "running", toolName: "wait", parameters: { id: "doomed" } });
    expect((await server.ask("/api/calls/doomed/result")).body.error.code).toBe("call_running");
    await expect
      .poll(async () => ids((await server.ask("/api/calls?status=running")).body))
      .toEqual(["doomed"]);

    const cancelled = await server.ask("/api/calls/doomed?reason=too%20slow", { method: "DELETE" });
    expect(cancelled.body).toMatchObject({ status: "cancelled", error: { code: "cancelled" } });
    expect(hold.aborted).toContain("doomed");
    const { status, body } = await asked;
    expect([status, body.result.error.code]).toEqual([200, "cancelled"]);
    expect(body.result.content).toContain("too slow");

    const again = await server.ask("/api/calls/doomed", { method: "DELETE" });
    expect([again.status, again.body.error.code]).toEqual([409, "call_ended"]);
  });

  it("says what the time of a call went into", async () => {
    const { body } = await server.call("add", { a: 1 });
    const { stages, duration } = (await server.ask(`/api/calls/${body.callId}`)).body;
    expect(stages.map(({ name }: { name: string }) => name)).toEqual(["validate", "run", "after"]);
    const sum = stages.reduce((all: number, stage: { duration: number }) => all + stage.duration, 0);
    expect(sum).toBeCloseTo(duration, 3);
  });

  it("knows no call that never was", async () => {
    for (const [method, path] of [
      ["GET", "/api/calls/none"],
      ["DELETE", "/api/calls/none"],
      ["GET", "/api/calls/none/result"],
      ["POST", "/api/calls/none/replay"],
    ] as const) {
      const { status, body } = await server.ask(path, { method });
      expect([status, body.error.code]).toEqual([404, "call_not_found"]);
    }
  });
});

describe("GET /api/calls/{callId}/result", () => {
  it("pages through the whole of a result of which the caller was given a part", async () => {
    const { body } = await server.call("long", { size: 200_000 });
    expect(body.result.content.length).toBeLessThan(60_000);
    let text = "";
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const page: { body: { text: string; total: number; nextOffset?: number } } = await server.ask(
        `/api/calls/${body.callId}/result?offset=${offset}&limit=70000`,
      );
      expect(page.body.total).toBe(200_000);
      text += page.body.text;
      offset = page.body.nextOffset;
    }
    expect(text).toBe("0123456789".repeat(20_000));
  });
});

it("leaves a structured value that is too large out of the answer and the record, and pages through it", async () => {
  const rows = Array.from({ length: 200_000 }, (_, index) => ({ index }));
  const tools = [
    Tool.define({
      name: "many",
      description: "Has many rows.",
      parameters: z.object({}),
      execute: async () => ({
        content: [{ type: "text", text: "200,000 rows" }],
        structuredContent: { rows },
      }),
    }),
    Tool.define({
      name: "outer_many",
      description: "Counts them.",
      parameters: z.object({}),
      execute: async ({ call }) =>
        String(((await call("many", {})).structured as { rows: unknown[] }).rows.length),
    }),
  ];
  await using large = await TestServer.start({ tools });
  const answer = await large.call("many", {}, { callId: "m" });
  expect(JSON.stringify(answer.body).length).toBeLessThan(2_000);
  const { total } = answer.body.result.metadata.truncated;
  expect(answer.body.result.content).toContain("kept as call m; read on from offset 12");

  const outer = await large.call("outer_many", {});
  expect(outer.body.result.content).toBe("200000");
  const [made] = (await large.ask(`/api/calls?parent=${outer.body.callId}`)).body.items;
  for (const callId of ["m", made.callId]) {
    const record = await large.ask(`/api/calls/${callId}`);
    expect(JSON.stringify(record.body).length).toBeLessThan(3_000);
    expect(record.body.resultSize).toBe(total);
    let text = "";
    for (let offset: number | undefined = 14; offset !== undefined; ) {
      const page = await large.ask(`/api/calls/${callId}/result?offset=${offset}&limit=1000000`);
      text += page.body.text;
      offset = page.body.nextOffset;
    }
    expect(JSON.parse(text)).toEqual({ rows });
  }
});

describe("GET /api/calls/{callId}/record", () => {
  it("hands out the record with the whole of its result, as a file", async () => {
    const { body } = await server.call("long", { size: 700_000 }, { callId: "whole:1" });
    expect(body.result.content.length).toBeLessThan(60_000);
    const response = await server.fetch("/api/calls/whole:1/record");
    expect(response.headers.get("content-disposition")).toBe('attachment; filename="whole_1.json"');
    expect(await response.json()).toMatchObject({
      callId: "whole:1",
      status: "completed",
      parameters: { size: 700_000 },
      result: { type: "text", content: "0123456789".repeat(70_000) },
    });
  });

  it("keeps characters whole where the text is cut, and everything but the text", async () => {
    const emoji = `a${"😀".repeat(200_000)}"\n`;
    const tools = [
      Tool.define({
        name: "faces",
        description: "Smiles.",
        parameters: z.object({}),
        execute: async () => emoji,
      }),
    ];
    await using smiling = await TestServer.start({ tools });
    await smiling.call("faces", {}, { callId: "f" });
    expect((await smiling.ask("/api/calls/f/record")).body.result.content).toBe(emoji);
    await server.call("add", { a: 4 }, { callId: "small" });
    const [whole, record] = await Promise.all([
      server.ask("/api/calls/small"),
      server.ask("/api/calls/small/record"),
    ]);
    expect(record.body).toEqual(whole.body);
  });

  it("is only for who may see the call, and for calls that have ended", async () => {
    const token = await server.issue({ tools: ["add"] });
    await server.call("add", { a: 4 }, { callId: "others" });
    expect((await server.ask("/api/calls/others/record", { token })).status).toBe(404);
    const call = server.call("wait", { id: "record" }, { callId: "going" });
    await hold.started("record");
    expect((await server.ask("/api/calls/going/record")).body.error.code).toBe("call_running");
    hold.release("record");
    await call;
  });
});

describe("POST /api/calls/{callId}/replay", () => {
  it("gives the new call the id that was chosen for it", async () => {
    const first = await server.call("add", { a: 4 });
    const path = `/api/calls/${first.body.callId}/replay`;
    const again = await server.ask(path, { method: "POST", body: { callId: "chosen" } });
    expect(again.body).toMatchObject({ callId: "chosen", replayOf: first.body.callId });
  });

  it("makes the call again, linked to the first", async () => {
    const first = await server.call("add", { a: 4 });
    const path = `/api/calls/${first.body.callId}/replay`;
    const again = await server.ask(path, { method: "POST" });
    expect(again.body).toMatchObject({ result: { structured: { sum: 5 } }, replayOf: first.body.callId });
    expect(again.body.callId).not.toBe(first.body.callId);
    const edited = await server.ask(path, { method: "POST", body: { arguments: { a: 40 } } });
    expect(edited.body.result.structured).toEqual({ sum: 41 });
    const stored = await server.ask(`/api/calls/${edited.body.callId}`);
    expect(stored.body).toMatchObject({ replayOf: first.body.callId, parameters: { a: 40, b: 1 } });
  });

  it("never runs a tool with a mask in the place of a secret", async () => {
    const first = await server.call("login", { user: "ada", password: "hunter22" });
    const path = `/api/calls/${first.body.callId}/replay`;
    const { status, body } = await server.ask(path, { method: "POST" });
    expect([status, body.error.code, body.error.details.path]).toEqual([
      409,
      "arguments_redacted",
      "password",
    ]);
    const edited = await server.ask(path, {
      method: "POST",
      body: { arguments: { user: "ada", password: "x" } },
    });
    expect(edited.body.result.content).toBe("hello ada");
  });

  it("refuses again what never became arguments", async () => {
    const first = await server.call("fail", "this is no JSON at all");
    expect(first.status).toBe(422);
    const { callId } = first.body.error.details;
    const again = await server.ask(`/api/calls/${callId}/replay`, { method: "POST" });
    expect([again.status, again.body.error.code]).toEqual([422, "invalid_arguments"]);
  });
});

describe("what a token without admin rights sees", () => {
  it("is its own calls and what they called, and no others'", async () => {
    const token = await server.issue({ tools: ["add", "outer"] });
    const other = await server.issue({ tools: ["add"] });
    const mine = await server.call("outer", { input: { a: 1 } }, {}, { token });
    const theirs = await server.call("add", { a: 1 }, {}, { token: other });
    expect(ids((await server.ask("/api/calls?limit=2", { token: other })).body)).toEqual([
      theirs.body.callId,
    ]);
    const seen = (await server.ask("/api/calls", { token })).body.items;
    expect(seen.map(({ toolName }: { toolName: string }) => toolName).sort()).toEqual(["add", "outer"]);
    const child = seen.find(({ toolName }: { toolName: string }) => toolName === "add");
    expect((await server.ask(`/api/calls/${child.callId}`, { token })).status).toBe(200);
    for (const path of [`/api/calls/${theirs.body.callId}`, `/api/calls/${theirs.body.callId}/result`]) {
      expect((await server.ask(path, { token })).status).toBe(404);
    }
    const replay = await server.ask(`/api/calls/${mine.body.callId}/replay`, {
      method: "POST",
      token: other,
    });
    expect(replay.status).toBe(404);
  });

  it("does not include cancelling calls of others", async () => {
    const token = await server.issue({ tools: ["*"] });
    const asked = server.call("wait", { id: "safe" }, { callId: "safe" });
    await hold.started("safe");
    expect((await server.ask("/api/calls/safe", { method: "DELETE", token })).status).toBe(404);
    hold.release("safe");
    expect((await asked).body.status).toBe("completed");
  });
});

it("answers a call that the store could not record, and says so", async () => {
  const sample = sampleTools();
  await using broken = await TestServer.start({
    tools: sample.tools,
    wrapStore: (store) => {
      const calls = Object.create(store.calls, {
        finished: { value: () => Promise.reject(new Error("disk full")) },
        started: { value: () => {} },
      });
      return { ...store, calls };
    },
  });
  const { status, body } = await broken.call("add", { a: 1 });
  expect([status, body.recorded]).toEqual([200, false]);
  expect(broken.workspace.messages.join("\n")).toContain("disk full");
});

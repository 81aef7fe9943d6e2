import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ServedWorkspace } from "../testing/served-workspace.ts";
import { Fleet, postgres, until } from "./testing/fleet.fixture.ts";

if (postgres === undefined)
  console.warn("SKIPPED: several servers on one PostgreSQL. Install PostgreSQL to run it.");

/** Reads the server-sent events of a node into a list, until it is disposed. */
function readEvents(node: ServedWorkspace, lastEventId?: string) {
  const events: { id: string; event: string; data: { callId?: string } }[] = [];
  const stop = new AbortController();
  const reading = (async () => {
    const headers = {
      authorization: `Bearer ${node.token}`,
      ...(lastEventId && { "last-event-id": lastEventId }),
    };
    const response = await fetch(`${node.url}/api/events`, { headers, signal: stop.signal });
    let text = "";
    for await (const chunk of response.body!) {
      text += Buffer.from(chunk).toString();
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const lines = text.slice(0, end).split("\n");
        text = text.slice(end + 2);
        const of = (name: string) =>
          lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
        if (of("event") !== "")
          events.push({ id: of("id"), event: of("event"), data: JSON.parse(of("data")) });
      }
    }
  })().catch(() => {});
  return {
    events,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await reading;
    },
  };
}

describe.skipIf(postgres === undefined)("three servers on one PostgreSQL", { timeout: 60_000 }, () => {
  let fleet: Fleet;
  let a: ServedWorkspace;
  let b: ServedWorkspace;
  let c: ServedWorkspace;
  beforeAll(async () => {
    fleet = await Fleet.start(3);
    [a, b, c] = fleet.nodes as [ServedWorkspace, ServedWorkspace, ServedWorkspace]; // Three were started.
  }, 90_000);
  afterAll(() => fleet?.[Symbol.asyncDispose](), 30_000);

  const begin = async (node: ServedWorkspace, tool: string, id: string, more: object = {}) => {
    const ended = node.ask("POST", `/api/tools/${tool}/calls`, {
      arguments: { id, ms: 30_000 },
      callId: id,
      ...more,
    });
    await until(() => fleet.effects(`begin ${id} `).length > 0);
    return ended;
  };

  it("know each other, with versions and load", async () => {
    const isTold = ({ lag }: { lag?: number }) => lag !== undefined;
    await until(async () => (await b.ask("GET", "/api/nodes")).body.items.filter(isTold).length === 3);
    const { items } = (await b.ask("GET", "/api/nodes")).body;
    expect(items[0]).toMatchObject({ isSelf: true, role: "server", state: "serving", url: b.url, calls: 0 });
    expect(new Set(items.map(({ url }: { url: string }) => url))).toEqual(new Set([a.url, b.url, c.url]));
    for (const { lag, version } of items)
      expect([typeof lag, version]).toEqual(["number", expect.any(String)]);
  });

  it("answer for each other's records, whole results and attachments", async () => {
    const { callId } = (await a.call("big", {})).body;
    expect((await b.ask("GET", `/api/calls/${callId}/result?offset=2999990&limit=100`)).body).toMatchObject({
      text: "x".repeat(10),
      total: 3_000_000,
    });
    const { result } = (await c.ask("GET", `/api/calls/${callId}`)).body;
    expect(result.attachments[0].url.length).toBe(100_016);
  });

  it("cancel a call from any node, whose signal fires within a second", async () => {
    const ended = begin(a, "note", "cancel-me");
    await until(async () => (await b.ask("GET", "/api/calls/cancel-me")).body.status === "running");
    const begun = performance.now();
    const { status, body } = await b.ask("DELETE", "/api/calls/cancel-me?reason=enough");
    expect([status, body.error.code]).toEqual([200, "cancelled"]);
    await until(() => fleet.effects("abort cancel-me").length === 1, 1_000);
    expect(performance.now() - begun).toBeLessThan(1_000);
    expect((await ended).body.result.error.message).toContain("enough");
    expect((await c.ask("DELETE", "/api/calls/cancel-me")).body.error.code).toBe("call_ended");
  });

  it("run one callId once, though it is sent to all at the same time", async () => {
    const rounds = Array.from({ length: 10 }, (_, round) => `once-${round}`);
    for (const id of rounds) {
      const answers = await Promise.all(
        fleet.nodes.map((node) =>
          node.ask("POST", "/api/tools/note/calls", { arguments: { id, ms: 5 }, callId: id }),
        ),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
      expect(fleet.effects(`begin ${id} `)).toHaveLength(1);
    }
  });

  it("tell the events of all nodes, and go on with them on any", async () => {
    await using onB = readEvents(b);
    await until(() => onB.events.some(({ event }) => event === "ready"));
    const { callId } = (await a.call("note", { id: "told" })).body;
    await until(
      () => onB.events.some(({ event, data }) => event === "call.completed" && data.callId === callId),
      2_000,
    );
    const last = onB.events.at(-1)!.id;
    const missed = [
      (await a.call("note", { id: "m1" })).body.callId,
      (await b.call("note", { id: "m2" })).body.callId,
      (await c.call("note", { id: "m3" })).body.callId,
    ];
    await until(() =>
      missed.every((id) =>
        onB.events.some(({ event, data }) => event === "call.completed" && data.callId === id),
      ),
    );
    await using onC = readEvents(c, last);
    await until(() => missed.every((id) => onC.events.some(({ data }) => data.callId === id)));
    expect(onC.events.filter(({ event }) => event === "ready" || event === "reset")).toEqual([]);
    expect(onC.events.filter(({ data }) => data.callId === callId)).toEqual([]);
    for (const id of missed)
      expect(
        onC.events.filter(({ event, data }) => event === "call.completed" && data.callId === id),
      ).toHaveLength(1);
  });

  it("let go of a token and of a rule within a second, and mask a secret that another was told", async () => {
    const { token, id } = (await a.ask("POST", "/api/tokens", { name: "one", scopes: { tools: ["*"] } }))
      .body;
    expect((await b.ask("GET", "/api/tools", undefined, token)).status).toBe(200);
    await a.ask("DELETE", `/api/tokens/${id}`);
    await until(async () => (await b.ask("GET", "/api/tools", undefined, token)).status === 401, 1_000);

    const rule = (await a.ask("POST", "/api/approval-rules", { tool: "danger", decision: "allow" })).body;
    await until(async () => (await b.ask("GET", "/api/approval-rules")).body.items.length === 1, 1_000);
    expect((await b.call("danger", { id: "ruled" })).status).toBe(200);
    await c.ask("DELETE", `/api/approval-rules/${rule.id}`);
    await until(async () => (await b.ask("GET", "/api/approval-rules")).body.items.length === 0, 1_000);

    await a.ask("PUT", "/api/secrets/WORD", { value: "open-sesame-42" });
    await until(async () => {
      const { result } = (await c.call("secretive", { text: "open-sesame-42" })).body;
      return result.content === "it is [redacted]";
    }, 1_000);
  });

  it("answer a question on another node than the one that asks", async () => {
    const ended = a.ask("POST", "/api/tools/danger/calls", { arguments: { id: "asked" } });
    let id = "";
    await until(async () => {
      id = (await b.ask("GET", "/api/approvals?state=pending")).body.items[0]?.id ?? "";
      return id !== "";
    });
    const begun = performance.now();
    expect((await c.ask("POST", `/api/approvals/${id}`, { decision: "allow" })).status).toBe(200);
    expect((await ended).body.result.content).toBe("noted asked");
    expect(performance.now() - begun).toBeLessThan(1_000);
  });

  it("refuse a node with another key or another token", async () => {
    const other = Buffer.alloc(32, 1).toString("base64");
    await expect(fleet.startNode({ TOOLRACK_KEY: other })).rejects.toThrow("another key");
    const wrong = fleet.startNode({ TOOLRACK_OPERATOR_TOKEN: "some-other-token-of-mine" });
    await expect(wrong).rejects.toThrow("another token");
  });

  it("take up what a killed node left within 12 seconds, and know what never began", async () => {
    const lost = await fleet.startNode();
    const cut = begin(lost, "note", "cut-off").catch(() => {});
    const unasked = lost
      .ask("POST", "/api/tools/danger/calls", { arguments: { id: "never" }, callId: "never" })
      .catch(() => {});
    await until(async () => (await b.ask("GET", "/api/approvals?state=pending")).body.items.length === 1);
    const { items } = (await b.ask("GET", "/api/approvals?state=pending")).body;
    await lost.end("SIGKILL");
    await Promise.all([cut, unasked]);
    const passed = await until(
      async () => (await a.ask("GET", "/api/calls/cut-off")).body.status === "interrupted",
      12_000,
    );
    expect(passed).toBeLessThan(12_000);
    expect((await c.ask("GET", "/api/calls/cut-off")).body.error.code).toBe("outcome_unknown");
    expect((await c.ask("GET", "/api/calls/never")).body.error.code).toBe("approval_denied");
    expect(fleet.effects("begin never")).toEqual([]);
    // Agreeing to it makes the call anew.
    await b.ask("POST", `/api/approvals/${items[0].id}`, { decision: "allow" });
    await until(() => fleet.effects("end never").length === 1);
    await until(async () => (await a.ask("GET", "/api/nodes")).body.items.length === 3);
  });

  it("hand over without a failed call when one is told to end", async () => {
    const leaving = await fleet.startNode();
    const ready = async (node: ServedWorkspace) =>
      (await node.ask("GET", "/readyz").catch(() => undefined))?.status === 200;
    const nodes = [leaving, a];
    const outcomes: number[] = [];
    let isOver = false;
    // A load balancer that looks at /readyz every 100 ms and sends to the first node that is ready.
    let target = leaving;
    const balancing = (async () => {
      while (!isOver) {
        for (const node of nodes)
          if (await ready(node)) {
            target = node;
            break;
          }
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    })();
    const clients = Array.from({ length: 4 }, async (_, at) => {
      for (let n = 0; !isOver; n++)
        outcomes.push((await target.call("note", { id: `drain-${at}-${n}`, ms: 20 })).status);
    });
    await until(() => outcomes.length > 20);
    const { items } = (await leaving.ask("GET", "/api/nodes")).body;
    expect((await a.ask("POST", `/api/nodes/${items[0].id}/drain`)).status).toBe(200);
    const before = outcomes.length;
    expect(await leaving.end("SIGCONT")).toEqual([0, null]);
    await until(() => outcomes.length > before + 20);
    isOver = true;
    await Promise.all([...clients, balancing]);
    expect(new Set(outcomes)).toEqual(new Set([200]));
  });
});

import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ServedWorkspace } from "../testing/served-workspace.ts";
import { Fleet, postgres, until } from "./testing/fleet.fixture.ts";

if (postgres === undefined)
  console.warn("SKIPPED: several servers on one PostgreSQL. Install PostgreSQL to run it.");

/** Reads the server-sent events of a node into a list, until it is disposed. */
function readEvents(node: ServedWorkspace, lastEventId?: string, path = "/api/events") {
  const events: { id: string; event: string; data: { callId?: string } }[] = [];
  const stop = new AbortController();
  const reading = (async () => {
    const headers = {
      authorization: `Bearer ${node.token}`,
      ...(lastEventId && { "last-event-id": lastEventId }),
    };
    const response = await fetch(node.url + path, { headers, signal: stop.signal });
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

/** Listens on loopback, and says where. */
async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // It listens on a port.
}

/** A model that tells a story of a minute, a word every 50 ms. */
const storyteller = createHttpServer((_incoming, outgoing) => {
  outgoing.setHeader("content-type", "text/event-stream");
  const tell = () =>
    outgoing.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "once " } }] })}\n\n`);
  const telling = setInterval(tell, 50);
  outgoing.on("close", () => clearInterval(telling));
  tell();
});

/** A load balancer that copies bytes: a connection goes to the next node that is ready, as it saw at most 50 ms ago. */
async function balance(nodes: readonly ServedWorkspace[]) {
  let ready: readonly ServedWorkspace[] = nodes;
  let turn = 0;
  let isOver = false;
  const looking = (async () => {
    while (!isOver) {
      const answers = await Promise.all(
        nodes.map((node) => node.ask("GET", "/readyz").catch(() => undefined)),
      );
      ready = nodes.filter((_, at) => answers[at]?.status === 200);
      await wait(50);
    }
  })();
  const server = createServer((incoming) => {
    const { port } = new URL(ready[turn++ % ready.length]!.url);
    const outgoing = connect(Number(port), "127.0.0.1");
    incoming.pipe(outgoing).pipe(incoming);
    for (const [one, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const)
      one.on("error", () => other.destroy()).on("close", () => other.destroy());
  });
  return {
    url: await listen(server),
    async [Symbol.asyncDispose]() {
      isOver = true;
      await looking;
      server.close();
    },
  };
}

describe.skipIf(postgres === undefined)("three servers on one PostgreSQL", { timeout: 60_000 }, () => {
  let fleet: Fleet;
  let a: ServedWorkspace;
  let b: ServedWorkspace;
  let c: ServedWorkspace;
  beforeAll(async () => {
    const provider = { baseURL: `${await listen(storyteller)}/v1`, apiKey: "none", models: ["teller"] };
    fleet = await Fleet.start(3, { providers: { local: provider } });
    [a, b, c] = fleet.nodes as [ServedWorkspace, ServedWorkspace, ServedWorkspace]; // Three were started.
  }, 90_000);
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
    storyteller.close();
  }, 30_000);

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
    const rounds = Array.from({ length: 40 }, (_, round) => `once-${round}`);
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
    }, 500);
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

  it.each(["modern", "legacy"] as const)(
    "serve %s MCP clients whose requests go to each in turn",
    async (era) => {
      const client = new Client(
        { name: "tester", version: "1" },
        {
          capabilities: { elicitation: {} },
          versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" },
        },
      );
      client.setRequestHandler("elicitation/create", async () => ({
        action: "accept",
        content: { n: "me" },
      }));
      let turn = 0;
      const seen = new Set<string>();
      const inTurn = (url: string | URL, init?: RequestInit) => {
        const node = fleet.nodes[turn++ % 3]!;
        seen.add(node.url);
        return fetch(new URL(new URL(url).pathname, node.url), init);
      };
      const headers = { authorization: `Bearer ${fleet.token}` };
      await client.connect(
        new StreamableHTTPClientTransport(new URL("/mcp", a.url), {
          fetch: inTurn,
          requestInit: { headers },
        }),
      );
      for (let round = 0; round < 3; round++) {
        const { content } = await client.callTool({ name: "asks", arguments: {} });
        expect(JSON.stringify(content)).toContain('\\"n\\":\\"me\\"');
        expect((await client.listTools()).tools.length).toBeGreaterThan(3);
      }
      expect(seen.size).toBe(3);
      await client.close();
    },
  );

  it("cancel and tell of an MCP task on any node", async () => {
    const post = async (node: ServedWorkspace, method: string, params: object) => {
      const _meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } },
        "io.modelcontextprotocol/clientInfo": { name: "tester", version: "1" },
      };
      const name =
        "name" in params
          ? { "mcp-name": String(params.name) }
          : "taskId" in params
            ? { "mcp-name": String(params.taskId) }
            : {};
      const response = await fetch(`${node.url}/mcp`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${fleet.token}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": method,
          ...name,
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
      });
      return JSON.parse((await response.text()).replace(/^data: /, ""));
    };
    // What an earlier try of this test did is still told of.
    const id = `task-${Date.now()}`;
    const { taskId } = (await post(a, "tools/call", { name: "endless", arguments: { id, ms: 30_000 } }))
      .result;
    await until(() => fleet.effects(`begin ${id} `).length === 1);
    expect((await post(b, "tasks/get", { taskId })).result).toMatchObject({ status: "working" });
    expect((await post(c, "tasks/cancel", { taskId })).error).toBeUndefined();
    await until(() => fleet.effects(`abort ${id}`).length === 1);
    await until(async () => (await post(b, "tasks/get", { taskId })).result.status === "cancelled");
  });

  it("hold a session that repeats itself, though its calls go to each in turn", async () => {
    const errors: (string | undefined)[] = [];
    for (let n = 0; n < 6 && errors.at(-1) === undefined; n++) {
      const node = fleet.nodes[n % 3]!;
      const { body } = await node.ask("POST", "/api/tools/secretive/calls", {
        arguments: { text: "again" },
        sessionID: "s",
      });
      errors.push(body.error?.code ?? body.result?.error?.code);
      // What a node learns of another takes some milliseconds; a model takes longer until its next call.
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    expect(errors).toEqual([undefined, undefined, undefined, "loop_blocked"].slice(-errors.length));
    expect(errors.length).toBeLessThanOrEqual(4);
  });

  it("tell a turn of a conversation on any node while the model speaks, and stop it there", async () => {
    const path = `/api/chat/sessions/${(await a.ask("POST", "/api/chat/sessions", {})).body.id}`;
    const answered = a.ask("POST", `${path}/messages`, { content: "Tell me a story." });
    await until(async () => (await b.ask("GET", path)).body.running === true);
    await using onB = readEvents(b, undefined, `${path}/events`);
    await until(() => onB.events.filter(({ event }) => event === "text").length >= 2);
    const begun = performance.now();
    expect((await c.ask("POST", `${path}/stop`)).body).toEqual({ stopped: true });
    expect((await answered).body).toMatchObject({ status: "stopped" });
    expect(performance.now() - begun).toBeLessThan(1_000);
    await until(() => onB.events.some(({ event }) => event === "end"));
    expect((await b.ask("GET", path)).body).toMatchObject({ running: false });
  });

  it("let through together what one alone would", async () => {
    const { token } = (await a.ask("POST", "/api/tokens", { name: "many", scopes: { tools: ["*"] } })).body;
    const begun = performance.now();
    const answers = await Promise.all(
      Array.from({ length: 700 }, (_, at) => fleet.nodes[at % 3]!.ask("GET", "/api/tools", undefined, token)),
    );
    const seconds = (performance.now() - begun) / 1_000;
    const passed = answers.filter(({ status }) => status === 200).length;
    expect(passed + answers.filter(({ status }) => status === 429).length).toBe(700);
    // A burst of 200, and 100 more each second.
    expect(passed).toBeGreaterThanOrEqual(190);
    expect(passed).toBeLessThanOrEqual(200 + 100 * seconds + 3);
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

  it.each(["SIGTERM", "drain"] as const)(
    "hand over without a failed call when one behind a load balancer is told to end by %s",
    async (how) => {
      const leaving = await fleet.startNode();
      await using balancer = await balance([leaving, a, b]);
      const outcomes: unknown[] = [];
      let isOver = false;
      const clients = Array.from({ length: 8 }, async (_, at) => {
        for (let n = 0; !isOver; n++) {
          const answer = fetch(`${balancer.url}/api/tools/note/calls`, {
            method: "POST",
            headers: { authorization: `Bearer ${fleet.token}`, "content-type": "application/json" },
            body: JSON.stringify({ arguments: { id: `drain-${how}-${at}-${n}`, ms: 20 } }),
          });
          // The answer to a call has this member.
          const recordedOf = async (one: Response) => ((await one.json()) as { recorded: boolean }).recorded;
          outcomes.push(await answer.then(async (one) => [one.status, await recordedOf(one)], String));
        }
      });
      await until(() => outcomes.length > 50);
      if (how === "drain") {
        const { items } = (await leaving.ask("GET", "/api/nodes")).body;
        expect((await a.ask("POST", `/api/nodes/${items[0].id}/drain`)).status).toBe(200);
      }
      expect(await leaving.end(how === "drain" ? "SIGCONT" : how)).toEqual([0, null]);
      const before = outcomes.length;
      await until(() => outcomes.length > before + 50);
      isOver = true;
      await Promise.all(clients);
      expect(new Set(outcomes.map(String))).toEqual(new Set(["200,true"]));
    },
  );
});

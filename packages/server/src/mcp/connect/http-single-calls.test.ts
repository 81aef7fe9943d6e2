import { afterEach, describe, expect, it, vi } from "vitest";
import { type ScriptedCall, ScriptedHttpServer } from "./testing/scripted-http-server.fixture.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const echo = ({ answer }: ScriptedCall) => answer("here");
const slow = ({ answer }: ScriptedCall) => void setTimeout(() => answer("at last"), 300);

/** Answers with an error of the protocol that is about the request. */
function refuseWith(status: number, error: object) {
  return ({ id, send }: ScriptedCall) => send(status, { jsonrpc: "2.0", id, error });
}

describe.each(["legacy", "modern"] as const)("what happens to one call of a %s server", (era) => {
  it.each([
    [
      "a refusal for want of a scope",
      ({ send }: ScriptedCall) =>
        send(403, "no", { "www-authenticate": 'Bearer error="insufficient_scope", scope="a b"' }),
      /refused the call: .*"a b".*Sign in again: toolrack mcp-servers login far/,
    ],
    [
      "a connection that is reset",
      ({ incoming }: ScriptedCall) => void incoming.socket.destroy(),
      /gave no usable answer: The connection was closed before the answer came \(.+\)\. What it had already done may stand/,
    ],
    ["a bare 404", ({ send }: ScriptedCall) => send(404, "nothing here"), /404 Not Found/],
    [
      "a 404 with an error of the protocol",
      refuseWith(404, { code: -32_601, message: "Method not found", data: { why: "x" } }),
      /refused the call: Method not found \(code -32601\)/,
    ],
    [
      "a 400 that speaks of another session",
      refuseWith(400, { code: -32_602, message: "bad checkout session id in your arguments" }),
      /refused the call: bad checkout session id in your arguments \(code -32602\)/,
    ],
    [
      "a 503",
      ({ send }: ScriptedCall) => send(503, "busy", { "retry-after": "7" }),
      /refused the call: It answered with 503 Service Unavailable: busy\. It asks to wait 7 s\./,
    ],
    [
      "a page of a proxy",
      ({ send }: ScriptedCall) => send(500, "<html>boom</html>", { "content-type": "text/html" }),
      /refused the call: It answered with 500 Internal Server Error and a page of HTML\./,
    ],
    [
      "an answer of another form",
      ({ send }: ScriptedCall) => send(200, { hello: "world" }),
      /gave no usable answer: It answered with JSON that is no message of MCP\.$/,
    ],
  ])("%s concerns that call alone, which is made once", async (_, odd, message) => {
    await using server = await ScriptedHttpServer.start({
      era,
      withoutSessions: true,
      tools: { odd, echo, slow },
    });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    const other = rack.call("mcp_far_slow");
    const { content } = await rack.call("mcp_far_odd");
    expect(content).toMatch(message);
    expect(rack.servers.get("far")).toMatchObject({ state: "ready", failures: 0, circuit: "closed" });
    expect(await other).toMatchObject({ content: "at last" });
    expect(await rack.call("mcp_far_echo")).toMatchObject({ content: "here" });
    expect(server.calls.filter((name) => name === "odd")).toHaveLength(1);
  });

  it("the facts of a refusal are there for programs", async () => {
    const error = { code: -32_602, message: "bad", data: { field: "x" } };
    await using server = await ScriptedHttpServer.start({
      era,
      tools: {
        bad: refuseWith(400, error),
        busy: ({ send }) => send(429, "slow down", { "retry-after": "7" }),
      },
    });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    expect((await rack.call("mcp_far_bad")).error?.details).toMatchObject({
      server: "far",
      kind: "refused",
      code: -32_602,
      data: { field: "x" },
    });
    expect((await rack.call("mcp_far_busy")).error?.details).toMatchObject({
      kind: "refused",
      status: 429,
      retryAfter: 7,
    });
  });
});

describe("a server with sessions", () => {
  it("that cannot continue the stream of one call loses only that call", async () => {
    await using server = await ScriptedHttpServer.start({
      tools: {
        // It says how to go on, and then does not.
        cut: ({ outgoing }) => {
          outgoing.writeHead(200, { "content-type": "text/event-stream" });
          outgoing.write("id: 1\nretry: 10\ndata: \n\n", () => outgoing.end());
        },
        slow: ({ answer }) => void setTimeout(() => answer("at last"), 1_000),
      },
      onResume: (_, outgoing) => void outgoing.writeHead(404).end(),
    });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    const other = rack.call("mcp_far_slow");
    expect((await rack.call("mcp_far_cut")).content).toMatch(/ended its answer before it was complete/);
    expect(rack.servers.get("far")).toMatchObject({ state: "ready", failures: 0 });
    expect(await other).toMatchObject({ content: "at last" });
  });

  it.each([
    ["without the id of the request", -32_000, false],
    ["with the id of the request", -32_000, true],
    ["with the id of the request and another code", -32_001, true],
  ])("that says 400 %s for a session that it forgot is shaken hands with again", async (_, code, hasId) => {
    await using server = await ScriptedHttpServer.start({
      tools: { echo },
      onUnknownSession: ({ id, send }) => {
        const error = { code, message: "Bad Request: No valid session ID provided" };
        send(400, { jsonrpc: "2.0", id: hasId ? id : null, error });
      },
    });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    server.forgetSessions();
    expect(await rack.call("mcp_far_echo")).toMatchObject({ content: "here" });
    expect(server).toMatchObject({ handshakes: 2, calls: ["echo"] });
    expect(rack.servers.get("far")).toMatchObject({ state: "ready", failures: 0 });
  });

  it("that knows no session at all refuses the call with its name, and is not lost", async () => {
    const lost = ({ send }: ScriptedCall) => send(404, "Session not found");
    await using server = await ScriptedHttpServer.start({ tools: { lost, echo } });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    expect((await rack.call("mcp_far_lost")).content).toMatch(/"far" refused the call: .*404.*Session not/);
    expect(server.calls).toEqual(["lost", "lost"]);
    expect(await rack.call("mcp_far_echo")).toMatchObject({ content: "here" });
  });
});

describe("a server that failed before and lost its sessions", () => {
  afterEach(() => void vi.useRealTimers());

  it("is waited for by all calls, and once it was steady its failures are forgotten", async () => {
    await using server = await ScriptedHttpServer.start({ tools: { echo } });
    server.status = 503;
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "backoff");
    server.status = undefined;
    await rack.until("far", "ready");
    expect(rack.servers.get("far").failures).toBeGreaterThan(0);
    const arrived = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    server.beforeHandshake = () => {
      arrived.resolve();
      return goOn.promise;
    };
    server.forgetSessions();
    const first = rack.call("mcp_far_echo");
    await arrived.promise;
    const others = [1, 2, 3].map(() => rack.call("mcp_far_echo"));
    setTimeout(goOn.resolve, 50);
    for (const result of await Promise.all([first, ...others])) {
      expect(result).toMatchObject({ content: "here" });
    }
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
    expect(rack.servers.get("far")).toMatchObject({ state: "ready", failures: 0 });
  });

  it("is not waited for by calls that were given up", async () => {
    await using server = await ScriptedHttpServer.start({ tools: { echo } });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    const goOn = Promise.withResolvers<void>();
    server.beforeHandshake = () => goOn.promise;
    server.forgetSessions();
    const results = await Promise.all([1, 2].map(() => rack.call("mcp_far_echo", {}, { timeout: 300 })));
    expect(results.map(({ error }) => error?.code)).toEqual(["timed_out", "timed_out"]);
    await rack.eventually(() => rack.servers.get("far").inFlight === 0, "their places are free");
    expect(rack.servers.get("far").state).toBe("starting");
    goOn.resolve();
  });
});

describe("a server that is gone", () => {
  it.each(["legacy", "modern"] as const)(
    "although it was remembered as a %s one is told of by its answer",
    async (era) => {
      await using server = await ScriptedHttpServer.start({ era, tools: { echo } });
      await using rack = await UpstreamRack.create();
      await rack.open({ far: { url: server.url } });
      await rack.until("far", "ready");
      server.status = 404;
      await rack.servers.restart("far");
      const reason = "It answered with 404 Not Found: down.";
      expect(rack.servers.get("far")).toMatchObject({ state: "backoff", reason });
      // Found out anew, it is neither of the two kinds.
      await rack.servers.restart("far");
      expect(rack.servers.get("far")).toMatchObject({ state: "backoff", reason });
      server.status = undefined;
      await rack.servers.restart("far");
      expect(await rack.call("mcp_far_echo")).toMatchObject({ content: "here" });
    },
  );

  it("is noticed when it breaks a connection, also without a further call", async () => {
    const stop = Promise.withResolvers<void>();
    const last = ({ incoming }: ScriptedCall) => {
      incoming.socket.destroy();
      stop.resolve();
    };
    const tools = { last };
    const server = await ScriptedHttpServer.start({ tools });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    const call = rack.call("mcp_far_last");
    await stop.promise;
    await server[Symbol.asyncDispose]();
    expect((await call).type).toBe("error");
    await rack.until("far", "backoff");
    const { content } = await rack.call("mcp_far_last");
    expect(content).toMatch(
      /"far" is not available \(backoff\)\. It cannot be reached: .*ECONNREFUSED.*\. It is/,
    );
  });
});

describe("a server that is sent the credentials of its entry", () => {
  const closed = ({ send }: ScriptedCall) => send(401, "not this one");

  it("and refuses them for one tool goes on with the others", async () => {
    await using server = await ScriptedHttpServer.start({ tools: { closed, echo } });
    server.authorization = "Bearer good";
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url, headers: { Authorization: "Bearer good" } } });
    await rack.until("far", "ready");
    const { content, error } = await rack.call("mcp_far_closed");
    expect(content).toMatch(
      /"far" refused the call: It answered with 401 Unauthorized: not this one\. The headers/,
    );
    expect(error?.details).toMatchObject({ kind: "refused", status: 401 });
    expect(rack.servers.get("far")).toMatchObject({ state: "ready", failures: 0 });
    expect(await rack.call("mcp_far_echo")).toMatchObject({ content: "here" });
    expect(server.handshakes).toBe(1);
  });

  it("and refuses them for everything is known to, and tried again", async () => {
    await using server = await ScriptedHttpServer.start({ tools: { echo } });
    server.authorization = "Bearer good";
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url, headers: { Authorization: "Bearer good" } } });
    await rack.until("far", "ready");
    server.authorization = "Bearer another";
    expect((await rack.call("mcp_far_echo")).content).toMatch(/401 Unauthorized: no entrance/);
    await rack.until("far", "needs-auth");
    expect(rack.servers.get("far").nextAttemptAt).toBeTypeOf("number");
    server.authorization = "Bearer good";
    await rack.until("far", "ready");
    expect(await rack.call("mcp_far_echo")).toMatchObject({ content: "here" });
  });
});

describe("a server that asks to wait", () => {
  it.each([429, 503])(
    "with %i while it is connected to is asked once, and left alone for so long",
    async (status) => {
      await using server = await ScriptedHttpServer.start({ tools: { echo } });
      server.status = status;
      server.statusHeaders = { "retry-after": "3" };
      await using rack = await UpstreamRack.create();
      await rack.open({ far: { url: server.url } });
      await rack.until("far", "backoff");
      const { reason, nextAttemptAt = 0 } = rack.servers.get("far");
      expect(reason).toMatch(/It answered with .*: down\. It asks to wait 3 s\./);
      expect(server.refusedAt).toHaveLength(1);
      expect(nextAttemptAt - server.refusedAt[0]!).toBeGreaterThanOrEqual(3_000);
      server.status = undefined;
      await rack.until("far", "ready");
    },
  );
});

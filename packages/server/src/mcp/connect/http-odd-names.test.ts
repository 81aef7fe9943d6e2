import { expect, it, vi } from "vitest";
import type { ServerContext } from "./server-context.ts";
import { type ScriptedCall, ScriptedHttpServer } from "./testing/scripted-http-server.fixture.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";
import { Upstream } from "./upstream.ts";

vi.setConfig({ testTimeout: 60_000 });

const echo = ({ answer }: ScriptedCall) => answer("here");

/** Members that every object has without being given them. */
const names = ["constructor", "toString", "hasOwnProperty", "__proto__"];

it("tools that are named like members of every object are tools like any other", async () => {
  await using server = await ScriptedHttpServer.start({
    tools: Object.fromEntries(names.map((name) => [name, echo])),
  });
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url } });
  await rack.until("far", "ready");
  for (const { rackName } of rack.servers.tools("far")) {
    expect(await rack.call(rackName)).toMatchObject({ content: "here" });
  }
  expect(rack.servers.tools("far").map(({ name }) => name)).toEqual(names);
  expect(rack.registry.get("mcp_far_constructor")).toMatchObject({ displayName: "far/constructor" });
  await rack.servers.add("other", { url: server.url });
  await rack.until("other", "ready");
  await rack.servers.update("far", { tools: { toString: { rename: "text" } } });
  expect(await rack.call("mcp_far_text")).toMatchObject({ content: "here" });
});

it("a tool that is left out for its schema is not shown as offered", async () => {
  await using server = await ScriptedHttpServer.start({
    tools: { echo, odd: echo },
    schemas: { odd: { type: "objekt" } },
  });
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url } });
  await rack.until("far", "ready");
  const offered = rack.servers.tools("far").map(({ name, offered }) => [name, offered]);
  expect(offered).toEqual([
    ["echo", true],
    ["odd", false],
  ]);
});

it("a tool whose arguments would have to be something else than an object is left out, and it is said why", async () => {
  await using server = await ScriptedHttpServer.start({
    tools: { list: echo, perhaps: echo, either: echo, unsaid: echo },
    schemas: {
      list: { type: "array" },
      perhaps: { type: ["string", "null"] },
      either: { type: ["object", "null"] },
      unsaid: { properties: {} },
    },
  });
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url } });
  await rack.until("far", "ready");
  const offered = rack.servers.tools("far").flatMap(({ name, offered }) => (offered ? [name] : []));
  expect(offered).toEqual(["either", "unsaid"]);
  expect(rack.servers.get("far").refused).toEqual([
    {
      name: "list",
      reason:
        'Its inputSchema is of the type "array", while arguments are always an object: nobody could call it.',
    },
    { name: "perhaps", reason: expect.stringContaining('["string","null"]') },
  ]);
});

it("a server whose tools cannot be hung up is tried again, and says why", async () => {
  await using server = await ScriptedHttpServer.start({ tools: { echo } });
  await using rack = await UpstreamRack.create();
  const reached = Promise.withResolvers<void>();
  const context = {
    surroundings: {
      directory: rack.directory,
      environment: {},
      secret: async () => undefined,
      setting: async () => undefined,
    },
    identity: { id: "here", above: [] },
    clientInfo: { name: "test", version: "0" },
    packages: { install: () => Promise.reject(new Error("nothing is installed here")) },
    mask: (text: string) => text,
    maskFor() {},
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    onChange: () => upstream.state === "backoff" && reached.resolve(),
  };
  const owner = {
    key: "far",
    wanted: { key: "far", entry: { url: server.url }, place: "file", isEnabled: true },
    context: context as unknown as ServerContext, // A connection uses nothing else of it.
    place: "mcp.json",
    verdict: undefined,
    learn() {},
    admit() {},
    take: () => {
      throw new Error("no place for it");
    },
    updated() {},
  } as const;
  const upstream = new Upstream(owner, { limits: undefined, signIn: undefined, catalogue: undefined });
  upstream.start();
  await reached.promise;
  expect(upstream.status).toMatchObject({
    state: "backoff",
    failures: 1,
    reason: "no place for it.",
    nextAttemptAt: expect.any(Number),
  });
  expect(upstream.catalogue.tools).toEqual([]);
  await upstream.stop();
});

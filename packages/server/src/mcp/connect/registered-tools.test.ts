import { canonicalName } from "@toolrack/core/internal";
import { expect, it } from "vitest";
import { originOf } from "../../config/tool-patterns.ts";
import { ScriptedHttpServer } from "./testing/scripted-http-server.fixture.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

it("a tool that takes over the name of another is itself, though nothing else tells them apart", async () => {
  // What is no name for a tool has its hash behind it, which another may have as a part of its own.
  const name = canonicalName("mcp_far_files.read");
  const other = name.slice("mcp_far_".length);
  let listed = "files.read";
  await using server = await ScriptedHttpServer.start({
    tools: { "files.read": ({ answer }) => answer("old"), [other]: ({ answer }) => answer("new") },
    list: () => ({ tools: [{ name: listed, inputSchema: { type: "object" } }] }),
  });
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url } });
  await rack.until("far", "ready");
  expect(await rack.call(name)).toMatchObject({ content: "old" });
  listed = other;
  await rack.servers.restart("far");
  expect(await rack.call(name)).toMatchObject({ content: "new" });
  expect(originOf(rack.registry.get(name)!)).toMatchObject({ server: "far", tool: other });
});

it("a tool that stays the same stays on the rack as it is, whatever state its server is in", async () => {
  await using server = await ScriptedHttpServer.start({ tools: { echo: ({ answer }) => answer("here") } });
  await using rack = await UpstreamRack.create();
  await rack.open({ far: { url: server.url } });
  await rack.until("far", "ready");
  const before = rack.registry.get("mcp_far_echo");
  server.status = 503;
  await rack.servers.restart("far");
  expect(rack.servers.get("far").state).not.toBe("ready");
  // Whatever is said of the server, its tools are looked at anew.
  await rack.servers.update("far", { tools: {} });
  expect(rack.registry.get("mcp_far_echo")).toBe(before);
});

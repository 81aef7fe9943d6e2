import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { ToolRegistry } from "@toolrack/core";
import { expect, it, vi } from "vitest";
import { ScriptedHttpServer } from "./testing/scripted-http-server.fixture.ts";
import { everybody, UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
const SECRET = "zz9secretvalueA";
const LITERAL = "written-in-clear-77";

/** A rack that masks as a served one does. */
async function open(mcpServers: object): Promise<UpstreamRack> {
  const rack = await UpstreamRack.create();
  await rack.secrets.set("ZZ", SECRET);
  const registry = new ToolRegistry({ directory: rack.directory, secrets: () => rack.secrets.values() });
  await rack.open(mcpServers, { registry });
  return Object.assign(rack, { registry });
}

/** Everything that people and programs are shown of the servers. */
function shownOf({ servers, messages }: UpstreamRack): string {
  const logs = servers.list().map(({ key }) => servers.log(key));
  return JSON.stringify([servers.list(), logs, messages]);
}

/** Refuses whoever comes, and says with what they came. */
async function refusing(): Promise<AsyncDisposable & { readonly url: string }> {
  const said = ({ headers }: IncomingMessage) =>
    `invalid token: ${headers.authorization} ${headers["x-key"]}`;
  const http = createServer((incoming, outgoing) => outgoing.writeHead(403).end(said(incoming)));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    [Symbol.asyncDispose]: async () => {
      http.closeAllConnections();
      http.close();
    },
  };
}

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: these are the variables of the file, not of the language.
it("what keeps a server from being ready is said without the values that it was given", async () => {
  await using server = await refusing();
  const withPassword = server.url.replace("://", `://user:${SECRET}@`);
  await using rack = await open({
    header: { url: server.url, headers: { Authorization: "Bearer ${secret:ZZ}" } },
    literal: { url: server.url, headers: { "X-Key": LITERAL } },
    address: { url: `${withPassword}?api_key=${LITERAL}` },
    command: { command: "/nope/${secret:ZZ}" },
  });
  for (const key of ["header", "literal", "address"]) await rack.until(key, "needs-auth");
  await rack.until("command", "failed");
  expect(rack.servers.get("header").reason).toMatch(/403 Forbidden: invalid token: Bearer \[redacted\]/);
  expect(rack.servers.get("header").reason).toMatch(/does not take the credentials of its entry/);
  expect(rack.servers.get("literal").reason).toContain("undefined [redacted]");
  expect(rack.servers.get("address").reason).toMatch(/invalid token: Basic \[redacted\]/);
  expect(rack.servers.get("command").reason).toMatch(/"\/nope\/\[redacted\]" cannot be started/);
  const shown = shownOf(rack);
  for (const value of [SECRET, LITERAL, Buffer.from(`user:${SECRET}`).toString("base64")]) {
    expect(shown).not.toContain(value);
  }
});

it("what a server prints, answers and refuses with is masked where it repeats a value of its entry", async () => {
  await using server = await ScriptedHttpServer.start({
    tools: {
      refuse: ({ incoming, send }) => send(500, `who is ${incoming.headers["x-key"]}`),
      say: ({ incoming, answer }) => answer(`you are ${incoming.headers["x-key"]}`),
    },
  });
  await using rack = await open({
    near: {
      command: process.execPath,
      args: ["-e", "console.error(process.env.PIN_CODE)"],
      env: { PIN_CODE: LITERAL },
    },
    far: { url: server.url, headers: { "X-Key": LITERAL } },
    odd: { command: process.execPath, args: [odd], env: { SEC: LITERAL, NODE_ENV: "production" } },
  });
  await rack.until("near", "backoff");
  await rack.until("far", "ready");
  await rack.until("odd", "ready");
  expect(rack.servers.log("near").map(({ text }) => text)).toContain("[redacted]");
  const results = [
    await rack.call("mcp_far_refuse"),
    await rack.call("mcp_far_say"),
    await rack.call("mcp_odd_environment"),
  ];
  expect(JSON.stringify(results)).toContain("you are [redacted]");
  expect(JSON.stringify(results)).toContain("who is [redacted]");
  expect(JSON.stringify(results)).toContain("production");
  expect(JSON.stringify([results, shownOf(rack)])).not.toContain(LITERAL);
});

it("what is refused about a resource is said without the values of the entry", async () => {
  await using rack = await open({
    odd: { command: process.execPath, args: [odd], env: { ODD_REFUSAL: LITERAL } },
  });
  await rack.until("odd", "ready");
  const reading = rack.offerings.readResource("odd://clock", everybody);
  await expect(reading).rejects.toThrow(/refused resources\/read: \[redacted\]/);
});

it("a value is masked as long as its entry is there", async () => {
  await using rack = await open({ odd: { command: process.execPath, args: [odd] } });
  await rack.servers.add("other", { command: process.execPath, args: [odd], env: { SEC: LITERAL } });
  await rack.until("odd", "ready");
  await rack.until("other", "ready");
  expect((await rack.call("mcp_odd_echo", { text: LITERAL })).content).toBe("[redacted]");
  await rack.servers.remove("other");
  expect((await rack.call("mcp_odd_echo", { text: LITERAL })).content).toBe(LITERAL);
});

it("credentials in an address are sent as HTTP has them sent", async () => {
  await using server = await ScriptedHttpServer.start({
    tools: { who: ({ incoming, answer }) => answer(atob((incoming.headers.authorization ?? "").slice(6))) },
  });
  await using rack = await UpstreamRack.create();
  await rack.secrets.set("ZZ", "p@ss word");
  await rack.open({
    far: { url: server.url.replace("://", "://us%65r:${secret:ZZ}@") },
    both: { url: server.url.replace("://", "://user:x@"), headers: { authorization: "Bearer x" } },
  });
  await rack.until("both", "failed");
  expect(rack.servers.get("both").reason).toMatch(/credentials in its url and an Authorization header/);
  await rack.until("far", "ready");
  expect((await rack.call("mcp_far_who")).content).toBe("user:p@ss word");
  expect(rack.servers.get("far").signIn).toBeUndefined();
});
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: these are the variables of the file, not of the language.

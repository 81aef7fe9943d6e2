import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ToolRegistry } from "@toolrack/core";
import { expect, it, vi } from "vitest";
import { MaskedValues } from "../../access/secrets.ts";
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
  expect(rack.servers.list().map(({ key, reasonCode }) => [key, reasonCode])).toEqual([
    ["address", "credentials_wanted"],
    ["command", "program_missing"],
    ["header", "credentials_wanted"],
    ["literal", "credentials_wanted"],
  ]);
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

/** A server that answers so, and is given a value that is masked. */
async function openAnswering(answers: Readonly<Record<string, object>>): Promise<UpstreamRack> {
  const rack = await UpstreamRack.create();
  const file = join(rack.directory, "answers.json");
  const results = Object.entries(answers).map(([method, result]) => [method, { result }]);
  await writeFile(file, JSON.stringify(Object.fromEntries(results)));
  const masked = new MaskedValues(() => rack.secrets.values());
  const registry = new ToolRegistry({ secrets: () => masked.refresh() });
  const env = { ODD_LISTS_FILE: file, API_KEY: LITERAL };
  await rack.open({ odd: { command: process.execPath, args: [odd], env } }, { registry });
  await rack.until("odd", "ready");
  return rack;
}

it("what resources, prompts and completions hold is masked as results are", async () => {
  const bytes = Buffer.from(`key=${LITERAL}`).toString("base64");
  const contents = [
    { uri: "odd://clock", text: `it is ${LITERAL}, Bearer of-nobody-we-know` },
    { uri: "odd://clock", blob: bytes },
  ];
  const messages = [{ role: "user", content: { type: "text", text: `ask with ${LITERAL}` } }];
  const answers = {
    "resources/read": { contents },
    "prompts/list": { prompts: [{ name: "ask" }] },
    "prompts/get": { messages },
    "completion/complete": { completion: { values: [LITERAL, "other"] } },
  };
  await using rack = await openAnswering(answers);
  const { offerings } = rack;
  expect((await offerings.readResource("odd://clock", everybody))?.contents).toEqual([
    // What only looks like a secret stays, as in results.
    { uri: "odd://clock", text: "it is [redacted], Bearer of-nobody-we-know" },
    { uri: "odd://clock", blob: Buffer.from("[redacted]").toString("base64") },
  ]);
  const prompt = await offerings.getPrompt("mcp_odd_ask", {}, everybody);
  expect(prompt?.messages[0]?.content).toEqual({ type: "text", text: "ask with [redacted]" });
  const ref = { type: "ref/prompt", name: "mcp_odd_ask" } as const;
  const request = { ref, argument: { name: "a", value: "" }, others: {} };
  expect((await offerings.complete(request, everybody))?.values).toEqual(["[redacted]", "other"]);
});

it("a resource is read at the address that it is listed at, and links are noted as they were given", async () => {
  const uri = `odd://files/${LITERAL}`;
  const linked = `odd://notes/${LITERAL}`;
  const contents = [
    { uri, text: LITERAL },
    { uri: `${uri}/inner`, text: "inner" },
  ];
  const links = [
    { type: "resource_link", uri: linked, name: "notes" },
    { type: "resource", resource: { uri: `${linked}/2`, text: LITERAL } },
  ];
  const answers = {
    "resources/list": { resources: [{ uri, name: "file" }] },
    "resources/read": { contents },
    "prompts/list": { prompts: [{ name: "ask" }] },
    "prompts/get": { messages: links.map((content) => ({ role: "user", content })) },
  };
  await using rack = await openAnswering(answers);
  const { offerings } = rack;
  expect((await offerings.readResource(uri, everybody))?.contents).toEqual([
    { uri, text: "[redacted]" },
    { uri: "odd://files/[redacted]/inner", text: "inner" },
  ]);
  const prompt = await offerings.getPrompt("mcp_odd_ask", {}, everybody);
  expect(JSON.stringify(prompt)).not.toContain(LITERAL);
  for (const given of [linked, `${linked}/2`])
    expect((await offerings.readResource(given, everybody))?.contents).toHaveLength(2);
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

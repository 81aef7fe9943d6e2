import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { StoredToken } from "../../store/tokens.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const odd = fileURLToPath(new URL("../connect/testing/odd-server.fixture.mjs", import.meta.url));
const eras: Era[] = ["modern", "legacy"];

/** The two want one name, `mcp_git_admin_wipe`, so that each has it with a hash. */
const offered = {
  git: { tools: ["log", "history", "admin_wipe", "crash"], prompts: ["summarise"], resources: ["head"] },
  git_admin: { tools: ["delete", "wipe"], prompts: ["audit"], resources: ["users"] },
  "@acme/git": { tools: ["push"], prompts: [], resources: [] },
};

const listsOf = (key: string) => `lists/${encodeURIComponent(key)}.json`;

let rack: ServedRack;

beforeAll(async () => {
  const files = Object.entries(offered).map(([key, { tools, prompts, resources }]) => [
    listsOf(key),
    JSON.stringify({
      "tools/list": { result: { tools: tools.map((name) => ({ name, inputSchema: { type: "object" } })) } },
      "prompts/list": { result: { prompts: prompts.map((name) => ({ name })) } },
      "prompts/get": { result: { messages: [{ role: "user", content: { type: "text", text: key } }] } },
      "resources/list": { result: { resources: resources.map((name) => ({ name, uri: `odd://${name}` })) } },
      "resources/read": { result: { contents: [{ uri: "odd://any", text: key }] } },
    }),
  ]);
  rack = await ServedRack.open({
    "toolrack.config.ts":
      'export default { builtins: false, mcp: { metaTools: "on", alwaysListed: ["mcp:git/log", "mcp:@acme%2Fgit"] } };',
    // Says of itself what only the rack may say.
    "tools/liar.ts": toolFile(
      'name: "liar", metadata: { mcp: { server: "git", tool: "log" } }, execute: async () => "lies"',
    ),
    ...Object.fromEntries(files),
  });
  for (const key of Object.keys(offered)) {
    const entry = {
      command: process.execPath,
      args: [odd],
      env: { ODD_LISTS_FILE: join(rack.workspace.directory, listsOf(key)) },
      toolrack: { tools: { rename: { history: "past" } } },
    };
    expect((await ask("POST", "/api/mcp-servers", { key, entry })).status).toBe(200);
  }
  await vi.waitFor(
    () => {
      const total = rack.serving.app.registry.list().filter(({ name }) => name.startsWith("mcp_")).length;
      expect(total).toBe(7);
    },
    { timeout: 30_000 },
  );
});

afterAll(() => rack?.[Symbol.asyncDispose]());

async function ask(method: string, path: string, body?: object, token = rack.token) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const init = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(new URL(path, rack.serving.url), { method, headers, ...init });
  return { status: response.status, body: JSON.parse(await response.text()) };
}

/** Each by the server and what it is called there, as people are shown it. */
async function seenBy(scopes: StoredToken["scopes"], query = ""): Promise<string[]> {
  const { body } = await ask("GET", `/api/tools${query}`, undefined, await rack.issue(scopes));
  return body.items
    .map((tool: { displayName?: string; name: string }) => tool.displayName ?? tool.name)
    .toSorted();
}

const ofGit = ["git/admin_wipe", "git/crash", "git/history", "git/log"];

test("a token for a server sees the tools of exactly that one, by whatever names it has them", async () => {
  expect(await seenBy({ tools: ["mcp:git"] })).toEqual(ofGit);
  expect(await seenBy({ tools: ["mcp:git_admin"] })).toEqual(["git_admin/delete", "git_admin/wipe"]);
  expect(await seenBy({ tools: ["mcp:@acme%2Fgit"] })).toEqual(["@acme/git/push"]);
  expect(await seenBy({ tools: ["mcp:@acme/git"] })).toEqual([]);
  expect(await seenBy({ tools: ["mcp:git/*wipe", "mcp:git/history"] })).toEqual([
    "git/admin_wipe",
    "git/history",
  ]);
  expect(await seenBy({ tools: ["mcp:git/past"] })).toEqual([]);
  // What there was before says less exactly whose tools are meant.
  expect(await seenBy({ tools: ["mcp_git_*"] })).toContain("git_admin/delete");
});

test("it calls them, and the tools of others are not there for it", async () => {
  const token = await rack.issue({ tools: ["mcp:git"] });
  const call = (name: string) => ask("POST", `/api/tools/${name}/calls`, { arguments: {} }, token);
  expect((await call("mcp_git_past")).body).toMatchObject({ result: { content: "called history" } });
  expect((await call("mcp_git_admin_delete")).body).toMatchObject({ error: { code: "tool_not_found" } });
  expect((await call("liar")).body).toMatchObject({ error: { code: "tool_not_found" } });
});

test.each(eras)(
  "a %s client sees and reads the prompts and resources of the server, and no others",
  async (era) => {
    const token = await rack.issue({ tools: ["mcp:git"] });
    const client = await rack.connect(era, {}, { token });
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(["mcp_git_summarise"]);
    expect((await client.listResources()).resources.map(({ name }) => name)).toEqual(["head"]);
    expect((await client.getPrompt({ name: "mcp_git_summarise" })).messages).toHaveLength(1);
    expect((await client.readResource({ uri: "odd://head" })).contents).toHaveLength(1);
    await expect(client.readResource({ uri: "odd://users" })).rejects.toThrow(/not found/);
    await expect(client.getPrompt({ name: "mcp_git_admin_audit" })).rejects.toThrow(/no prompt/);
  },
);

test("prompts and resources fit by the names that the server itself gives them", async () => {
  const token = await rack.issue({ tools: ["mcp:git/summ*", "mcp:git_admin/users"] });
  const client = await rack.connect("modern", {}, { token });
  expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(["mcp_git_summarise"]);
  expect((await client.listResources()).resources.map(({ name }) => name)).toEqual(["users"]);
});

test("the tools of a server that are always listed stand beside the meta-tools", async () => {
  const client = await rack.connect("modern");
  const names = (await client.listTools()).tools.map(({ name }) => name).toSorted();
  const { items } = (await ask("GET", "/api/mcp-servers/%40acme%2Fgit/tools")).body;
  expect(names).toEqual(
    [items[0].rackName, "mcp_git_log", "toolrack_call", "toolrack_describe", "toolrack_search"].toSorted(),
  );
});

test("an expert has the tools, prompts and resources of exactly the server that it names", async () => {
  await rack.serving.app.skills.experts.create({ name: "Historian", tools: ["mcp:git"] });
  expect(await seenBy({ experts: ["Historian"] }, "?expert=Historian")).toEqual(ofGit);
  const token = await rack.issue({ experts: ["Historian"] });
  const client = await rack.connect("modern", {}, { token, path: "/mcp/Historian" });
  expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(["mcp_git_summarise"]);
  expect((await client.listResources()).resources.map(({ name }) => name)).toEqual(["head"]);
  const refused = rack.serving.app.skills.experts.create({ name: "Nobody", tools: ["file_*", "mcp:"] });
  await expect(refused).rejects.toThrow(/tools\[1\].*Write mcp:KEY/);
});

test("a rule for a server is for its tools alone", async () => {
  const rule = (await ask("POST", "/api/approval-rules", { tool: "mcp:git/admin_*", decision: "deny" })).body;
  const { items } = (await ask("GET", "/api/mcp-servers/git/tools")).body;
  const wipe = items.find(({ name }: { name: string }) => name === "admin_wipe").rackName;
  const call = async (name: string) =>
    (await ask("POST", `/api/tools/${name}/calls`, { arguments: {} })).body;
  expect(wipe).toMatch(/^mcp_git_admin_wipe_/);
  expect(JSON.stringify(await call(wipe))).toContain("denies mcp:git/admin_*");
  expect(await call("mcp_git_admin_delete")).toMatchObject({ result: { content: "called delete" } });
  expect((await ask("DELETE", `/api/approval-rules/${rule.id}`)).status).toBe(200);
});

test.each([
  ["/api/tokens", { name: "t", scopes: { tools: ["file_*", "mcp:"] } }, "scopes.tools[1]"],
  ["/api/experts", { name: "t", tools: ["mcp:*"] }, "tools[0]"],
  ["/api/approval-rules", { tool: "mcp:git/", decision: "deny" }, "tool"],
])("%s refuses a pattern that could be none, and says what to write", async (path, body, place) => {
  const answer = await ask("POST", path, body);
  expect(answer.status).toBe(400);
  expect(answer.body.error).toMatchObject({
    code: "invalid_request",
    message: expect.stringMatching(/Write mcp/),
    details: { issues: [{ path: place }] },
  });
});

test.each([
  [`mcp:git/${"x".repeat(193)}`, /200/],
  ["mcp:git/\0", /neither NUL/],
  ["mcp:git/log ", /blank/],
])("a rule that could not be kept as it is, is refused (%#)", async (tool, sentence) => {
  const answer = await ask("POST", "/api/approval-rules", { tool, decision: "deny" });
  expect(answer.status).toBe(400);
  expect(answer.body.error).toMatchObject({
    code: "invalid_request",
    details: { issues: [{ path: "tool", message: expect.stringMatching(sentence) }] },
  });
});

test("the tools of a server that has died stay those of the server", async () => {
  await ask("POST", "/api/tools/mcp_git_crash/calls", { arguments: {} });
  expect(await seenBy({ tools: ["mcp:git"] })).toEqual(ofGit);
});

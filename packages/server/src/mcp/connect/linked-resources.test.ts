import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import { type RackItem, toolMatcher } from "../../config/tool-patterns.ts";

import { LinkedResources } from "./offerings.ts";
import { everybody, UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));

/** Servers of these keys, each of which reads every address and says that it was the one. */
async function readers(keys: readonly string[], more: Readonly<Record<string, object>> = {}) {
  const rack = await UpstreamRack.create();
  const entries = keys.map(async (key) => {
    const file = join(rack.directory, `${key}.json`);
    const contents = [{ uri: "report://2026/1", text: `read by ${key}` }];
    await writeFile(file, JSON.stringify({ "resources/read": { result: { contents } }, ...more }));
    return [key, { command: process.execPath, args: [odd], env: { ODD_LISTS_FILE: file } }] as const;
  });
  await rack.open(Object.fromEntries(await Promise.all(entries)));
  for (const key of keys) await rack.until(key, "ready");
  return rack;
}

const blocks = {
  resource_link: { type: "resource_link", uri: "report://2026/1", name: "report" },
  resource: { type: "resource", resource: { uri: "report://2026/1", text: "short" } },
};

async function link(rack: UpstreamRack, key: string, block: object = blocks.resource_link): Promise<void> {
  const line = `{"jsonrpc":"2.0","id":ID,"result":${JSON.stringify({ content: [block] })}}`;
  expect((await rack.call(`mcp_${key}_raw`, { line })).type).not.toBe("error");
}

it.each(["resource_link", "resource"] as const)(
  "what a result refers to with a %s can be read from its server, though it is in no list",
  async (type) => {
    await using rack = await readers(["one"]);
    const read = () => rack.offerings.readResource("report://2026/1", everybody);
    expect(await read()).toBeUndefined();
    await link(rack, "one", blocks[type]);
    expect((await read())?.contents).toEqual([{ uri: "report://2026/1", text: "read by one" }]);
    const stop = await rack.offerings.watchResource("report://2026/1", everybody);
    expect(stop).toBeTypeOf("function");
    stop?.();
  },
);

it("is read by whoever may use the tool that gave it, and by nobody else", async () => {
  await using rack = await readers(["one"]);
  await link(rack, "one");
  const readBy = (allowed: string) =>
    rack.offerings.readResource("report://2026/1", { ...everybody, mayUse: ({ name }) => name === allowed });
  expect(await readBy("mcp_one_echo")).toBeUndefined();
  expect((await readBy("mcp_one_raw"))?.contents).toHaveLength(1);
  const readWith = (pattern: string) =>
    rack.offerings.readResource("report://2026/1", { ...everybody, mayUse: toolMatcher([pattern]) });
  expect((await readWith("mcp:one"))?.contents).toHaveLength(1);
  expect([await readWith("mcp:one/echo"), await readWith("mcp:two")]).toEqual([undefined, undefined]);
  await rack.servers.update("one", { enabled: false });
  expect(await readBy("mcp_one_raw")).toBeUndefined();
});

it("of the tool that gave it no more is remembered than who it is, so that no server that has gone is kept", async () => {
  await using rack = await readers(["one"]);
  await link(rack, "one");
  const kept = new Set<string>();
  const mayUse = ({ metadata }: RackItem) => {
    for (const name of Object.keys(Object(metadata?.mcp))) kept.add(name);
    return true;
  };
  await rack.offerings.readResource("report://2026/1", { ...everybody, mayUse });
  expect([...kept]).toEqual(["server", "tool"]);
});

it("of two servers that gave the same address, the one that did so last is asked", async () => {
  await using rack = await readers(["one", "two"]);
  const textOf = async () =>
    (await rack.offerings.readResource("report://2026/1", everybody))?.contents[0] as { text?: string };
  await link(rack, "one");
  await link(rack, "two");
  expect((await textOf()).text).toBe("read by two");
  await link(rack, "one");
  expect((await textOf()).text).toBe("read by one");
});

it("a template of another server takes over nothing that a result gave", async () => {
  const resourceTemplates = [{ uriTemplate: "report://{+any}", name: "everything" }];
  await using rack = await readers(["a", "b"], {
    "resources/templates/list": { result: { resourceTemplates } },
  });
  const textOf = async () =>
    (await rack.offerings.readResource("report://2026/1", everybody))?.contents[0] as { text?: string };
  expect((await textOf()).text).toBe("read by a");
  await link(rack, "b");
  expect((await textOf()).text).toBe("read by b");
});

it("what fits a template of a server is read from it, whatever the template is written with", async () => {
  const templates = [
    "weather://{city}{?units}",
    "search://items{?q,limit}",
    "repo://files{/path*}",
    "m://e{/p,q}",
    "m://k/{id}/z{?q*}",
    "m://c/{path*}",
  ];
  await using rack = await readers(["one"], {
    "resources/templates/list": {
      result: { resourceTemplates: templates.map((uriTemplate) => ({ uriTemplate, name: uriTemplate })) },
    },
    "completion/complete": { result: { completion: { values: ["celsius"] } } },
  });
  const listed = await rack.offerings.resourceTemplates(everybody);
  expect(listed.map(({ uriTemplate }) => uriTemplate)).toEqual(templates);
  for (const uri of [
    "weather://paris?units=c",
    "weather://paris",
    "search://items?limit=5&q=a",
    "repo://files/a/b/c",
    "m://e/1/2",
    "m://k/1/z?q=1&q=2",
    "m://c/x/y",
  ]) {
    expect((await rack.offerings.readResource(uri, everybody))?.contents, uri).toHaveLength(1);
  }
  expect(await rack.offerings.readResource("search://others?q=a", everybody)).toBeUndefined();
  const ref = { type: "ref/resource", uri: "weather://{city}{?units}" } as const;
  const completed = await rack.offerings.complete(
    { ref, argument: { name: "units", value: "c" }, others: { city: "paris" } },
    everybody,
  );
  expect(completed?.values).toEqual(["celsius"]);
});

it("what patterns are held against is made once for each thing that is listed", async () => {
  const prompts = [{ name: "ask" }, { name: "tell" }];
  await using rack = await readers(["one"], { "prompts/list": { result: { prompts } } });
  const seen: unknown[] = [];
  const reader = { ...everybody, mayUse: (item: unknown) => seen.push(item) > 0 };
  for (let times = 0; times < 3; times++) rack.offerings.prompts(reader);
  expect(seen).toHaveLength(6);
  expect(new Set(seen).size).toBe(2);
});

it("what the rack itself answers for is nobody's to give", async () => {
  await using rack = await readers(["one"]);
  await link(rack, "one", { type: "resource_link", uri: "skill://x/SKILL.md", name: "skill" });
  expect(await rack.offerings.readResource("skill://x/SKILL.md", everybody)).toBeUndefined();
});

it("only so many are remembered, and those that were given again last", () => {
  const links = new LinkedResources();
  const note = (uri: string) => links.note({ type: "resource_link", uri }, { name: "tool" });
  note("a://first");
  note("a://second");
  for (let count = 0; count < 998; count++) note(`a://${count}`);
  note("a://first");
  note("a://last");
  expect(["first", "second", "0", "997", "last"].map((name) => links.has(`a://${name}`))).toEqual([
    true,
    false,
    true,
    true,
    true,
  ]);
  note(`a://${"x".repeat(10_000)}`);
  expect(links.has("a://0")).toBe(true);
});

it("what goes wrong with a prompt or a resource is said with the name of the server", async () => {
  const refused = (message: string) => ({ error: { code: -32_050, message } });
  await using rack = await readers(["one"], {
    "prompts/list": { result: { prompts: [{ name: "greet" }, { name: "odd" }] } },
    "prompts/get": refused("no ink"),
    "resources/list": { result: { resources: [{ uri: "a://b", name: "b" }] } },
    "resources/read": { result: { contents: "none" } },
  });
  await expect(rack.offerings.getPrompt("mcp_one_greet", {}, everybody)).rejects.toMatchObject({
    message: 'The MCP server "one" refused prompts/get: no ink (code -32050)',
    code: -32_050,
  });
  await expect(rack.offerings.readResource("a://b", everybody)).rejects.toThrow(
    /^The MCP server "one" gave no usable answer: Its answer to resources\/read cannot be used/,
  );
});

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isSpecType } from "@modelcontextprotocol/client";
import type { CallClient } from "@toolrack/core";
import { toMcpTools } from "@toolrack/core/format";
import { describe, expect, it, vi } from "vitest";
import { ServedRack, toolFile } from "../serve/testing/served-rack.ts";
import { everybody, UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));

/** The odd server, misbehaving as the flags say. */
function oddServer(flags: readonly string[] = [], more: object = {}): object {
  return { command: process.execPath, args: [odd, ...flags], ...more };
}

/** A caller who can be asked everything, and what they were asked. */
function caller(answer: () => Promise<unknown>): { client: CallClient; asked: object[] } {
  const asked: object[] = [];
  const request: CallClient["request"] = (_method, params, signal) => {
    asked.push(params);
    const gone = new Promise((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
    );
    return Promise.race([answer(), gone]);
  };
  return { asked, client: { can: () => true, request, notify() {} } };
}

const accept = async () => ({ action: "accept", content: { name: "Ada" } });
const OVER_LIMIT =
  '100 questions of the MCP server "odd" wait for their answers already, and no more are put to callers at a time. Ask again when some of them are answered.';
const never = () => new Promise<never>(() => {});

/** A rack with the odd server, and a file that says what it lists. */
async function listing(lists: object): Promise<{ rack: UpstreamRack; write(lists: object): Promise<void> }> {
  const rack = await UpstreamRack.create();
  const file = join(rack.directory, "lists.json");
  const write = (content: object) => writeFile(file, JSON.stringify(content));
  await write(lists);
  await rack.open({ odd: oddServer([], { env: { ODD_LISTS_FILE: file } }) });
  await rack.until("odd", "ready");
  return { rack, write };
}

describe("a question of a server", () => {
  it("about a call that was cancelled reaches nobody else", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const stop = new AbortController();
    const first = rack.call("mcp_odd_asklate", {}, { client: caller(accept).client, signal: stop.signal });
    await rack.eventually(() => rack.servers.get("odd").inFlight === 1, "the call is under way");
    stop.abort();
    await first;
    const other = caller(accept);
    const { content } = await rack.call("mcp_odd_slow", {}, { client: other.client });
    expect(content).toMatch(/cannot be asked.*given up a moment ago/);
    expect(other.asked).toEqual([]);
  });

  it("that nobody answers ends, and holds up nobody who gives up", async () => {
    await using rack = await UpstreamRack.create();
    const limits = { question: 1_000, concurrency: 3 };
    await rack.open({ odd: oddServer([], { toolrack: { limits } }) });
    await rack.until("odd", "ready");
    await rack.call("mcp_odd_ask", {}, { client: caller(accept).client });
    const silent = caller(never);
    const first = rack.call("mcp_odd_ask", {}, { client: silent.client });
    await rack.eventually(() => silent.asked.length === 1, "the question is put");
    const stop = new AbortController();
    const options = { client: caller(accept).client, signal: stop.signal };
    const waiting = [1, 2].map(() => rack.call("mcp_odd_echo", { text: "a" }, options));
    await rack.eventually(() => rack.servers.get("odd").inFlight === 3, "two wait for it");
    stop.abort();
    for (const result of await Promise.all(waiting)) expect(result.error?.code).toBe("cancelled");
    await rack.eventually(() => rack.servers.get("odd").inFlight < 3, "their places are free");
    expect((await first).content).toMatch(/Nobody answered the question within 1 s/);
    expect(rack.servers.get("odd").inFlight).toBe(0);
  });

  it("is answered also when it is one of very many at once", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => void warnings.push(warning);
    process.on("warning", onWarning);
    const { content } = await rack.call("mcp_odd_interrogate", { count: 20_000 });
    process.off("warning", onWarning);
    expect(Object.entries(JSON.parse(String(content)))).toEqual([
      [expect.stringMatching(/cannot be asked/), 20_000],
    ]);
    // Somebody who waits once for each of them is warned of by Node, and takes time that grows with the square.
    expect(warnings).toEqual([]);
  });

  it("is refused when too many wait for their answers already", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const answered = Promise.withResolvers<unknown>();
    const { client, asked } = caller(() => answered.promise);
    const call = rack.call("mcp_odd_interrogate", { count: 1_000 }, { client });
    const isAsked = () => rack.servers.log("odd").some(({ text }) => text.includes("everything was asked"));
    await rack.eventually(isAsked, "everything was asked");
    expect(asked).toHaveLength(100);
    answered.resolve({ action: "accept", content: {} });
    const said = JSON.parse(String((await call).content));
    expect(said).toEqual({ accept: 100, [OVER_LIMIT]: 900 });
    // Those that were answered make room for others.
    const next = await rack.call("mcp_odd_interrogate", { count: 3 }, { client });
    expect(JSON.parse(String(next.content))).toEqual({ accept: 3 });
  });

  it("of the stateless protocol is put to nobody when it comes with too many others", async () => {
    const asks = (name: string, count: number) =>
      `name: "${name}", execute: async ({ client, signal }) => {
        const params = { message: "?", mode: "form", requestedSchema: { type: "object", properties: {} } };
        const ask = () => client.request("elicitation/create", params, signal);
        return String((await Promise.all(Array.from({ length: ${count} }, ask))).length);
      }`;
    await using server = await ServedRack.open({
      "tools/all.ts": toolFile(asks("few", 100), asks("many", 101)),
    });
    await using rack = await UpstreamRack.create();
    const headers = { Authorization: `Bearer ${server.token}` };
    await rack.open({ up: { url: new URL("/mcp", server.serving.url).href, headers } });
    await rack.until("up", "ready");
    expect(rack.servers.get("up").era).toBe("modern");
    const { client, asked } = caller(async () => ({ action: "accept", content: {} }));
    const { content } = await rack.call("mcp_up_many", {}, { client });
    expect(content).toMatch(
      /^The MCP server "up" asked 101 questions at once, and a caller is asked at most 100.*Ask it for less/,
    );
    expect(asked).toEqual([]);
    expect(await rack.call("mcp_up_few", {}, { client })).toMatchObject({ content: "100" });
    expect(asked).toHaveLength(100);
  });

  it("with the id of one that is open is refused", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const answered = Promise.withResolvers<unknown>();
    const { client, asked } = caller(() => answered.promise);
    const call = rack.call("mcp_odd_interrogate", { count: 1_000, sameId: true }, { client });
    const isAsked = () => rack.servers.log("odd").some(({ text }) => text.includes("everything was asked"));
    await rack.eventually(isAsked, "everything was asked");
    expect(asked).toHaveLength(1);
    answered.resolve({ action: "accept", content: {} });
    expect(Object.values(JSON.parse(String((await call).content)))).toEqual([999, 1]);
  });
});

describe("the lists of a server", () => {
  it("with things of a wrong form in them are still lists that everybody can read", async () => {
    const tools = [
      {
        name: "bad",
        inputSchema: { type: "object" },
        annotations: { readOnlyHint: "yes", title: 5, destructiveHint: true },
      },
      { name: "hidden", inputSchema: { type: "object" }, annotations: { title: "A\u200B<!-- x -->" } },
    ];
    const prompts = [
      { name: "bad", arguments: ["zz"] },
      { name: "good", arguments: [{ name: "a", description: "b<!-- c -->", required: "yes" }] },
    ];
    const resources = [{ uri: "x://y", name: "y", annotations: { audience: "zz" }, icons: [5] }];
    const { rack } = await listing({
      "tools/list": { result: { tools } },
      "prompts/list": { result: { prompts } },
      "resources/list": { result: { resources } },
      "prompts/get": { result: { messages: "zz" } },
      "resources/read": { result: { contents: [5] } },
    });
    await using _ = rack;
    const { tools: shown } = toMcpTools(rack.registry.list());
    expect(shown.every((tool) => isSpecType.Tool(tool))).toBe(true);
    expect(shown.map(({ annotations }) => annotations)).toEqual([{ destructiveHint: true }, { title: "A" }]);
    const listedPrompts = await rack.offerings.prompts(everybody);
    expect(listedPrompts).toEqual([{ name: "mcp_odd_good", arguments: [{ name: "a", description: "b" }] }]);
    expect(await rack.offerings.resources(everybody)).toEqual([{ uri: "x://y", name: "y", annotations: {} }]);
    expect(rack.servers.get("odd").refused).toEqual([
      { name: "bad", reason: expect.stringMatching(/arguments/) },
    ]);
    await expect(rack.offerings.getPrompt("mcp_odd_good", {}, everybody)).rejects.toThrow(
      /must have messages/,
    );
    await expect(rack.offerings.readResource("x://y", everybody)).rejects.toThrow(/must have contents/);
  });

  it("with very many things are cut, and the server is used", async () => {
    await using rack = await UpstreamRack.create();
    const file = join(rack.directory, "tools.json");
    const tools = Array.from({ length: 200_000 }, (_, index) => ({ name: `t${index}` }));
    await writeFile(file, JSON.stringify(tools));
    const entry = { env: { ODD_TOOLS_FILE: file }, toolrack: { tools: { include: ["t1", "t2"] } } };
    await rack.open({ odd: oddServer([], entry) }, { pinning: "off" });
    await rack.until("odd", "ready");
    expect(rack.registry.getAll().map(({ name }) => name)).toEqual(["mcp_odd_t1", "mcp_odd_t2"]);
    expect(rack.servers.tools("odd")).toHaveLength(10_000);
    const problem = "Of its answer to tools/list, only the first 10000 were read: it lists more than that.";
    expect(rack.servers.get("odd")).toMatchObject({ state: "ready", problem });
    expect(rack.servers.log("odd").map(({ text }) => text)).toContain(problem);
  });

  it("without an end are used as far as they were read", async () => {
    const page = { result: { resources: [{ uri: "x://y", name: "y" }], nextCursor: "another" } };
    const { rack } = await listing({ "resources/list": page });
    await using _ = rack;
    expect(rack.servers.get("odd").resources).toBe(1);
    expect(rack.servers.get("odd").problem).toMatch(/resources\/list, .* it has more than 2000 pages\.$/);
  });

  it("that cannot be read now stay what they were", async () => {
    const lists = {
      "prompts/list": { result: { prompts: [{ name: "kept" }] } },
      "resources/list": { result: { resources: [{ uri: "x://y", name: "y" }] } },
    };
    const { rack, write } = await listing(lists);
    await using _ = rack;
    const failure = { error: { code: -32_603, message: "not now" } };
    await write({
      "prompts/list": failure,
      "resources/list": failure,
      "tools/list": { result: { tools: [{ name: "new" }] } },
    });
    await rack.call("mcp_odd_change");
    await rack.eventually(() => rack.registry.get("mcp_odd_new") !== undefined, "the lists were read again");
    expect(rack.servers.get("odd")).toMatchObject({ prompts: 1, resources: 1 });
  });

  it("are read again although the server says all the time that they changed", async () => {
    await using rack = await UpstreamRack.create();
    const file = join(rack.directory, "tools.json");
    await writeFile(file, JSON.stringify([{ name: "old" }]));
    await rack.open({ odd: oddServer(["flood"], { env: { ODD_TOOLS_FILE: file } }) });
    await rack.until("odd", "ready");
    await writeFile(file, JSON.stringify([{ name: "new" }]));
    await rack.eventually(() => rack.registry.get("mcp_odd_new") !== undefined, "the new tool");
  });

  it("are read again now and then when the server never says that they changed", async () => {
    await using rack = await UpstreamRack.create();
    const file = join(rack.directory, "tools.json");
    await writeFile(file, JSON.stringify([{ name: "old" }]));
    const entry = { env: { ODD_TOOLS_FILE: file }, toolrack: { limits: { refresh: 50 } } };
    await rack.open({ odd: oddServer(["quiet"], entry) });
    await rack.until("odd", "ready");
    await writeFile(file, JSON.stringify([{ name: "new" }]));
    await rack.eventually(() => rack.registry.get("mcp_odd_new") !== undefined, "the new tool");
  });

  it("with schemas that are too deep say so in few words", async () => {
    const nested = (levels: number) => {
      let schema: object = { type: "object" };
      for (let depth = 0; depth < levels; depth++) schema = { properties: { inner: schema } };
      return schema;
    };
    const tools = [
      { name: "endless", inputSchema: nested(3_000) },
      { name: "deep", inputSchema: nested(400) },
      { name: "flat" },
    ];
    const { rack } = await listing({ "tools/list": { result: { tools } } });
    await using _ = rack;
    expect(rack.registry.getAll().map(({ name }) => name)).toEqual(["mcp_odd_deep", "mcp_odd_flat"]);
    expect(rack.servers.get("odd").refused).toEqual([
      { name: "endless", reason: "Its definition nests more than 1000 levels." },
    ]);
    const [{ unchecked } = { unchecked: [] }] = rack.servers.tools("odd");
    expect(unchecked).toEqual([
      {
        part: expect.stringMatching(/^inputSchema\.properties/),
        reason: expect.stringMatching(/200 levels/),
      },
    ]);
    expect(unchecked[0]?.part.length).toBeLessThan(500);
    expect(rack.messages.join("\n").length).toBeLessThan(2_000);
  });
});

describe("an answer of a server", () => {
  it.each([false, true])("that is too large fails its call alone (id last: %s)", async (last) => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const { pid } = rack.servers.get("odd");
    const result = await rack.call("mcp_odd_big", { bytes: 65 * 1024 * 1024, last });
    expect(result.content).toMatch(/larger than 64 MB.*Ask for less/);
    expect(await rack.call("mcp_odd_echo", { text: "still here" })).toMatchObject({ content: "still here" });
    expect(rack.servers.get("odd")).toMatchObject({ pid, state: "ready", failures: 0 });
  });

  it.each([
    ["with neither a result nor an error", '{"jsonrpc":"2.0","id":ID}'],
    ["whose error is null, without a result", '{"jsonrpc":"2.0","id":ID,"error":null}'],
    ["whose result is null", '{"jsonrpc":"2.0","id":ID,"result":null}'],
    ["whose result is a text", '{"jsonrpc":"2.0","id":ID,"result":"fine"}'],
  ])("%s is an error of its call", async (_, line) => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const result = await rack.call("mcp_odd_raw", { line });
    expect(result.error?.message).toMatch(/answered with neither a result nor an error/);
    expect(rack.servers.get("odd")).toMatchObject({ state: "ready", failures: 0, inFlight: 0 });
  });

  const fine = '"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"fine"}]}';
  it.each([
    ["beside an error that is null", `{${fine},"error":null}`],
    ["in a line with others that are no messages", `[null,5,"x",[],{"id":{}},{${fine}}]`],
  ])("%s is taken", async (_, line) => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    expect(await rack.call("mcp_odd_raw", { line }, { timeout: 20_000 })).toMatchObject({ content: "fine" });
  });
});

describe("a server that lives on", () => {
  it("but has closed its output is lost at once, and started anew", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const { pid } = rack.servers.get("odd");
    const others = [1, 2].map(() => rack.call("mcp_odd_hang"));
    await rack.eventually(() => rack.servers.get("odd").inFlight === 2, "others wait");
    const results = await Promise.all([rack.call("mcp_odd_closeOutput"), ...others]);
    for (const { content } of results) expect(content).toMatch(/was lost before it answered/);
    expect(saidOf(rack)).toMatch(/closed its standard output/);
    await rack.until("odd", "ready");
    expect(rack.servers.get("odd").pid).not.toBe(pid);
    expect(await rack.call("mcp_odd_echo", { text: "again" })).toMatchObject({ content: "again" });
    await rack.eventually(() => !isAlive(pid), "the one before has ended");
  });

  it("but has closed its input is lost with the next call, and started anew", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const { pid } = rack.servers.get("odd");
    expect(await rack.call("mcp_odd_closeInput")).toMatchObject({ content: "closed" });
    const { content } = await rack.call("mcp_odd_echo", { text: "lost" });
    expect(content).toMatch(/was lost before it answered/);
    expect(content).not.toMatch(/process has ended/);
    expect(saidOf(rack)).toMatch(/no longer reads its standard input/);
    await rack.until("odd", "ready");
    expect(rack.servers.get("odd").pid).not.toBe(pid);
    await rack.eventually(() => !isAlive(pid), "the one before has ended");
  });
});

it("large arguments of one call keep no other from a server that reads them", async () => {
  await using rack = await UpstreamRack.create();
  await rack.open({ odd: oddServer() });
  await rack.until("odd", "ready");
  const large = "x".repeat(9 * 1024 * 1024);
  const calls = [large, large, large, ..."abcdef"].map((text) => rack.call("mcp_odd_length", { text }));
  const lengths = (await Promise.all(calls)).map(({ content }) => content);
  expect(lengths).toEqual([...Array<string>(3).fill(String(large.length)), ..."111111"]);
});

describe("an operator", () => {
  it("cannot give a tool the name of another, and an entry that does so hides none", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({
      odd: oddServer([], {
        toolrack: { tools: { include: ["echo", "pid", "hang"], rename: { echo: "pid" } } },
      }),
    });
    await rack.until("odd", "ready");
    const { content } = await rack.call("mcp_odd_pid");
    expect(Number(content)).toBe(rack.servers.get("odd").pid);
    expect(rack.servers.get("odd").refused).toEqual([
      { name: "odd/echo", reason: expect.stringMatching(/mcp_odd_pid, which is the name of another tool/) },
    ]);
    const rename = (to: string) => rack.servers.update("odd", { tools: { echo: { rename: to } } });
    await expect(rename("hang")).rejects.toThrow(/"echo" cannot be renamed to mcp_odd_hang/);
    await rename("say");
    expect(await rack.call("mcp_odd_say", { text: "hi" })).toMatchObject({ content: "hi" });
    expect(rack.servers.get("odd").refused).toEqual([]);
    // Two may change places with one another's former names only when neither name is taken any more.
    const swap = { echo: { rename: "again" }, pid: { rename: "say" } };
    await rack.servers.update("odd", { tools: swap });
    expect(Number((await rack.call("mcp_odd_say")).content)).toBe(rack.servers.get("odd").pid);
  });

  it("approves what they have looked at, and nothing else", async () => {
    await using rack = await UpstreamRack.create();
    const file = join(rack.directory, "tools.json");
    const change = async (description: string) => {
      await writeFile(file, JSON.stringify([{ name: "pay", description }, { name: "change" }]));
      await rack.call("mcp_odd_change");
      const isSeen = () => rack.servers.tools("odd")[0]?.description === description;
      await rack.eventually(isSeen, "the change is seen");
    };
    await writeFile(file, JSON.stringify([{ name: "pay", description: "Pays." }, { name: "change" }]));
    await rack.open({ odd: oddServer([], { env: { ODD_TOOLS_FILE: file } }) });
    await rack.until("odd", "ready");
    await change("Pays twice.");
    const [seen] = rack.servers.tools("odd");
    await change("Pays the wrong one.");
    const [now] = rack.servers.tools("odd");
    await expect(rack.servers.approve("odd", { pay: seen?.hash }, "ada")).rejects.toMatchObject({
      code: "mcp_tool_changed",
      message: expect.stringMatching(
        /nothing was approved\. It now differs .* in description\. Look at it again/,
      ),
      details: {
        tool: "pay",
        hash: now?.hash,
        changes: [{ path: "description", after: "Pays the wrong one." }],
      },
    });
    expect(rack.servers.tools("odd")[0]?.pin).toBe("quarantined");
    await rack.servers.approve("odd", { pay: now?.hash }, "ada");
    expect(rack.servers.tools("odd")[0]).toMatchObject({ pin: "approved", approvedBy: "ada" });
  });
});

it("a resource is still watched after the entry of its server changed", async () => {
  await using rack = await UpstreamRack.create();
  await rack.open({ odd: oddServer() });
  await rack.until("odd", "ready");
  const seen: unknown[] = [];
  rack.offerings.subscribe((change) => change.kind === "resource" && seen.push(change.uri));
  const stop = await rack.offerings.watchResource("odd://clock", everybody);
  await rack.eventually(() => seen.length === 1, "it is watched");
  const { pid } = rack.servers.get("odd");
  await rack.writeFile({ mcpServers: { odd: oddServer([], { env: { OTHER: "1" } }) } });
  await rack.servers.reload();
  await rack.until("odd", "ready");
  expect(rack.servers.get("odd").pid).not.toBe(pid);
  // The server tells of a change whenever somebody begins to watch.
  await rack.eventually(() => seen.length === 2, "it is watched again");
  stop?.();
});

function saidOf(rack: UpstreamRack): string {
  const lines = rack.servers.log("odd");
  return lines.map(({ text }) => text).join("\n");
}

function isAlive(pid: number | undefined): boolean {
  try {
    return process.kill(pid ?? 0, 0);
  } catch {
    return false;
  }
}

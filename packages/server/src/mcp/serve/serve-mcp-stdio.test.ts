import { spawn } from "node:child_process";
import { once } from "node:events";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, test } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { program } from "./testing/serve-workspace.ts";
import { type Era, toolFile } from "./testing/served-rack.ts";
import { spawnLines } from "./testing/spawn-lines.ts";

const LIMIT = 60_000;
const eras: Era[] = ["modern", "legacy"];

const noisy = `import { spawnSync } from "node:child_process";
import { writeSync } from "node:fs";
import { Tool } from "@toolrack/core";
console.log("noise while loading");
export const noisy = Tool.define({
  name: "noisy",
  description: "Prints in all ways there are.",
  parameters: { type: "object", properties: {} },
  execute: async () => {
    console.log("noise of console");
    process.stdout.write("noise of stdout\\n");
    writeSync(1, "noise of a descriptor\\n");
    spawnSync("sh", ["-c", "echo noise of a child; cat"], { stdio: "inherit" });
    return "quiet";
  },
});
`;

const config = "export default { builtins: false };";

async function connect(workspace: TemporaryWorkspace, era: Era, options: object = {}): Promise<Client> {
  const [command, ...words] = program;
  const client = new Client(
    { name: "tester", version: "1" },
    { ...options, versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" } },
  );
  client.setRequestHandler?.("elicitation/create", async () => ({ action: "accept", content: { ok: true } }));
  await client.connect(
    new StdioClientTransport({
      command: command!,
      args: [...words, "mcp", "--dir", workspace.directory],
      stderr: "ignore",
    }),
  );
  return client;
}

test.each(eras)(
  "a %s client lists, calls, asks and is asked over standard input and output",
  async (era) => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": config,
      "tools/noisy.ts": noisy,
      "tools/all.ts": toolFile(
        'name: "asks", execute: async ({ elicit }) => (await elicit("Go on?")).action',
        'name: "steps", execute: async ({ progress }) => { progress(1, 1); await new Promise((resolve) => setTimeout(resolve, 500)); return "done"; }',
      ),
    });
    const client = await connect(workspace, era, { capabilities: { elicitation: {} } });
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(["asks", "noisy", "steps"]));
    const called = await client.callTool({ name: "noisy", arguments: {} });
    expect(called.content).toEqual([{ type: "text", text: "quiet" }]);
    const asked = await client.callTool({ name: "asks", arguments: {} });
    expect(asked.content).toEqual([{ type: "text", text: "accept" }]);
    // A client that reads progress and result in one go no longer tells of the progress: the tool leaves it time.
    const heard: unknown[] = [];
    await client.callTool(
      { name: "steps", arguments: {} },
      { onprogress: (update) => void heard.push(update) },
    );
    expect(heard).toEqual([{ progress: 1, total: 1 }]);
    await client.close();
  },
  LIMIT,
);

test(
  "nothing but messages reaches standard output, whatever a tool prints, and lines that are none do no harm",
  async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": config,
      "tools/noisy.ts": noisy,
    });
    const params = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "t", version: "1" },
    };
    const call = { jsonrpc: "2.0", method: "tools/call", params: { name: "noisy", arguments: {} } };
    const { lines, errors, code } = await spawnLines(
      [...program, "mcp", "--dir", workspace.directory],
      [
        { jsonrpc: "2.0", id: 1, method: "initialize", params },
        { jsonrpc: "2.0", method: "notifications/initialized" },
        "this is no message",
        { ...call, id: 2 },
        { ...call, id: 3 },
      ],
      (answers) => answers.length === 4,
    );
    const ids = lines.map((line) => JSON.parse(line).id);
    expect(ids.toSorted()).toEqual([1, 2, 3, null]);
    for (const source of ["loading", "console", "stdout", "a descriptor", "a child"]) {
      expect(errors).toContain(source === "loading" ? "noise while loading" : `noise of ${source}`);
    }
    expect(code).toBe(0);
  },
  LIMIT,
);

test(
  "what comes before the end of the input is answered, also when its last line has no end, and lines that are no message",
  async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": config,
      "tools/all.ts": toolFile(
        'name: "slow", execute: () => new Promise((resolve) => setTimeout(resolve, 500, "late"))',
        'name: "asks", execute: async ({ elicit }) => (await elicit("Go on?")).action',
      ),
    });
    const params = {
      protocolVersion: "2025-11-25",
      capabilities: { elicitation: {} },
      clientInfo: { name: "t", version: "1" },
    };
    const call = (id: number, name: string) => ({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name, arguments: {} },
    });
    const input = [
      JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }),
      JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }),
      "null",
      "5",
      JSON.stringify(call(2, "slow")),
      JSON.stringify(call(3, "asks")),
      JSON.stringify(call(4, "slow")),
    ].join("\n");
    const [command, ...words] = program;
    const child = spawn(command!, [...words, "mcp", "--dir", workspace.directory], {
      stdio: ["pipe", "pipe", "ignore"],
    });
    child.stdin.end(input);
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
    const [code] = await once(child, "close");
    const messages = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    const answers = new Map(messages.flatMap((message) => (message.method ? [] : [[message.id, message]])));
    expect([...answers.keys()].toSorted()).toEqual([1, 2, 3, 4, null]);
    expect(answers.get(2).result.content).toEqual([{ type: "text", text: "late" }]);
    expect(answers.get(4).result.content).toEqual([{ type: "text", text: "late" }]);
    // Nobody was left who could have answered.
    expect(answers.get(3).result.isError).toBe(true);
    expect(code).toBe(0);
  },
  LIMIT,
);

const envelope = (abilities: object = {}) => ({
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": abilities,
});
const initialize = {
  jsonrpc: "2.0",
  id: "begin",
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
};

/** Sends lines, waits for as many answers, and gives what was answered to which id. */
async function answersTo(
  workspace: TemporaryWorkspace,
  lines: readonly (object | string)[],
  count: number,
  // biome-ignore lint/suspicious/noExplicitAny: what comes back is what the tests are about.
): Promise<any[]> {
  const words = [...program, "mcp", "--dir", workspace.directory];
  const answered = await spawnLines(words, lines, (answers) => answers.length >= count);
  return answered.lines.map((line) => JSON.parse(line));
}

test(
  "lines that are no request are refused, and what is none to be answered is not",
  async () => {
    await using workspace = await TemporaryWorkspace.create({ "toolrack.config.ts": config });
    const list = { jsonrpc: "2.0", method: "tools/list" };
    const bad: [object | string, string | number | null, number][] = [
      ["garbage{", null, -32700],
      ["5", null, -32600],
      ["null", null, -32600],
      ["[]", null, -32600],
      ["{}", null, -32600],
      [{ ...list, id: null }, null, -32600],
      [{ ...list, id: 1.5 }, 1.5, -32600],
      [{ ...list, id: 8, jsonrpc: "1.0" }, 8, -32600],
      [{ id: "nine", method: "tools/list" }, "nine", -32600],
      [{ ...list, id: 10, method: 5 }, 10, -32600],
      [{ ...list, id: 11, params: [] }, 11, -32600],
    ];
    const quiet = [
      { jsonrpc: "1.0", method: "notifications/initialized" },
      { jsonrpc: "2.0", method: "notifications/cancelled", params: [] },
      { jsonrpc: "2.0", id: 77, result: 5 },
      { jsonrpc: "2.0", id: null, error: { code: 1 } },
      { jsonrpc: "2.0", id: 78, error: "no" },
    ];
    const messages = [...quiet, ...bad.map(([line]) => line), initialize];
    const answers = await answersTo(workspace, messages, bad.length + 1);
    expect(answers.slice(0, -1).map(({ id, error }) => [id, error.code])).toEqual(
      bad.map(([, id, code]) => [id, code]),
    );
    expect(answers.at(-1)).toMatchObject({ id: "begin", result: { protocolVersion: "2025-11-25" } });
  },
  LIMIT,
);

const asking = toolFile('name: "asks", execute: async ({ elicit }) => (await elicit("Go on?")).action');
const discover = { jsonrpc: "2.0", id: 1, method: "server/discover", params: { _meta: envelope() } };
const asks = {
  jsonrpc: "2.0",
  id: 3,
  method: "tools/call",
  params: { name: "asks", arguments: {}, _meta: envelope({ elicitation: {} }) },
};

test(
  "a message without a version does not make a connection of the newer version an older one",
  async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": config,
      "tools/all.ts": asking,
    });
    const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } };
    const bare = { jsonrpc: "2.0", id: 2, method: "tools/list" };
    const answers = await answersTo(workspace, [discover, cancelled, bare, asks], 3);
    expect(answers.find(({ id }) => id === 2).error.code).toBe(-32602);
    expect(answers.find(({ id }) => id === 3).result.resultType).toBe("input_required");
  },
  LIMIT,
);

test(
  "a connection of an older version refuses requests of the newer one, which it could not ask anything",
  async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": config,
      "tools/all.ts": asking,
    });
    const bare = { jsonrpc: "2.0", id: 2, method: "tools/list" };
    const answers = await answersTo(workspace, [bare, asks], 2);
    expect(answers.find(({ id }) => id === 2).result.tools[0].name).toBe("asks");
    expect(answers.find(({ id }) => id === 3).error).toMatchObject({
      code: -32022,
      data: { requested: "2026-07-28" },
    });
  },
  LIMIT,
);

test(
  "a client that has asked around may still begin with an older version, all in one go",
  async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": config,
      "tools/all.ts": asking,
    });
    const initialized = { jsonrpc: "2.0", method: "notifications/initialized" };
    const bare = { jsonrpc: "2.0", id: 2, method: "tools/list" };
    const answers = await answersTo(workspace, [discover, initialize, initialized, bare], 3);
    expect(answers.find(({ id }) => id === "begin").result.protocolVersion).toBe("2025-11-25");
    expect(answers.find(({ id }) => id === 2).result.tools[0].name).toBe("asks");
  },
  LIMIT,
);

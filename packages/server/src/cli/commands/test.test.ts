import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ServedWorkspace } from "../../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { secretReference } from "../../tests/saved-call.ts";
import { type RunningCommand, runCli } from "../testing/run-cli.ts";
import { cleanEnvironment, program } from "../testing/spawn-cli.ts";

const examples = resolve(import.meta.dirname, "../../../../../examples/workspace");

/** A tool that asks an upstream server and a tool of its own. */
const planTool = (greeting: string) => `import { Tool } from "@toolrack/core";
export const plan = Tool.define({
  name: "plan",
  description: "Plans the days until a date.",
  parameters: { type: "object", properties: { from: { type: "string" }, to: { type: "string" } }, required: ["from", "to"] },
  execute: async ({ input, call }) => {
    const { structured } = await call("mcp_calendar_days_between", input);
    const word = await call("plural", { count: structured.days });
    return { message: ${greeting}, days: structured.days };
  },
});`;
const pluralTool = (extra = "") => `import { Tool } from "@toolrack/core";
export const plural = Tool.define({
  name: "plural",
  description: "Says day or days.",
  parameters: { type: "object", properties: { count: { type: "integer" }${extra} }, required: ["count"] },
  execute: async ({ input }) => (input.count === 1 ? "day" : "days"),
});`;
// The source of a template of the tool.
const greeting = ["`$", "{structured.days} $", "{word.content} to go`"].join("");
const shorter = greeting.replace("`$", "`in $").replace(" to go", "");
const reference = secretReference("API_KEY");

describe("a chain that was recorded over a real upstream server", { timeout: 240_000 }, () => {
  let workspace: TemporaryWorkspace;
  const cli = (...words: string[]) => runCli(words, { cwd: workspace.directory });
  beforeAll(async () => {
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      "mcp.json": JSON.stringify({
        mcpServers: {
          calendar: {
            command: "node",
            args: ["calendar.mjs"],
            // The operator vouches for it.
            toolrack: { annotations: { days_between: { readOnlyHint: true } } },
          },
        },
      }),
      "calendar.mjs": await readFile(join(examples, "mcp-servers/calendar.mjs"), "utf8"),
      "tools/plan.ts": planTool(greeting),
      "tools/plural.ts": pluralTool(),
    });
    await using served = await ServedWorkspace.here(workspace.directory);
    const listed = async () => (await served.ask("GET", "/api/tools/mcp_calendar_days_between")).status;
    await vi.waitFor(async () => expect(await listed()).toBe(200), { timeout: 60_000, interval: 200 });
    const called = await served.call("plan", { from: "2026-01-01", to: "2026-01-11" });
    expect(called.body.result.structured).toEqual({ message: "10 days to go", days: 10 });
    const saved = await served.ask("POST", `/api/calls/${called.body.callId}/test`, {
      name: "counts the days",
    });
    expect([saved.status, saved.body.file]).toEqual([200, "tests/plan.calls.yaml"]);
    // What an editor is sent needs no token.
    const schema = await fetch(`${served.url}/schemas/calls.json`);
    expect(await schema.json()).toMatchObject({ title: "Saved calls of Toolrack" });
  }, 120_000);
  afterAll(() => workspace[Symbol.asyncDispose]());

  it("runs for real what is not recorded, if that only reads", async () => {
    const path = join(workspace.directory, "tests/plan.calls.yaml");
    const before = await readFile(path, "utf8");
    const { parse, stringify } = await import("yaml");
    const { tests, tools } = parse(before);
    tests[0].calls = tests[0].calls.filter(({ tool }: { tool: string }) => tool === "plural");
    await writeFile(path, stringify({ tests, tools }));
    const { code, stderr } = await cli("test");
    expect([code, stderr]).toEqual([0, expect.stringContaining("Starting 1 MCP server")]);
    delete tools.mcp_calendar_days_between.readOnly;
    await writeFile(path, stringify({ tests, tools }));
    const refused = await cli("test");
    expect([refused.code, refused.stdout]).toEqual([3, expect.stringContaining("it may do more than read")]);
    // Records anew what is missing.
    expect(await cli("test", "--mock", "off", "--update")).toMatchObject({ code: 0 });
    expect(await cli("test", "--mock", "strict")).toMatchObject({ code: 0 });
    await writeFile(path, before);
  });

  it("passes when the upstream is gone, in every way of mocking that does not need it", async () => {
    await workspace.remove("calendar.mjs");
    for (const mode of ["recorded", "strict"]) {
      const { code, stdout } = await cli("test", "--mock", mode);
      expect([code, stdout]).toEqual([0, expect.stringContaining("1 passed")]);
    }
    const off = await cli("test", "--mock", "off");
    expect([off.code, off.stdout]).toEqual([3, expect.stringContaining("1 failed")]);
  });

  it("fails with the path of what differs when the tool is changed, and is rewritten by --update", async () => {
    await workspace.write("tools/plan.ts", planTool(shorter));
    const { code, stdout } = await cli("test");
    expect(code).toBe(3);
    expect(stdout).toContain(`      /message
        expected "10 days to go"
        got      "in 10 days"`);
    const report = JSON.parse((await cli("test", "--reporter", "json")).stdout);
    expect(report.results[0].problems[0].differences).toEqual([
      { path: "/message", expected: "10 days to go", actual: "in 10 days" },
    ]);
    const junit = (await cli("test", "--reporter", "junit")).stdout;
    expect(junit).toContain('<testsuite name="tests/plan.calls.yaml" tests="1" failures="1">');
    expect((await cli("test", "--update")).code).toBe(0);
    expect((await cli("test")).code).toBe(0);
    expect(await readFile(join(workspace.directory, "tests/plan.calls.yaml"), "utf8")).toContain(
      "in 10 days",
    );
  });

  it("fails strictly when the schema of an inner tool is changed", async () => {
    await workspace.write("tools/plural.ts", pluralTool(", language: { type: 'string' }"));
    expect((await cli("test")).code).toBe(0);
    const { code, stdout } = await cli("test", "--mock", "strict");
    expect([code, stdout]).toEqual([
      3,
      expect.stringContaining("The schema of plural is no longer the recorded one"),
    ]);
    expect(stdout).toContain("/inputSchema/properties/language");
    await workspace.write("tools/plural.ts", pluralTool());
  });

  it("says what was asked when a call is not recorded", async () => {
    const changed = planTool(greeting).replace(
      'call("plural", { count: structured.days })',
      'call("plural", { count: 3 })',
    );
    await workspace.write("tools/plan.ts", changed);
    const { code, stdout } = await cli("test", "--mock", "strict");
    expect(code).toBe(3);
    expect(stdout).toContain('The call of plural with {"count":3} is not recorded.');
    expect(stdout).toContain("/count");
    await workspace.write("tools/plan.ts", planTool(shorter));
  });

  it("is served to MCP clients and over HTTP, offline", async () => {
    const [command = "", ...words] = program;
    const args = [...words, "mock", join(workspace.directory, "tests/plan.calls.yaml"), "--stdio"];
    const client = new Client({ name: "test", version: "1" });
    const env = cleanEnvironment() as Record<string, string>; // Undefined values are left out by the transport.
    await client.connect(
      new StdioClientTransport({ command, args, cwd: workspace.directory, env, stderr: "ignore" }),
    );
    try {
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toEqual(
        expect.arrayContaining(["plan", "plural", "mcp_calendar_days_between"]),
      );
      const given = { from: "2026-01-01", to: "2026-01-11" };
      const days = await client.callTool({ name: "mcp_calendar_days_between", arguments: given });
      expect(days.structuredContent).toEqual({ days: 10 });
      const plan = await client.callTool({ name: "plan", arguments: given });
      expect(plan.structuredContent).toMatchObject({ days: 10 });
      const other = await client.callTool({
        name: "plan",
        arguments: { from: "2026-01-01", to: "2027-01-01" },
      });
      expect(other).toMatchObject({ isError: true });
      expect(JSON.stringify(other.content)).toContain("is not recorded");
    } finally {
      await client.close();
    }
  });

  it("is served over HTTP from the record of a call", async () => {
    const { stdout } = await cli("logs", "--ids", "--json", "--tool", "plan");
    const { callId } = JSON.parse(stdout.trim().split("\n")[0]!);
    await using mock = await serveMock(workspace.directory, callId);
    expect(mock.tools).toEqual(expect.arrayContaining(["plan", "plural", "mcp_calendar_days_between"]));
    const given = { from: "2026-01-01", to: "2026-01-11" };
    const plan = await mock.client.callTool({ name: "plan", arguments: given });
    expect(plan.structuredContent).toEqual({ message: "10 days to go", days: 10 });
    const response = await fetch(`${mock.url}/api/tools/plural/calls`, {
      method: "POST",
      headers: { ...mock.headers, "content-type": "application/json" },
      body: JSON.stringify({ arguments: { count: 10 } }),
    });
    expect(await response.json()).toMatchObject({ result: { content: "days" } });
  });
});

/** Starts `toolrack mock --call` and connects a client to it. */
async function serveMock(cwd: string, callId: string) {
  const [file = "", ...words] = program;
  const child = spawn(file, [...words, "mock", "--call", callId, "--json"], {
    cwd,
    env: cleanEnvironment(),
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(child, "close");
  const [line] = await once(createInterface(child.stdout), "line");
  const { url, token, tools } = JSON.parse(line);
  const client = new Client({ name: "test", version: "1" });
  const headers = { authorization: `Bearer ${token}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }),
  );
  return {
    ...{ url, tools, client, headers },
    async [Symbol.asyncDispose]() {
      await client.close();
      child.kill("SIGINT");
      await ended;
    },
  };
}

describe("a saved call", { timeout: 120_000 }, () => {
  let workspace: TemporaryWorkspace;
  const cli = (...words: string[]) => runCli(words, { cwd: workspace.directory });
  beforeAll(async () => {
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      "tools/sign.ts": `import { Tool } from "@toolrack/core";
export const sign = Tool.define({
  name: "sign",
  parameters: { type: "object", properties: { text: { type: "string" }, apiKey: { type: "string" } }, required: ["text"] },
  execute: async ({ input }) => ({ signed: input.text + " by " + input.apiKey, at: new Date().toISOString() }),
});
export const wipe = Tool.define({
  name: "wipe",
  parameters: { type: "object" },
  metadata: { dangerous: true },
  execute: async () => "wiped",
});
export const paint = Tool.define({
  name: "paint",
  parameters: { type: "object" },
  execute: async () => ({ content: [{ type: "text", text: "a dot" }, { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" }] }),
});
export const refuse = Tool.define({
  name: "refuse",
  parameters: { type: "object" },
  execute: async () => { throw new Error("not today"); },
});`,
    });
  });
  afterAll(() => workspace[Symbol.asyncDispose]());
  const idOf = ({ stdout }: { stdout: string }) => JSON.parse(stdout).record.callId;

  it("is made without a server, leaves its secret out, and passes", async () => {
    const callId = idOf(await cli("call", "sign", "text=hi", "apiKey=hunter2hunter2", "--json"));
    const saved = await cli("test", "--from", callId);
    expect([saved.code, saved.stdout]).toEqual([
      0,
      expect.stringContaining("tests/sign.calls.yaml: sign text=hi"),
    ]);
    const text = await readFile(join(workspace.directory, "tests/sign.calls.yaml"), "utf8");
    expect(text).not.toContain("hunter2");
    expect(text).toContain(reference);
    expect(text).toContain("- times");
    expect(await cli("test")).toMatchObject({ code: 0 });
    const off = await cli("test", "--mock", "off");
    expect(off.stdout).toContain(`${reference}, which is not set`);
    const set = await runCli(["test", "--mock", "off"], {
      cwd: workspace.directory,
      env: { API_KEY: "another-key" },
    });
    expect(set.code).toBe(0);
    const file = join(workspace.directory, "tests/sign.calls.yaml");
    await writeFile(file, text.replace("hi by", "hello by"));
    const update = ["test", "--mock", "off", "--update"];
    expect(await runCli(update, { cwd: workspace.directory, env: { API_KEY: "another-key" } })).toMatchObject(
      { code: 0 },
    );
    const updated = await readFile(file, "utf8");
    expect(updated).toContain("hi by");
    expect(updated).not.toContain("another-key");
  });

  it("of a dangerous tool runs only where the test approves it", async () => {
    await workspace.write(
      "tests/wipe.calls.yaml",
      "tests:\n  - { name: wipes, tool: wipe, expect: { equals: wiped } }\n",
    );
    const denied = await cli("test", "wipes");
    expect([denied.code, denied.stdout]).toEqual([3, expect.stringContaining("approve: true")]);
    await workspace.write(
      "tests/wipe.calls.yaml",
      "tests:\n  - { name: wipes, tool: wipe, approve: true, expect: { equals: wiped } }\n",
    );
    expect(await cli("test", "wipes")).toMatchObject({ code: 0 });
    await workspace.remove("tests/wipe.calls.yaml");
  });

  it("is served with its pictures", async () => {
    await using mock = await serveMock(workspace.directory, idOf(await cli("call", "paint", "--json")));
    const { content } = await mock.client.callTool({ name: "paint", arguments: {} });
    expect(content).toEqual([
      { type: "text", text: "a dot" },
      { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" },
    ]);
  });

  it("that failed expects the failure", async () => {
    const callId = idOf(await cli("call", "refuse", "--json"));
    expect(await cli("test", "--from", callId, "--name", "says no", "--file", "others")).toMatchObject({
      code: 0,
    });
    const text = await readFile(join(workspace.directory, "tests/others.calls.yaml"), "utf8");
    expect(text).toContain("code: execution_failed");
    expect(await cli("test", "says no")).toMatchObject({ code: 0 });
    expect((await cli("test", "--from", callId, "--name", "says no", "--file", "others")).stderr).toContain(
      "already",
    );
  });

  it("loses the answers of calls that are no longer made, when it is recorded anew", async () => {
    await workspace.write(
      "tests/gone.calls.yaml",
      "tests:\n  - name: alone # kept\n    tool: sign\n    arguments: { text: a }\n    calls: [{ tool: refuse, answer: 1 }]\n",
    );
    expect(await cli("test", "alone", "--mock", "off", "--update")).toMatchObject({ code: 0 });
    const text = await readFile(join(workspace.directory, "tests/gone.calls.yaml"), "utf8");
    expect(text).toContain("name: alone # kept");
    expect(text).not.toContain("calls:");
    await workspace.remove("tests/gone.calls.yaml");
  });

  it("keeps test runs out of records and the log", async () => {
    const before = (await cli("logs", "--json")).stdout;
    await cli("test");
    expect((await cli("logs", "--json")).stdout).toBe(before);
  });

  it("runs again when its tool or its file changes", async () => {
    const path = join(workspace.directory, "tools/sign.ts");
    const source = await readFile(path, "utf8");
    const outcome = await runCli(["test", "--watch", "sign"], {
      cwd: workspace.directory,
      when: {
        says: "Watching",
        act: (running) => {
          void (async () => {
            const broken = until(running, "/signed", "1 failed");
            // Written anew until it is seen: the system watches the folder a moment after the command says so.
            let count = 0;
            const writing = setInterval(() => {
              void workspace.write("tools/sign.ts", `${source.replace('" by "', '" of "')}// ${count++}`);
            }, 500);
            await broken.finally(() => clearInterval(writing));
            const mended = until(running, "1 passed");
            await workspace.write("tools/sign.ts", source);
            await mended;
            const added = until(running, "sign once more");
            await workspace.write(
              "tests/more.calls.yaml",
              "tests:\n  - { name: sign once more, tool: sign, arguments: { text: a, apiKey: b } }\n",
            );
            await added;
            running.kill("SIGINT");
          })();
        },
      },
    });
    expect(outcome.stdout.match(/✓|✗/g)?.join("")).toMatch(/^✓✗+✓✓$/);
    expect(outcome.stderr).toMatch(/Changed: .*sign/);
    await workspace.remove("tests/more.calls.yaml");
  });

  it("in a file that cannot be read fails with its line, and the others run", async () => {
    await workspace.write("tests/broken.calls.yaml", "tests:\n  - name: a\n    tol: b\n");
    const { code, stdout } = await cli("test");
    expect(code).toBe(3);
    expect(stdout).toContain("tests/broken.calls.yaml:3");
    expect(stdout).toContain("did you mean `tool`?");
    expect(stdout).toMatch(/2 passed, .*failed/);
    await workspace.remove("tests/broken.calls.yaml");
  });
});

/** Resolves when the command has printed all of the texts since it was called. */
function until(running: RunningCommand, ...texts: string[]): Promise<void> {
  let said = "";
  return new Promise((resolve) => {
    const listen = (chunk: unknown) => {
      said += String(chunk);
      if (!texts.every((text) => said.includes(text))) return;
      running.stdout.off("data", listen);
      resolve();
    };
    running.stdout.on("data", listen);
  });
}

it("runs the tests of the example workspace", { timeout: 120_000 }, async () => {
  await using workspace = await TemporaryWorkspace.create();
  cpSync(examples, workspace.directory, {
    recursive: true,
    filter: (path) => !/[\\/](?:\.toolrack|log)$/.test(path),
  });
  for (const mode of ["recorded", "strict"]) {
    const { code, stdout } = await runCli(["test", "--mock", mode], { cwd: workspace.directory });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/\d+ passed \(/)]);
  }
});

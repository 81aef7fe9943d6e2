import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { type ScriptedCall, ScriptedHttpServer } from "./testing/scripted-http-server.fixture.ts";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));

function oddServer(more: object = {}): object {
  return { command: process.execPath, args: [odd], ...more };
}

/** A server that can be started once: at every later start it ends. Returns its entry. */
async function startsOnce(rack: UpstreamRack, more: object = {}): Promise<object> {
  const file = join(rack.directory, "once.mjs");
  const isAgain = `existsSync(${JSON.stringify(`${file}.done`)})`;
  const spend = `writeFileSync(${JSON.stringify(`${file}.done`)}, "")`;
  await writeFile(
    file,
    `import { existsSync, writeFileSync } from "node:fs";
if (${isAgain}) { console.error("The licence is used up"); process.exit(3); }
${spend};
await import(${JSON.stringify(odd)});`,
  );
  return { command: process.execPath, args: [file], ...more };
}

const mayStand = /"odd" was lost before it answered\. .* What it had already done may stand: check before/;

describe("a call whose server is lost in the middle", () => {
  it.each([
    ["is killed", (rack: UpstreamRack) => void process.kill(rack.servers.get("odd").pid!, "SIGKILL")],
    [
      "is started with another environment",
      async (rack: UpstreamRack) => {
        await rack.writeFile({ mcpServers: { odd: oddServer({ env: { OTHER: "1" } }) } });
        await rack.servers.reload();
      },
    ],
    [
      "has another key",
      async (rack: UpstreamRack) => {
        await rack.writeFile({ mcpServers: { other: oddServer() } });
        await rack.servers.reload();
      },
    ],
  ])("because it %s says that something may have been done", async (_, end) => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer() });
    await rack.until("odd", "ready");
    const call = rack.call("mcp_odd_hang");
    await rack.eventually(() => rack.servers.get("odd").inFlight === 1, "the call is under way");
    await end(rack);
    const { content, error } = await call;
    expect(content).toMatch(mayStand);
    expect(error?.details).toMatchObject({ server: "odd", kind: "lost" });
  });

  it("is told from one that was never sent", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: await startsOnce(rack) });
    await rack.until("odd", "ready");
    expect((await rack.call("mcp_odd_crash")).error?.details).toMatchObject({ kind: "lost" });
    const { content, error } = await rack.call("mcp_odd_echo", { text: "a" });
    expect(error?.details).toMatchObject({ kind: "unavailable" });
    expect(content).toMatch(
      /"odd" is not available \(backoff\)\. .*exit code 3.* It wrote: The licence is used up/,
    );
    expect(content).not.toMatch(/may stand/);
  });
});

describe("a call of which nobody knows whether it was done", () => {
  it.each([
    [undefined, false],
    [{ destructiveHint: false }, false],
    [{ readOnlyHint: "yes" }, false],
    [{ readOnlyHint: true }, true],
    [{ idempotentHint: true }, true],
  ])("can be made again with the annotations %j: %s", async (annotations, recoverable) => {
    await using rack = await UpstreamRack.create();
    const file = join(rack.directory, "tools.json");
    const inputSchema = { type: "object" };
    const tools = ["raw", "fail", "crash"].map((name) => ({ name, inputSchema, annotations }));
    await writeFile(file, JSON.stringify(tools));
    await rack.open({ odd: await startsOnce(rack, { env: { ODD_TOOLS_FILE: file } }) });
    await rack.until("odd", "ready");
    const failure = async (tool: string, input?: object) => {
      const { error } = await rack.call(`mcp_odd_${tool}`, input);
      return [error?.details?.kind, error?.recoverable];
    };
    expect(await failure("fail")).toEqual(["refused", true]);
    const line = '{"jsonrpc":"2.0","id":ID,"result":{}}';
    expect(await failure("raw", { line })).toEqual(["broken", recoverable]);
    expect(await failure("crash")).toEqual(["lost", recoverable]);
    expect(await failure("crash")).toEqual(["unavailable", true]);
  });

  it("is one that a gateway gave up, and not one that a server refused", async () => {
    const statuses = [502, 504, 503, 429, 400];
    const tools = statuses.map((status) => [`s${status}`, ({ send }: ScriptedCall) => send(status, "no")]);
    await using server = await ScriptedHttpServer.start({ tools: Object.fromEntries(tools) });
    await using rack = await UpstreamRack.create();
    await rack.open({ far: { url: server.url } });
    await rack.until("far", "ready");
    const results = await Promise.all(statuses.map((status) => rack.call(`mcp_far_s${status}`)));
    expect(results.map(({ error }) => [error?.details?.status, error?.recoverable])).toEqual([
      [502, false],
      [504, false],
      [503, true],
      [429, true],
      [400, true],
    ]);
  });
});

describe("a server that says nothing more", () => {
  it("is not sent the calls that wait for their turn, and they are told that nothing was done", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer({ toolrack: { limits: { concurrency: 2 } } }) });
    await rack.until("odd", "ready");
    const pid = rack.servers.get("odd").pid!;
    process.kill(pid, "SIGSTOP");
    const sent = [1, 2].map(() => rack.call("mcp_odd_hang", {}, { timeout: 600 }));
    await rack.eventually(() => rack.servers.get("odd").inFlight === 2, "two are sent");
    // They have a little more time than those before them.
    const queued = [1, 2, 3].map(() => rack.call("mcp_odd_hang", {}, { timeout: 900 }));
    for (const { content } of await Promise.all(sent)) expect(content).toMatch(/may stand/);
    for (const { content } of await Promise.all(queued)) expect(content).toMatch(/Nothing was done/);
    process.kill(pid, "SIGCONT");
    // What it was told to stop is all that it ever had.
    const { content } = await rack.call("mcp_odd_cancelled");
    expect(JSON.parse(String(content))).toHaveLength(2);
  });

  it("but answers at all is given the next call at once", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ odd: oddServer({ toolrack: { limits: { concurrency: 1 } } }) });
    await rack.until("odd", "ready");
    const hanging = rack.call("mcp_odd_hang", {}, { timeout: 300 });
    await rack.eventually(() => rack.servers.get("odd").inFlight === 1, "it is sent");
    expect(await rack.call("mcp_odd_echo", { text: "next" })).toMatchObject({ content: "next" });
    expect((await hanging).error?.code).toBe("timed_out");
    expect(rack.servers.get("odd").inFlight).toBe(0);
  });
});

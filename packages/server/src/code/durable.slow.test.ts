import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { ServedWorkspace } from "../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { files, paying } from "./noted-runs.fixture.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Call = any;

let workspace: TemporaryWorkspace;
let served: ServedWorkspace | undefined;
afterEach(async () => {
  await served?.end("SIGKILL");
  await workspace[Symbol.asyncDispose]();
});

async function begin(code: string, environment: Record<string, string> = {}) {
  workspace = await TemporaryWorkspace.create(files);
  served = await ServedWorkspace.start(workspace.directory, environment);
  const answer = served.ask("POST", "/api/code", { code, callId: "run" }).catch(() => undefined);
  return { served, answer };
}

async function restart(signal: NodeJS.Signals): Promise<ServedWorkspace> {
  await served?.end(signal);
  served = await ServedWorkspace.start(workspace.directory);
  return served;
}

const question = async (server: ServedWorkspace) => {
  await expect.poll(async () => (await items(server)).length, { timeout: 20_000 }).toBe(1);
  return (await items(server))[0];
};
const items = async (server: ServedWorkspace) => (await server.ask("GET", "/api/approvals")).body.items;
const ended = async (server: ServedWorkspace) => {
  const call = async () => (await server.ask("GET", "/api/calls/run")).body;
  await expect.poll(async () => (await call()).status, { timeout: 20_000 }).not.toBe("running");
  return call();
};
const ran = async () => (await readFile(join(workspace.directory, "ran.txt"), "utf8")).trim().split("\n");

describe("a run whose server ends while it waits for a person", { timeout: 60_000 }, () => {
  it.each(["SIGKILL", "SIGTERM"] as const)("goes on after %s, and makes each call once", async (signal) => {
    const first = await begin(paying);
    const asked = await question(first.served);
    expect(asked.run).toMatchObject({ callId: "run", code: paying, line: 4 });
    expect(
      asked.run.before.map(({ toolName, line, status }: Record<string, unknown>) => [toolName, line, status]),
    ).toEqual(
      expect.arrayContaining([
        ["note", 2, "completed"],
        ["note", 3, "completed"],
      ]),
    );
    const next = await restart(signal);
    expect((await next.ask("GET", "/api/calls/run")).body.status).toBe("running");
    const still = await question(next);
    expect([still.id, still.callId, still.state]).toEqual([asked.id, asked.callId, "pending"]);
    await next.ask("POST", `/api/approvals/${still.id}`, { decision: "allow" });
    const run = await ended(next);
    expect(run.result.structured).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
    expect((await ran()).toSorted()).toEqual(["note 1", "note 1", "note 2", "note 3", "note 5", "pay 4"]);
    const { body } = await next.ask("GET", "/api/calls?root=run");
    expect(body.items.every(({ status }: { status: string }) => status === "completed")).toBe(true);
    expect(body.items).toHaveLength(7);
    // The clock of the code begins when the run began, not when it was run again.
    expect(run.result.structured.before[0]).toBeLessThanOrEqual(asked.createdAt);
    expect(run.timestamp).toBeLessThanOrEqual(asked.createdAt);
  });

  it("ends with the answer that was given while no server ran", async () => {
    const first = await begin(
      "try { await tools.rack.pay({ n: 1 }) } catch ({ code, message }) { return [code, message] }",
    );
    await question(first.served);
    const next = await restart("SIGKILL");
    const { id } = await question(next);
    await next.ask("POST", `/api/approvals/${id}`, { decision: "deny", reason: "too dear" });
    expect((await ended(next)).result.structured).toEqual([
      "approval_denied",
      expect.stringContaining("too dear"),
    ]);
  });

  it("is stopped where it takes another way than before, and its question is closed", async () => {
    const first = await begin(
      "const n = Number(String(globalThis.process.hrtime.bigint()).slice(-6));\nawait tools.rack.note({ n });\nawait tools.rack.pay({ n: 1 });",
    );
    await question(first.served);
    const next = await restart("SIGKILL");
    const { error } = await ended(next);
    expect(error).toMatchObject({ code: "code_diverged", details: { line: 2 } });
    expect(await ran()).toHaveLength(1);
    await expect.poll(() => items(next)).toEqual([]);
    const { body } = await next.ask("GET", "/api/calls?root=run");
    expect(body.items.map(({ status }: { status: string }) => status)).not.toContain("running");
  });
});

it("is told the same by search and describe, and the same times, on a rack that has changed meanwhile", {
  timeout: 60_000,
}, async () => {
  const first = await begin(`const found = (await search("note")).map(({ path }) => path);
await tools.rack.note({ n: found.length });
const { description } = await describe("note");
const missing = await describe("later").catch(({ message }) => message);
await tools.rack.nap({ n: Date.now() % 1e9 });
await tools.rack.note({ n: Date.now() % 1e9 });
await tools.rack.pay({ n: 4 });
return { found, description, missing, after: (await search("later")).map(({ path }) => path) };`);
  await question(first.served);
  const before = await ran();
  await served?.end("SIGKILL");
  const text = files["tools/tools.ts"].replace("description: name", 'description: "new " + name');
  await workspace.write("tools/tools.ts", `${text}\nexport const later = noting("later_note");`);
  served = await ServedWorkspace.start(workspace.directory);
  const { id } = await question(served);
  await served.ask("POST", `/api/approvals/${id}`, { decision: "allow" });
  const { error, result } = await ended(served);
  expect(error).toBeUndefined();
  expect(await ran()).toEqual([...before, "pay 4"]);
  expect(result.structured).toMatchObject({
    description: "note",
    missing: expect.stringContaining('There is no tool "later"'),
    after: expect.arrayContaining(["tools.rack.later_note"]),
  });
  expect(result.structured.found).not.toContain("tools.rack.later_note");
  const { body } = await served.ask("GET", "/api/calls?root=run");
  const kept = body.items.filter(
    ({ toolName }: Call) => toolName.startsWith("toolrack_") && toolName !== "toolrack_run",
  );
  expect(kept.map(({ toolName, flags, status }: Call) => [toolName, flags?.line, status]).toSorted()).toEqual(
    [
      ["toolrack_describe", 3, "completed"],
      ["toolrack_describe", 4, "error"],
      ["toolrack_search", 1, "completed"],
      ["toolrack_search", 8, "completed"],
    ],
  );
});

it("is refused when the rack has lost a tool meanwhile, and leaves no question behind", {
  timeout: 60_000,
}, async () => {
  const first = await begin("await tools.rack.note({ n: 1 });\nawait tools.rack.pay({ n: 1 });");
  const { id } = await question(first.served);
  await served?.end("SIGKILL");
  const text = files["tools/tools.ts"].replace('noting("pay"', 'noting("give"');
  await workspace.write("tools/tools.ts", text);
  served = await ServedWorkspace.start(workspace.directory);
  const { error } = await ended(served);
  expect(error.message).toContain("Line 2: There is no tool tools.rack.pay");
  await expect.poll(() => items(served!)).toEqual([]);
  expect((await served.ask("GET", `/api/approvals/${id}`)).body.state).toBe("denied");
  const { body } = await served.ask("GET", "/api/calls?root=run");
  expect(body.items.map(({ status }: { status: string }) => status)).not.toContain("running");
});

describe("a run whose server ends while a call runs", { timeout: 60_000 }, () => {
  it("does not make a call again that may have done its work", async () => {
    const first = await begin("await tools.rack.note({ n: 1 });\nawait tools.rack.hang({ n: 2 });");
    await expect.poll(() => ran().catch(() => []), { timeout: 20_000 }).toContain("hang 2");
    const next = await restart("SIGKILL");
    expect((await ended(next)).error.message).toContain("Line 2: a tool failed (outcome_unknown)");
    expect(await ran()).toEqual(["note 1", "hang 2"]);
    await first.answer;
  });

  it("makes a call again that changes nothing", async () => {
    await begin("await tools.rack.note({ n: 1 });\nreturn await tools.rack.look({ n: 2 });", { HANGS: "1" });
    await expect.poll(() => ran().catch(() => []), { timeout: 20_000 }).toContain("look 2");
    const next = await restart("SIGKILL");
    expect((await ended(next)).result.content).toBe("seen 2");
    expect(await ran()).toEqual(["note 1", "look 2", "look 2"]);
  });
});

describe("a run that waits for a person", { timeout: 60_000 }, () => {
  it("goes on when its caller has closed the connection", async () => {
    workspace = await TemporaryWorkspace.create(files);
    served = await ServedWorkspace.start(workspace.directory);
    const gone = new AbortController();
    const request = fetch(`${served.url}/api/code`, {
      method: "POST",
      headers: { authorization: `Bearer ${served.token}`, "content-type": "application/json" },
      body: JSON.stringify({ code: "return await tools.rack.pay({ n: 7 })", callId: "run" }),
      signal: gone.signal,
    });
    const { id } = await question(served);
    gone.abort();
    await expect(request).rejects.toThrow();
    await served.ask("POST", `/api/approvals/${id}`, { decision: "allow" });
    expect((await ended(served)).result.structured).toEqual({ n: 7 });
  });
});

describe("kill -9 at any moment", { timeout: 120_000 }, () => {
  const count = 12;
  const code = `for (let n = 1; n <= ${count}; n += 2) await Promise.all([tools.rack.note({ n }), tools.rack.note({ n: n + 1 })]);
await tools.rack.pay({ n: 99 });
return "all";`;

  it.each(Array.from({ length: 10 }, (_, moment) => moment))(
    "makes no call twice, and says how it ended (%i)",
    async (moment) => {
      const first = await begin(code);
      // The moment of the kill: after so many calls have been made, or at the question.
      await expect
        .poll(async () => (await ran().catch(() => [])).length, { timeout: 20_000, interval: 1 })
        .toBeGreaterThanOrEqual(Math.min(count, moment + 1));
      if (moment === 9) await question(first.served);
      const next = await restart("SIGKILL");
      const isOver = async () => (await next.ask("GET", "/api/calls/run")).body.status !== "running";
      await expect
        .poll(async () => (await isOver()) || (await items(next)).length === 1, { timeout: 30_000 })
        .toBe(true);
      for (const { id } of await items(next))
        await next.ask("POST", `/api/approvals/${id}`, { decision: "allow" });
      const { status, result, error } = await ended(next);
      const lines = await ran();
      expect(new Set(lines).size).toBe(lines.length);
      if (status === "completed") expect([result.content, lines.length]).toEqual(["all", count + 1]);
      else expect(error.message).toContain("outcome_unknown");
    },
  );
});

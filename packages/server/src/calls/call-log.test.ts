import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { CallLog } from "./log.ts";
import { readLog } from "./log-reader.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-log-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function linesOf(file: string): Promise<Record<string, unknown>[]> {
  return (await readFile(file, "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

const tools = {
  "tools/echo.ts": `export const schema = { name: "echo", description: "", type: "object", properties: { text: { type: "string" }, password: { type: "string" }, fail: { type: "boolean" } } };
    export default async ({ params: { arguments: { text, fail } } }) => ({ content: [{ type: "text", text: text ?? "" }], ...(fail ? { isError: true } : {}) });`,
};

describe("the call log", () => {
  it("has one JSON line per call with the toolbox fields, errors with their caller, secrets masked", async () => {
    await using workspace = await TemporaryWorkspace.create(tools);
    const { registry, log } = await workspace.open();
    await registry.execute(
      "echo",
      { text: "hi", password: "hunter2" },
      { caller: "schedule_tool_123", callId: "c1", tid: "t1" },
    );
    await registry.execute("echo", { text: "no", fail: true }, { caller: "ai" });
    await registry.execute("missing", {}, { caller: "ai" });
    log.flush();
    const lines = await linesOf(join(workspace.directory, "log/ToolBox.log"));
    expect(lines).toMatchObject([
      {
        tool: "echo",
        caller: "schedule_tool_123",
        args: { text: "hi", password: "[redacted]" },
        stat: "success",
        callId: "c1",
        tid: "t1",
      },
      { tool: "echo", caller: "ai", stat: "error", err: "no" },
      { tool: "missing", caller: "ai", stat: "error", code: "tool_not_found" },
    ]);
    expect(lines[0]?.ts).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(lines[0]?.cost).toBeTypeOf("number");
    expect(lines[1]?.trace).toContain("ToolExecutionError: no");
  });

  it("holds no secret of the arguments, the config or the environment, wherever a tool repeats it", async () => {
    process.env.LOG_TEST_API_TOKEN = "environment-value";
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": `export default { databases: { main: "postgres://ann:database-pass@h/db" } };`,
      "tools/leak.ts": `export const schema = { name: "leak", description: "", type: "object", properties: { password: {}, url: {}, note: {}, nested: {} } };
        export default async ({ params: { arguments: given } }) => {
          const inner = new Error("cause " + JSON.stringify(given));
          throw new Error(JSON.stringify(given) + "\\n    at " + given.password + " database-pass environment-value", { cause: inner });
        };`,
    });
    const { registry, log } = await workspace.open();
    const secrets = [
      "hunter2xyz",
      "pgpass77",
      "sk-live-99",
      "KEY-123456789",
      "database-pass",
      "environment-value",
    ];
    const records: unknown[] = [];
    registry.subscribe((event) => {
      if (event.type === "record") records.push(event.record);
      if (event.type === "state") records.push(event.state);
    });
    await registry.execute("leak", {
      password: "hunter2xyz",
      url: "postgres://bob:pgpass77@h/db",
      note: "Bearer sk-live-99",
      nested: { apiKey: "KEY-123456789" },
    });
    delete process.env.LOG_TEST_API_TOKEN;
    log.flush();
    const [line] = await linesOf(join(workspace.directory, "log/ToolBox.log"));
    expect(line).toMatchObject({ stat: "error", args: { url: "postgres://bob:[redacted]@h/db" } });
    expect(line?.err).toContain("[redacted]");
    for (const secret of secrets)
      expect(JSON.stringify([line, records, registry.getCallHistory()])).not.toContain(secret);
  });

  it("takes lines of tools with anything in them", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/own.ts": `import { LogService } from "../logService.js";
        export const schema = { name: "own", description: "", type: "object", properties: {} };
        export default async () => {
          const entry = { ts: "now", big: 1n, password: "hunter2xyz", text: "Bearer sk-live-99" };
          entry.self = entry;
          LogService.log(entry);
          return "fine";
        };`,
    });
    const { registry, log } = await workspace.open();
    expect((await registry.execute("own", {})).error).toBeUndefined();
    log.flush();
    const lines = await linesOf(join(workspace.directory, "log/ToolBox.log"));
    expect(lines[0]).toEqual({
      ts: "now",
      big: "1",
      password: "[redacted]",
      text: "Bearer [redacted]",
      self: "[circular]",
    });
  });

  it("holds the beginning of a very long error, and the stack all the same", async () => {
    await using workspace = await TemporaryWorkspace.create(tools);
    const { registry, log } = await workspace.open();
    await registry.execute("echo", { text: "long ".repeat(10_000), fail: true });
    log.flush();
    const [line] = await linesOf(join(workspace.directory, "log/ToolBox.log"));
    expect(String(line?.err).length).toBeLessThan(4_100);
    expect(line?.err).toMatch(/characters/);
    expect(String(line?.trace).length).toBeLessThan(4_100);
    expect(line?.trace).toMatch(/\n {4}at /);
  });

  it("is put aside also when many short processes write it, or two at once", async () => {
    const file = join(directory, "short", "ToolBox.log");
    for (let index = 0; index < 30; index++) {
      const log = new CallLog({ file, maxBytes: 500, keep: 3 });
      log.write({ ts: "1", index, filler: "x".repeat(80) });
      log.close();
    }
    expect((await readdir(join(directory, "short"))).length).toBe(4);

    const both = join(directory, "both", "ToolBox.log");
    const one = new CallLog({ file: both, maxBytes: 500, keep: 100 });
    const other = new CallLog({ file: both, maxBytes: 500, keep: 100 });
    for (let index = 0; index < 40; index++) {
      const log = index % 2 === 0 ? one : other;
      log.write({ ts: "1", index, filler: "x".repeat(80) });
      log.flush();
    }
    one.close();
    other.close();
    const found: number[] = [];
    for await (const line of readLog(both)) found.push((line as unknown as { index: number }).index);
    expect(found).toEqual(Array.from({ length: 40 }, (_, index) => index));
    for (const name of await readdir(join(directory, "both")))
      expect((await readFile(join(directory, "both", name))).length).toBeLessThanOrEqual(500);
  });

  it("many logs in one process add no listeners, and let a signal end it", async () => {
    const callLog = fileURLToPath(new URL("log.ts", import.meta.url));
    const script = `import { CallLog } from ${JSON.stringify(callLog)};
      process.on("warning", () => process.exit(9));
      const logs = Array.from({ length: 12 }, (_, index) => new CallLog({ file: ${JSON.stringify(directory)} + "/many-" + index + ".log" }));
      for (const log of logs) log.write({ ts: "now" });
      logs.pop().close();
      setTimeout(() => process.kill(process.pid, "SIGTERM"), 50);
      setTimeout(() => process.exit(8), 5_000);`;
    const child = spawn(
      process.execPath,
      ["--conditions=toolrack-source", "--input-type=module", "--eval", script],
      { stdio: "ignore" },
    );
    expect(await once(child, "exit")).toEqual([null, "SIGTERM"]);
    expect(await linesOf(join(directory, "many-0.log"))).toHaveLength(1);
    const before = process.listenerCount("SIGTERM");
    new CallLog({ file: join(directory, "none.log") }).close();
    expect(process.listenerCount("SIGTERM")).toBe(before);
  });

  it("is put aside when it grows too large, and only so many files are kept", async () => {
    const file = join(directory, "rotating", "ToolBox.log");
    const log = new CallLog({ file, maxBytes: 2_000, keep: 2 });
    for (let index = 0; index < 100; index++) {
      log.write({ ts: new Date().toISOString(), tool: "t", index, filler: "x".repeat(100) });
      log.flush();
    }
    log.close();
    expect((await readdir(join(directory, "rotating"))).sort()).toEqual([
      "ToolBox.log",
      "ToolBox.log.1",
      "ToolBox.log.2",
    ]);
    const found: number[] = [];
    for await (const line of readLog(file)) found.push((line as unknown as { index: number }).index);
    expect(found.at(-1)).toBe(99);
    expect(found).toEqual(found.toSorted((one, other) => one - other));
  });

  it("begins a new file when somebody moved the old one away", async () => {
    const file = join(directory, "moved", "ToolBox.log");
    const log = new CallLog({ file });
    log.write({ ts: "1", a: 1 });
    log.flush();
    await rename(file, `${file}.old`);
    log.write({ ts: "2", a: 2 });
    log.close();
    expect(await linesOf(file)).toEqual([{ ts: "2", a: 2 }]);
  });

  it("a log that cannot be written fails no call, keeps its lines for later, and counts what it lost at the end", async () => {
    const place = join(directory, "not-a-folder");
    await writeFile(place, "");
    const log = new CallLog({ file: join(place, "ToolBox.log") });
    log.write({ ts: "1" });
    log.flush();
    log.write({ ts: "2" });
    log.flush();
    expect([log.held, log.lost]).toEqual([2, 0]);
    await rm(place);
    log.write({ ts: "3" });
    log.flush();
    expect([log.held, log.lost]).toEqual([0, 0]);
    expect(await linesOf(log.file)).toEqual([{ ts: "1" }, { ts: "2" }, { ts: "3" }]);
    await rm(place, { recursive: true });
    await writeFile(place, "");
    log.write({ ts: "4" });
    log.close();
    expect([log.held, log.lost]).toEqual([0, 1]);
  });

  it.each([
    ["process.exit", "process.exit(0)", 0],
    ["the end of the program", "", 0],
    ["SIGTERM", 'process.kill(process.pid, "SIGTERM"); setTimeout(() => {}, 10_000)', "SIGTERM"],
    ["an error that nobody caught", 'throw new Error("crash")', 1],
    ["a rejection that nobody handled", 'Promise.reject(new Error("crash"))', 1],
  ])("loses nothing on %s", async (_, ending, expected) => {
    const file = join(directory, `${Math.random()}.log`);
    const callLog = fileURLToPath(new URL("log.ts", import.meta.url));
    const script = `import { CallLog } from ${JSON.stringify(callLog)};
      const log = new CallLog({ file: ${JSON.stringify(file)} });
      for (let index = 0; index < 1000; index++) log.write({ ts: "now", index });
      ${ending}`;
    const child = spawn(
      process.execPath,
      ["--conditions=toolrack-source", "--input-type=module", "--eval", script],
      { stdio: "ignore" },
    );
    const [code, signal] = await once(child, "exit");
    expect(signal ?? code).toBe(expected);
    expect(await linesOf(file)).toHaveLength(1000);
  });
});

describe("log_tool", () => {
  it("finds calls by tool, status, duration and time, a page at a time", async () => {
    await using workspace = await TemporaryWorkspace.create(tools);
    const { registry } = await workspace.open();
    for (let index = 0; index < 25; index++)
      await registry.execute("echo", { text: String(index), fail: index % 5 === 0 });
    const query = async (input: object) =>
      (await registry.execute("log_tool", input)).structured as {
        total: number;
        pages: number;
        lines: { args: { text: string } }[];
      };
    expect(await query({ tool: "echo", status: "error" })).toMatchObject({ total: 5, pages: 1 });
    expect(await query({ tool: "ec*", pageSize: 10, page: 3 })).toMatchObject({ total: 25, pages: 3 });
    expect((await query({ tool: "/^EC/i", order: "oldest" })).lines[0]?.args.text).toBe("0");
    expect((await query({ tool: "echo" })).lines[0]?.args.text).toBe("24");
    expect(await query({ tool: "echo", minDuration: 60_000 })).toMatchObject({ total: 0 });
    expect(await query({ tool: "echo", startTime: "2999-01-01T00:00:00Z" })).toMatchObject({ total: 0 });
    expect((await registry.execute("log_tool", { startTime: "yesterday-ish" })).content).toContain(
      "is no time",
    );
    expect((await registry.execute("log_tool", { tool: "/(/" })).content).toContain(
      "not a regular expression",
    );
  });

  it("shows others than the operator only what they called themselves, and what that called", async () => {
    await using workspace = await TemporaryWorkspace.create({
      ...tools,
      "tools/outer.ts": `import { Tool } from "@toolrack/core";
export const outer = Tool.define({ name: "outer", description: "Calls.", parameters: { type: "object" },
  execute: async (context) => { const { structured } = await context.call(context.input.tool, context.input.input ?? {}); return structured; } });`,
    });
    const { registry } = await workspace.open();
    await registry.execute("echo", { text: "of ann" }, { caller: "ann_1" });
    await registry.execute("outer", { tool: "echo", input: { text: "of bob's tool" } }, { caller: "bob_2" });
    await registry.execute("echo", { text: "of bob" }, { caller: "bob_2" });
    const textsFor = async (caller: string, tool = "log_tool", input: object = { tool: "echo" }) => {
      const { structured } = await registry.execute(tool, input, { caller });
      return (structured as { lines: { args: { text: string } }[] }).lines.map(({ args }) => args.text);
    };
    expect(await textsFor("ann_1")).toEqual(["of ann"]);
    expect(await textsFor("bob_2")).toEqual(["of bob", "of bob's tool"]);
    expect(await textsFor("bob_2", "outer", { tool: "log_tool", input: { tool: "echo" } })).toHaveLength(2);
    for (const operator of ["", "cli", "http"]) expect(await textsFor(operator)).toHaveLength(3);
  });
});

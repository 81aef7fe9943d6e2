import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, onTestFinished, test } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { program } from "./testing/serve-workspace.ts";
import { type Era, toolFile } from "./testing/served-rack.ts";

const LIMIT = 60_000;
const HOUR = 3_600_000;

/** Tools that leave files behind when they begin, and when their signal is aborted. */
const files = {
  "toolrack.config.ts": "export default { builtins: false };",
  "tools/all.ts": `import { writeFileSync } from "node:fs";
import { join } from "node:path";
const note = (name) => writeFileSync(join(import.meta.dirname, "..", name), "");
note("loaded");
${toolFile(
  `name: "waits", execute: ({ signal }) => new Promise((resolve) => {
    signal.addEventListener("abort", () => note("aborted"));
    setTimeout(resolve, ${HOUR}).unref();
    note("begun");
  })`,
  'name: "slow", execute: () => { note("begun"); return new Promise((resolve) => setTimeout(resolve, 300, "late")); }',
)}`,
};

const call = (name: string, meta: object = {}) => ({
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: {
    name,
    arguments: {},
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
      ...meta,
    },
  },
});

/** Side by side: each waits until the program gives its call up. The short way is open once the connection has a version; a call that wants progress never takes it. */
const ways: [string, object][] = [
  ["by the short way", {}],
  ["by the SDK", { progressToken: 1 }],
];

const installed = [process.execPath, resolve(import.meta.dirname, "../../../bin/toolrack.js")];

test.concurrent.each<[string, string, readonly string[]]>([
  ["at once", "by its sources", program],
  ["at once", "as it is installed", installed],
  ["when its tools are loaded", "by its sources", program],
])(
  "a program whose input ends %s, before anything was said, ends too when it is run %s",
  async (when, _, [command, ...words]) => {
    await using workspace = await TemporaryWorkspace.create(files);
    const child = spawn(command!, [...words, "mcp", "--dir", workspace.directory], {
      stdio: ["pipe", "ignore", "ignore"],
    });
    onTestFinished(() => void child.kill());
    const ended = once(child, "exit");
    if (when !== "at once") await appears(workspace, "loaded");
    child.stdin.end();
    expect(await ended).toEqual([0, null]);
  },
  LIMIT,
);

test.concurrent.each(ways)(
  "a call %s is cancelled when the input ends and it takes too long",
  async (_, meta) => {
    await using workspace = await TemporaryWorkspace.create(files);
    const child = await begun(workspace, call("waits", meta));
    child.stdin.end();
    expect(await once(child, "close")).toEqual([0, null]);
    expect(left(workspace, "aborted")).toBe(true);
  },
  LIMIT,
);

test.concurrent.each(ways)(
  "a call %s is cancelled when nobody is left who would read its answer",
  async (_, meta) => {
    await using workspace = await TemporaryWorkspace.create(files);
    const child = await begun(workspace, call("waits", meta));
    child.stdout.destroy();
    // What is written from here on goes nowhere; the input stays open.
    child.stdin.write(`${JSON.stringify({ ...call("slow"), id: 2 })}\n`);
    expect(await once(child, "exit")).toEqual([0, null]);
    expect(left(workspace, "aborted")).toBe(true);
  },
  LIMIT,
);

test(
  "a call that took too long is answered: it was cancelled",
  async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const child = await begun(workspace, call("waits"));
    const answer = lastLine(child);
    child.stdin.end();
    expect(JSON.parse(await answer)).toMatchObject({
      id: 1,
      result: { isError: true, content: [{ text: expect.stringContaining("the client closed its side") }] },
    });
  },
  LIMIT,
);

test(
  "a program that is told to end answers what is quick",
  async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const child = await begun(workspace, call("slow"));
    const answer = lastLine(child);
    child.kill("SIGTERM");
    expect(JSON.parse(await answer).result.content).toEqual([{ type: "text", text: "late" }]);
  },
  LIMIT,
);

test(
  "a program that is told to end cancels what is not",
  async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const child = await begun(workspace, call("waits", { progressToken: 1 }));
    child.kill("SIGTERM");
    expect(await once(child, "close")).toEqual([0, null]);
    expect(left(workspace, "aborted")).toBe(true);
  },
  LIMIT,
);

test.each<Era>(["modern", "legacy"])(
  "a tool sees its signal before a %s client that closes kills the server",
  async (era) => {
    await using workspace = await TemporaryWorkspace.create(files);
    const [command, ...words] = program;
    const args = [...words, "mcp", "--dir", workspace.directory];
    const mode = era === "modern" ? ({ pin: "2026-07-28" } as const) : "legacy";
    const client = new Client({ name: "tester", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(new StdioClientTransport({ command: command!, args, stderr: "ignore" }));
    const called = client.callTool({ name: "waits", arguments: {} }).catch(() => {});
    await appears(workspace, "begun");
    await client.close();
    await called;
    expect(left(workspace, "aborted")).toBe(true);
  },
  LIMIT,
);

type Child = ChildProcessByStdio<Writable, Readable, null>;

/** A connection that has its version, and on it a call that runs. */
async function begun(workspace: TemporaryWorkspace, message: object): Promise<Child> {
  const [command, ...words] = program;
  const child = spawn(command!, [...words, "mcp", "--dir", workspace.directory], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const list = { ...call(""), id: 0, method: "tools/list" };
  child.stdin.write(`${JSON.stringify(list)}\n`);
  await once(child.stdout, "data");
  child.stdin.write(`${JSON.stringify(message)}\n`);
  await appears(workspace, "begun");
  return child;
}

async function lastLine(child: Child): Promise<string> {
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
  });
  await once(child, "close");
  return output.trim().split("\n").at(-1)!;
}

async function appears(workspace: TemporaryWorkspace, name: string): Promise<void> {
  while (!left(workspace, name)) await wait(20);
}

function left({ directory }: TemporaryWorkspace, name: string): boolean {
  return existsSync(join(directory, name));
}

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, vi } from "vitest";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Json = any;

const ended = (rack: ChatRack, session: string) =>
  expect.poll(async () => (await rack.ask(`/api/chat/sessions/${session}`)).messages.at(-1), {
    timeout: 20_000,
  });

describe("a turn that waits for a person when the server stops", () => {
  it("goes on after the next start, once somebody agrees, and makes no call twice", {
    timeout: 60_000,
  }, async () => {
    await using rack = await ChatRack.start();
    rack.script((_request, asked) =>
      asked === 0
        ? called(
            ["write", { text: "before" }, "a"],
            ["wipe", { what: "all" }, "b"],
            ["write", { text: "after" }, "c"],
          )
        : { content: "all done" },
    );
    const session = await rack.session();
    const reader = await rack.stream(session, "go");
    const { data } = await reader.until("approval");
    await rack.serving.close();
    expect(rack.ran.map(({ input }) => input.text)).toEqual(["before"]);
    await rack.open();

    const waiting = await rack.ask(`/api/chat/sessions/${session}`);
    expect(waiting.running).toBe(true);
    expect(waiting.messages.at(-1)).toMatchObject({ status: "running" });
    const answer = await rack.ask(`/api/approvals/${data.approval.id}`, { body: { decision: "allow" } });
    expect(answer.state).toBe("allowed");
    await ended(rack, session).toMatchObject({ status: "completed" });
    expect(rack.ran.map(({ input }) => input.text ?? input.what)).toEqual(["before", "all", "after"]);
    const last = rack.requests.at(-1);
    expect(answersIn(last).map(({ tool_call_id, content }) => [tool_call_id, content])).toEqual([
      ["a", "wrote before"],
      ["b", "wiped all"],
      ["c", "wrote after"],
    ]);
  });

  it("tells the model of a no, or ends when the person stops it", { timeout: 60_000 }, async () => {
    await using rack = await ChatRack.start();
    rack.script((request) =>
      answersIn(request).length === 0 ? called(["wipe", { what: "all" }]) : { content: "fine" },
    );
    const [denied, stopped] = [await rack.session(), await rack.session()];
    const first = (await (await rack.stream(denied, "go")).until("approval")).data.approval;
    const second = (await (await rack.stream(stopped, "go")).until("approval")).data.approval;
    await rack.serving.close();
    await rack.open();
    await rack.ask(`/api/approvals/${first.id}`, { body: { decision: "deny", reason: "use the archive" } });
    await ended(rack, denied).toMatchObject({ status: "completed" });
    expect(answersIn(rack.requests.at(-1))[0].content).toContain("use the archive");
    expect(await rack.ask(`/api/chat/sessions/${stopped}/stop`, { method: "POST" })).toMatchObject({
      stopped: true,
    });
    await ended(rack, stopped).toMatchObject({ status: "stopped" });
    expect((await rack.ask(`/api/approvals/${second.id}`)).state).toBe("denied");
    expect(rack.ran).toEqual([]);
  });
});

it("settles a turn that was at something else, and keeps the conversation usable", {
  timeout: 60_000,
}, async () => {
  await using rack = await ChatRack.start();
  rack.script(() => ({ content: "a long story, told slowly, word for word" }), {
    latency: 200,
    chunkSize: 2,
  });
  const session = await rack.session();
  const reader = await rack.stream(session, "go");
  await reader.until("text");
  await rack.serving.close();
  await rack.open();
  const message = (await rack.ask(`/api/chat/sessions/${session}`)).messages.at(-1);
  expect(message).toMatchObject({ status: "interrupted" });
  expect(message.parts[0].text).toMatch(/^a /);
  rack.script((request) => ({ content: `${request.messages.length}` }));
  expect((await rack.say(session, "and?")).parts[0].text).toBe("3");
});

it("tells of a response in the background that the server stopped before its end", {
  timeout: 60_000,
}, async () => {
  await using rack = await ChatRack.start();
  rack.script(() => called(["write", { text: "hold" }]));
  const { id } = await rack.ask("/v1/responses", { body: { input: "go", background: true } });
  await rack.hold.started("hold");
  await rack.serving.close();
  await rack.open();
  const { output, toolrack } = await rack.ask(`/v1/responses/${id}`);
  const why = "The server stopped before the answer was finished.";
  expect(output[0].content[0].text).toContain(why);
  expect(toolrack.error.message).toBe(why);
  expect(rack.ran).toHaveLength(1);
});

it("does not ask a person twice for a request to /v1 that comes again after a restart", {
  timeout: 60_000,
}, async () => {
  await using rack = await ChatRack.start();
  rack.script(() => called(["wipe", { what: "all" }]));
  const body = { messages: [{ role: "user", content: "go" }], stream: true };
  const first = await rack.fetch("/v1/chat/completions", { body });
  await vi.waitFor(async () => expect(await pending()).toBe(1));
  await rack.serving.close();
  expect(await first.text()).toContain("The server stopped");
  await rack.open();
  const again = await rack.ask("/v1/chat/completions", { body: { ...body, stream: false } });
  expect(again).toMatchObject({ status: 200, toolrack: { error: { code: "chat_cancelled" } } });
  expect(await pending()).toBe(1);
  async function pending() {
    return (await rack.ask("/api/approvals?state=pending")).items.length;
  }
});

it("survives that the process is killed while a person is asked", { timeout: 60_000 }, async () => {
  await using rack = await ChatRack.start({
    files: {
      "tools/danger.js": `
import { appendFileSync } from "node:fs";
import { Tool } from "@toolrack/core";
const note = (text) => appendFileSync("ran.txt", text + "\\n");
const none = { type: "object", properties: {} };
export const erase = Tool.define({ name: "erase", description: "Erases.", parameters: none, metadata: { dangerous: true },
  execute: async () => { note("erase"); return "erased"; } });
export const log = Tool.define({ name: "jot", description: "Notes.", parameters: none,
  execute: async () => { note("jot"); return "noted"; } });
`,
    },
  });
  await rack.serving.close();
  rack.script((_request, asked) =>
    asked === 0 ? called(["jot", {}], ["erase", {}]) : { content: "gone for good" },
  );
  const { directory } = rack.workspace;
  const [file, ...words] = program;
  const child = spawn(file!, [...words, "serve", "--port", "0", "--json", "--no-watch"], {
    cwd: directory,
    env: cleanEnvironment(),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(createInterface(child.stdout), "line");
  child.stdout.resume();
  const token = readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
  const ask = async (path: string, body?: unknown): Promise<Json> => {
    const response = await fetch(JSON.parse(line).url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.json();
  };
  const { id: session } = await ask("/api/chat/sessions", {});
  const lost = ask(`/api/chat/sessions/${session}/messages`, { content: "go" }).catch(() => "lost");
  await expect.poll(async () => (await ask("/api/approvals")).items.length, { timeout: 20_000 }).toBe(1);
  const [{ id }] = (await ask("/api/approvals")).items;
  child.kill("SIGKILL");
  await once(child, "close");
  expect(await lost).toBe("lost");

  const ran = join(directory, "ran.txt");
  expect(existsSync(ran) && readFileSync(ran, "utf8")).toBe("jot\n");
  const home = process.cwd();
  process.chdir(directory);
  try {
    await rack.open();
    await rack.ask(`/api/approvals/${id}`, { body: { decision: "allow" } });
    await ended(rack, session).toMatchObject({ status: "completed" });
  } finally {
    process.chdir(home);
  }
  expect(readFileSync(ran, "utf8")).toBe("jot\nerase\n");
  expect(answersIn(rack.requests.at(-1)).map(({ content }) => content)).toEqual(["noted", "erased"]);
});

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../../testing/temporary-workspace.ts";
import { answersIn, ChatRack, called } from "../../chat/testing/chat-rack.fixture.ts";
import { cleanEnvironment, program, spawnCli } from "../testing/spawn-cli.ts";

const tools = `
import { setTimeout as sleep } from "node:timers/promises";
import { Tool } from "@toolrack/core";
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const none = { type: "object", properties: {} };
export const climate = Tool.define({ name: "climate", displayName: "Climate/气候", description: "Tells the climate.",
  parameters: city, metadata: { readOnly: true }, execute: async ({ input }) => input.city + " is mild" });
export const endless = Tool.define({ name: "endless", description: "Does not end.", parameters: none,
  execute: async ({ signal }) => { await sleep(600_000, undefined, { signal }); } });
export const erase = Tool.define({ name: "erase", description: "Erases.", parameters: none, metadata: { dangerous: true },
  execute: async () => "erased" });
`;

let rack: ChatRack;
let cwd: string;
beforeAll(async () => {
  rack = await ChatRack.start({ files: { "tools/some.js": tools } });
  cwd = rack.workspace.directory;
});
afterAll(() => rack[Symbol.asyncDispose]());

const about = { timeout: 60_000 };

describe("toolrack chat", () => {
  it(
    "answers one message: the answer on standard output, a line for each call on standard error",
    about,
    async () => {
      rack.script((_request, asked) =>
        asked === 0
          ? { content: "Looking.", toolCalls: [{ name: "climate", arguments: '{"city":"Bern"}' }] }
          : { content: "It is mild." },
      );
      const { code, stdout, stderr } = await spawnCli(["chat", "How", "is", "Bern?"], { cwd });
      expect({ code, stdout }).toEqual({ code: 0, stdout: "Looking.\n\nIt is mild.\n" });
      expect(stderr).toMatch(/^✓ Climate\/气候 \{"city":"Bern"\} {2}[\d.]+ ms$/m);
      expect(rack.requests.at(-1).messages[0].content).toBe("How is Bern?");
    },
  );

  it(
    "takes the message from standard input, goes on with a conversation, and prints events as JSON",
    about,
    async () => {
      rack.script((request) => ({ content: `${request.messages.length}` }));
      const session = await rack.session();
      const options = ["chat", "--session", session];
      expect((await spawnCli(options, { cwd, input: "hello\n" })).stdout).toBe("1\n");
      const { stdout } = await spawnCli(["--json", ...options], { cwd, input: "and?\n" });
      const events = stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(events.at(-1)).toMatchObject({ type: "end", end: { reason: "stop" } });
      expect(events.find(({ type }) => type === "text")).toMatchObject({ text: "3" });
    },
  );

  it("says how to answer a question where nobody can be asked", about, async () => {
    rack.script((request) => (answersIn(request).length === 0 ? called(["erase", {}]) : { content: "done" }));
    const id = /approvals approve (\w+)/;
    const running = spawnCli(["chat", "erase it"], {
      cwd,
      when: {
        says: "waits for an answer",
        act: async () => {
          const { items } = await rack.ask("/api/approvals");
          await rack.ask(`/api/approvals/${items[0].id}`, { body: { decision: "allow" } });
        },
      },
    });
    const { code, stdout, stderr } = await running;
    expect({ code, stdout }).toEqual({ code: 0, stdout: "done\n" });
    expect(stderr).toMatch(id);
  });

  it("says what the provider says", about, async () => {
    rack.script(() => ({ error: { message: "no such thing" }, status: 400 }));
    const { code, stderr } = await spawnCli(["chat", "hi"], { cwd });
    expect(code).toBe(1);
    expect(stderr).toContain("no such thing");
  });

  it("runs a server of its own where none runs, and says how to configure a provider", about, async () => {
    await using workspace = await TemporaryWorkspace.create({ "toolrack.config.js": "export default {};" });
    const { code, stderr } = await spawnCli(["chat", "hi"], {
      cwd: workspace.directory,
      env: { OPENAI_BASE_URL: "", OPENAI_API_KEY: "" },
    });
    expect(code).toBe(1);
    expect(stderr).toContain("No model provider is configured. Set OPENAI_API_KEY");
    rack.script(() => ({ content: "from afar" }));
    const answered = await spawnCli(["chat", "hi", "--model", "any"], {
      cwd: workspace.directory,
      env: { OPENAI_BASE_URL: `${rack.mock.url}/v1`, OPENAI_API_KEY: "x" },
    });
    expect(answered).toMatchObject({ code: 0, stdout: "from afar\n" });
  });
});

// A terminal is had from util-linux; where it is missing, the keys cannot be tried.
const terminal = "/usr/bin/script";

describe.skipIf(!existsSync(terminal))("toolrack chat on a terminal", () => {
  it("stops the turn and not the program at Ctrl-C, and asks its questions inline", about, async () => {
    rack.script((request) => {
      const asked = String(request.messages.findLast(({ role }) => role === "user")?.content);
      const answers = answersIn({
        messages: request.messages.slice(request.messages.findLastIndex(({ role }) => role === "user")),
      });
      if (asked.includes("for ever")) return called(["endless", {}]);
      if (asked.includes("erase") && answers.length === 0) return called(["erase", {}]);
      return { content: `the last answer was: ${answers[0]?.content ?? "none"}` };
    });
    const words = [...program, "chat"].map((word) => `'${word}'`).join(" ");
    const child = spawn(terminal, ["-qec", `stty cols 160 rows 50; ${words}`, "/dev/null"], {
      cwd,
      env: cleanEnvironment({ TERM: "xterm" }),
    });
    let seen = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      seen += text;
    });
    const until = async (text: string) => {
      await expect.poll(() => seen, { timeout: 30_000 }).toContain(text);
      seen = seen.slice(seen.indexOf(text) + text.length);
    };
    await until("> ");
    child.stdin.write("go on for ever\r");
    await until("▸ endless");
    child.stdin.write("\u0003");
    await until("Stopped.");
    await until("> ");
    child.stdin.write("please erase it\r");
    await until("Approve");
    child.stdin.write("\u001b[B");
    await until("Approve");
    child.stdin.write("\r");
    await until("the last answer was: erased");
    await until("> ");
    child.stdin.write("/exit\r");
    const [code] = await once(child, "close");
    expect(code).toBe(0);
  });
});

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answersIn, ChatRack, called } from "../../chat/testing/chat-rack.fixture.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";
import { cleanEnvironment, program } from "../testing/spawn-cli.ts";

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
export const peek = Tool.define({ name: "peek", description: "Looks.", parameters: city,
  metadata: { dangerous: true, readOnly: true }, execute: async ({ input }) => "saw " + input.city });
`;

let rack: ChatRack;
let cwd: string;
beforeAll(async () => {
  rack = await ChatRack.start({ files: { "tools/some.js": tools } });
  cwd = rack.workspace.directory;
});
afterAll(() => rack[Symbol.asyncDispose]());

const about = { timeout: 180_000 };

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
      const { code, stdout, stderr } = await runCli(["chat", "How", "is", "Bern?"], { cwd });
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
      expect((await runCli(options, { cwd, input: "hello\n" })).stdout).toBe("1\n");
      const { stdout } = await runCli(["--json", ...options], { cwd, input: "and?\n" });
      const events = stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(events[0]).toMatchObject({ type: "turn", sessionId: session });
      expect(events.at(-1)).toMatchObject({ type: "end", end: { reason: "stop" } });
      expect(events.find(({ type }) => type === "text")).toMatchObject({ text: "3" });
    },
  );

  it("says how to answer a question where nobody can be asked", about, async () => {
    rack.script((request) => (answersIn(request).length === 0 ? called(["erase", {}]) : { content: "done" }));
    const id = /approvals approve (\w+)/;
    const running = runCli(["chat", "erase it"], {
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
    const { code, stderr } = await runCli(["chat", "hi"], { cwd });
    expect(code).toBe(1);
    expect(stderr).toContain("no such thing");
  });

  it("runs a server of its own where none runs, and says how to configure a provider", about, async () => {
    await using workspace = await TemporaryWorkspace.create({ "toolrack.config.js": "export default {};" });
    const { code, stderr } = await runCli(["chat", "hi"], {
      cwd: workspace.directory,
      env: { OPENAI_BASE_URL: "", OPENAI_API_KEY: "" },
    });
    expect(code).toBe(1);
    expect(stderr).toContain("No model provider is configured. Set OPENAI_API_KEY");
    rack.script(() => ({ content: "from afar" }));
    const answered = await runCli(["chat", "hi", "--model", "gpt-4o"], {
      cwd: workspace.directory,
      env: { OPENAI_BASE_URL: `${rack.mock.url}/v1`, OPENAI_API_KEY: "x" },
    });
    expect(answered).toMatchObject({ code: 0, stdout: "from afar\n" });
  });
});

// A terminal is had from util-linux; where it is missing, the keys cannot be tried.
const terminal = "/usr/bin/script";

/** The program on a terminal of its own. */
class Terminal implements AsyncDisposable {
  readonly #child: ChildProcessWithoutNullStreams;
  #seen = "";

  constructor(columns = 160) {
    const words = [...program, "chat"].map((word) => `'${word}'`).join(" ");
    this.#child = spawn(terminal, ["-qec", `stty cols ${columns} rows 50; ${words}`, "/dev/null"], {
      cwd,
      env: cleanEnvironment({ TERM: "xterm" }),
    });
    this.#child.stdout.setEncoding("utf8").on("data", (text) => {
      this.#seen += text;
    });
  }

  /** What was shown up to the text. */
  async until(text: string): Promise<string> {
    await expect.poll(() => this.#seen, { timeout: 120_000 }).toContain(text);
    const end = this.#seen.indexOf(text) + text.length;
    const shown = this.#seen.slice(0, end);
    this.#seen = this.#seen.slice(end);
    return shown;
  }

  type(keys: string): void {
    this.#child.stdin.write(keys);
  }

  async exit(): Promise<number | null> {
    this.type("/exit\r");
    const [code] = await once(this.#child, "close");
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
  }
}

const said = (request: { messages: readonly { role: string; content?: unknown }[] }) =>
  String(request.messages.findLast(({ role }) => role === "user")?.content);
const answersNow = (request: Parameters<typeof said>[0]) =>
  answersIn({
    messages: request.messages.slice(request.messages.findLastIndex(({ role }) => role === "user")),
  });

describe.skipIf(!existsSync(terminal))("toolrack chat on a terminal", () => {
  it("stops the turn and not the program at Ctrl-C, and asks its questions inline", about, async () => {
    rack.script((request) => {
      const asked = said(request);
      const answers = answersNow(request);
      if (asked.includes("for ever")) return called(["endless", {}]);
      if (asked.includes("erase") && answers.length === 0) return called(["erase", {}]);
      return { content: `the last answer was: ${answers[0]?.content ?? "none"}` };
    });
    await using screen = new Terminal();
    await screen.until("> ");
    screen.type("go on for ever\r");
    await screen.until("▸ endless");
    screen.type("\u0003");
    await screen.until("Stopped.");
    await screen.until("> ");
    screen.type("please erase it\r");
    await screen.until("Approve");
    screen.type("\u001b[B");
    await screen.until("Approve");
    screen.type("\r");
    await screen.until("the last answer was: erased");
    await screen.until("> ");
    screen.type("erase it once more\r");
    await screen.until("Approve");
    screen.type("\u0003");
    await screen.until("Stopped.");
    await screen.until("> ");
    screen.type("and?\r");
    expect(await screen.until("the last answer was: none")).not.toContain("error:");
    expect(await screen.exit()).toBe(0);
  });

  it("asks one question at a time, and takes a key for the answer to one", about, async () => {
    rack.script((request) => {
      const answers = answersNow(request).map(({ content }) => content);
      return answers.length === 0
        ? called(["peek", { city: "one" }], ["peek", { city: "two" }])
        : { content: `answers: ${answers.map((text) => text.slice(0, 12)).join(" | ")}.` };
    });
    await using screen = new Terminal(0);
    await screen.until("> ");
    screen.type("peek twice\r");
    await screen.until('"one"');
    // On lines of a width, although the terminal tells none.
    await screen.until("Edit the arguments");
    screen.type("\u001b[B");
    await screen.until("Approve");
    screen.type("\r");
    await screen.until('"two"');
    await screen.until("Edit the arguments");
    screen.type("\r");
    await screen.until("Why?");
    screen.type("no\r");
    const shown = await screen.until("answers: ");
    expect(shown).not.toContain("saw two");
    expect(await screen.until(".")).toMatch(/^saw one \| (?!saw)/);
    expect(await screen.exit()).toBe(0);
  });

  it("loses no line that is pasted, or typed while an answer comes", about, async () => {
    const asked = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    rack.script(async (request) => {
      asked.resolve();
      if (said(request) === "line one") await held.promise;
      return { content: `heard ${said(request)}.` };
    });
    await using screen = new Terminal();
    await screen.until("> ");
    screen.type("line one\rline two\rline three\r");
    await asked.promise;
    screen.type("line four\r");
    held.resolve();
    for (const line of ["one", "two", "three", "four"]) await screen.until(`heard line ${line}.`);
    expect(await screen.exit()).toBe(0);
  });
});

it("says that the server ended when it does so in the middle of an answer", about, async () => {
  await using workspace = await TemporaryWorkspace.create({ "toolrack.config.js": "export default {};" });
  const env = { OPENAI_BASE_URL: `${rack.mock.url}/v1`, OPENAI_API_KEY: "x" };
  const [file, ...words] = program;
  const server = spawn(file!, [...words, "serve", "--port", "0"], {
    cwd: workspace.directory,
    env: cleanEnvironment(env),
    stdio: "ignore",
  });
  await expect
    .poll(() => existsSync(join(workspace.directory, ".toolrack/server.json")), { timeout: 180_000 })
    .toBe(true);
  rack.script(async () => {
    server.kill("SIGKILL");
    await once(server, "close");
    return { content: "too late" };
  });
  const { code, stderr } = await runCli(["chat", "hi", "--model", "gpt-4o"], {
    cwd: workspace.directory,
    env,
  });
  expect(code).toBe(1);
  expect(stderr).toContain("The server ended in the middle of the answer.");
});

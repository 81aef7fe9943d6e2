import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { LLMock } from "@copilotkit/aimock";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";
import { ServedWorkspace } from "../testing/served-workspace.ts";

const root = resolve(import.meta.dirname, "../../../..");
const answer = "42 km are about 26.1 miles.";
const about = { timeout: 60_000 };

/** The code of the guide's block that has these words. */
function block(page: string, words: string): string {
  const fences = readFileSync(join(root, page), "utf8").matchAll(/^```[^\n]*\n([\s\S]*?)^```$/gm);
  const found = [...fences].map(([, code]) => code!).find((code) => code.includes(words));
  if (found === undefined) throw new Error(`${page} has no block with ${words}`);
  return found;
}
const guide = "docs/guides/chat.md";

/** The guide's provider and its server are at addresses of their own here. */
describe("the guide to chat", () => {
  const mock = new LLMock({ port: 0 });
  let workspace = "";
  let server: ServedWorkspace;
  let url = "";

  beforeAll(async () => {
    await mock.start();
    // Inside the package, so that imports resolve as they do for its own files.
    workspace = mkdtempSync(join(root, "packages/server/.docs-tmp-"));
    const left = new Set(["log", ".toolrack", "node_modules"]);
    cpSync(join(root, "examples/workspace"), workspace, {
      recursive: true,
      filter: (path) => !left.has(basename(path)),
    });
    const config = block(guide, "// toolrack.config.ts");
    const local = "http://127.0.0.1:11434/v1";
    expect(config).toContain(local);
    writeFileSync(join(workspace, "toolrack.config.ts"), config.replace(local, `${mock.url}/v1`));
    server = await ServedWorkspace.here(workspace);
    url = server.url;
  }, 60_000);

  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await mock.stop();
    rmSync(workspace, { recursive: true, force: true });
  });

  /** The model converts with the tool, and says what came of it. */
  function script(): void {
    mock.clearFixtures();
    mock.clearRequests();
    mock.on({ predicate: ({ messages }) => messages.at(-1)?.role === "tool" }, { content: answer });
    mock.on(
      { predicate: () => true },
      { toolCalls: [{ name: "unit_convert", arguments: '{"value":42,"from":"km","to":"mile"}' }] },
    );
  }

  async function run(command: string, args: readonly string[], env: Record<string, string> = {}) {
    // Both outputs go to one place, in the order in which they are written, as on a terminal.
    const child = spawn("sh", ["-c", 'exec "$0" "$@" 2>&1', command, ...args], {
      cwd: workspace,
      env: cleanEnvironment(env),
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [printed, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
    return { printed, code };
  }

  const here = (code: string) => {
    expect(code).toContain("http://127.0.0.1:7300");
    return code.replaceAll("http://127.0.0.1:7300", url);
  };

  it("has an OpenAI client that works", about, async () => {
    script();
    const file = join(workspace, "agent.ts");
    writeFileSync(file, here(block(guide, "// agent.ts")));
    const token = readFileSync(join(workspace, ".toolrack/token"), "utf8").trim();
    const { printed, code } = await run(process.execPath, [file], { TOOLRACK_TOKEN: token });
    expect({ printed, code }).toEqual({ printed: answer, code: 0 });
    expect(mock.getRequests().map(({ body }) => (body as { model: string }).model)).toEqual([
      "qwen3",
      "qwen3",
    ]);
  });

  it("has a client of the Responses API that works", about, async () => {
    script();
    const file = join(workspace, "responses.ts");
    writeFileSync(file, here(block(guide, "// responses.ts")));
    const token = readFileSync(join(workspace, ".toolrack/token"), "utf8").trim();
    const { printed, code } = await run(process.execPath, [file], { TOOLRACK_TOKEN: token });
    expect({ printed, code }).toEqual({ printed: `${answer}\n${answer}\n`, code: 0 });
    expect(JSON.stringify(mock.getRequests().at(-1)?.body)).toContain("How many miles are 42 km?");
  });

  it("has a program that talks without a server", about, async () => {
    script();
    const file = join(workspace, "talk.ts");
    writeFileSync(file, block(guide, "// talk.ts"));
    const { printed, code } = await run(process.execPath, ["--conditions=toolrack-source", file]);
    expect(code, printed).toBe(0);
    expect(printed).toMatch(/26\.09[^\n]*\n42 km are about 26\.1 miles\.\n$/);
  });

  it("has requests that keep a conversation on the server", about, async () => {
    script();
    const beginning = here(block("docs/guides/server.md", "rack() {"));
    const { printed, code } = await run("sh", ["-ec", beginning + block(guide, "SESSION=$(rack")]);
    expect(code, printed).toBe(0);
    expect(printed).toContain(`"text":"${answer}"`);
    expect(printed).toContain("event: turn\n");
    expect(printed).toContain("event: end\n");
    expect(printed).toContain('"title":"Distances"');
    expect(printed.match(/"status":"completed"/g)!.length).toBeGreaterThan(4);
  });

  it("shows what is seen on a terminal", about, async () => {
    script();
    const [typed, ...shown] = block(guide, "$ toolrack chat").split("\n");
    const bin = join(workspace, "bin");
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, "toolrack"), `#!/bin/sh\nexec ${program.join(" ")} "$@"\n`, { mode: 0o755 });
    const path = { PATH: `${bin}:${process.env.PATH}` };
    const { printed } = await run("sh", ["-c", typed!.replace(/^\$ /, "")], path);
    const withoutTimes = (lines: string) => lines.replaceAll(/[\d.]+ ms/g, "3 ms");
    expect(withoutTimes(printed)).toBe(withoutTimes(shown.join("\n")));
  });

  it("writes a call as a model without tool calls would", about, async () => {
    mock.clearFixtures();
    mock.clearRequests();
    mock.on(
      { predicate: ({ messages }) => JSON.stringify(messages.at(-1)).includes("<tool_output") },
      { content: answer },
    );
    mock.on({ predicate: ({ model }) => model === "llama2" }, { content: block(guide, "<tool_action") });
    const token = readFileSync(join(workspace, ".toolrack/token"), "utf8").trim();
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "llama2", messages: [{ role: "user", content: "42 km in miles?" }] }),
    });
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: answer } }] });
    expect(JSON.stringify(mock.getRequests().at(-1)?.body)).toContain("26.09");
  });
});

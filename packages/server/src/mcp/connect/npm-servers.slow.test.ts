import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client, ProtocolError } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { type CallClient, toMcpResult } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { CallBook } from "../../calls/call-book.ts";
import { RACKS } from "../../calls/rack-identity.ts";
import type { RackItem } from "../../config/tool-patterns.ts";
import { inheritedBeside } from "./config/resolve-entry.ts";
import { MARK } from "./process/processes.ts";
import { installedProgram } from "./process/server-files.ts";

import { allCapabilities } from "./protocol/questions.ts";
import { installNpmServers, npmServers, packages } from "./testing/npm-servers.fixture.ts";
import { everybody, processesWith, UpstreamRack } from "./testing/upstream-rack.fixture.ts";

const missing = await installNpmServers();
if (missing !== undefined) console.warn(missing);

const entryOf = (name: keyof typeof npmServers, args: readonly string[] = [], more: object = {}) => ({
  args,
  toolrack: { install: npmServers[name] },
  ...more,
});

/** What whoever calls answers to questions, directly and through the rack. */
const answers: Readonly<Record<string, object>> = {
  "elicitation/create": { action: "accept", content: { name: "Ada", check: true, integer: 7 } },
  "sampling/createMessage": {
    role: "assistant",
    model: "test",
    content: { type: "text", text: "a sampled answer" },
  },
  "roots/list": { roots: [{ uri: "file:///somewhere" }] },
};

const client: CallClient = {
  can: () => true,
  request: async (method) => answers[method],
  notify() {},
};

describe.skipIf(missing !== undefined)("real servers", { timeout: 120_000 }, () => {
  it("that keep state show no caller what another one left there, where their entries say so", async () => {
    await using rack = await UpstreamRack.create();
    const book = new CallBook(rack.registry);
    const isolated = (name: keyof typeof npmServers, env: object = {}) => ({
      env,
      toolrack: { install: npmServers[name], isolation: "token" },
    });
    await rack.open(
      {
        thinking: isolated("thinking"),
        // It keeps what it is told in a file, which each token must have to itself.
        memory: isolated("memory", { MEMORY_FILE_PATH: join(rack.directory, `memory-\${callerId}.json`) }),
      },
      { packages, originOf: (callId) => book.originOf(callId) },
    );
    for (const key of ["thinking", "memory"]) await rack.until(key, "ready");
    const think = async (caller: string) => {
      const input = { thought: "t", nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 3 };
      const { content } = await rack.call("mcp_thinking_sequentialthinking", input, { caller });
      return JSON.parse(content).thoughtHistoryLength;
    };
    expect([await think("ann"), await think("ann"), await think("ben")]).toEqual([1, 2, 1]);
    const entities = [{ name: "Ada", entityType: "person", observations: ["of ann"] }];
    await rack.call("mcp_memory_create_entities", { entities }, { caller: "ann" });
    expect((await rack.call("mcp_memory_read_graph", {}, { caller: "ann" })).content).toContain("of ann");
    expect((await rack.call("mcp_memory_read_graph", {}, { caller: "ben" })).content).not.toContain("of ann");
    book.close();
  });

  it("all work beside each other, one that dies and one that hangs included", async () => {
    await using rack = await UpstreamRack.create();
    const files = join(rack.directory, "files");
    await mkdir(files);
    await writeFile(join(files, "greeting.txt"), "hello from a file");
    await rack.open(
      {
        everything: entryOf("everything", ["stdio"]),
        files: entryOf("filesystem", [files]),
        memory: entryOf("memory", [], { env: { MEMORY_FILE_PATH: join(rack.directory, "memory.json") } }),
        thinking: entryOf("thinking"),
        hello: entryOf("hello"),
        context7: entryOf("context7"),
        dies: {
          command: process.execPath,
          args: ["-e", "console.error('no network here'); process.exit(1)"],
        },
        hangs: {
          command: process.execPath,
          args: ["-e", "setInterval(() => {}, 1000)"],
          toolrack: { limits: { connect: 3_000 } },
        },
      },
      { packages },
    );
    for (const key of ["everything", "files", "memory", "thinking", "hello", "context7"]) {
      await rack.until(key, "ready");
    }
    expect(Object.fromEntries(rack.servers.list().map(({ key, era }) => [key, era]))).toMatchObject({
      everything: "legacy",
      context7: "modern",
    });
    expect(rack.servers.list().flatMap(({ refused }) => refused)).toEqual([]);
    // Two servers have a tool of this name.
    expect(await rack.call("mcp_everything_echo", { message: "a" })).toMatchObject({ content: "Echo: a" });
    expect((await rack.call("mcp_hello_echo", { message: "b" })).content).toMatch(/b/);
    expect(await rack.call("mcp_files_read_text_file", { path: join(files, "greeting.txt") })).toMatchObject({
      content: "hello from a file",
      structured: { content: "hello from a file" },
    });
    const entities = [{ name: "Toolrack", entityType: "program", observations: ["runs tools"] }];
    expect(await rack.call("mcp_memory_create_entities", { entities })).toMatchObject({ type: "json" });
    expect((await rack.call("mcp_memory_read_graph")).structured).toMatchObject({ entities });
    const thought = { thought: "one", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 };
    expect((await rack.call("mcp_thinking_sequentialthinking", thought)).type).not.toBe("error");
    await rack.until("hangs", "backoff");
    await rack.eventually(
      () => ["backoff", "starting"].includes(rack.servers.get("dies").state),
      "it was tried",
    );
  });

  it("through the rack, every tool of server-everything answers as it does directly", async () => {
    await using rack = await UpstreamRack.create();
    // The server asks for roots when it starts, before anybody has called it.
    const toolrack = { install: npmServers.everything, roots: ["file:///somewhere"] };
    await rack.open({ everything: { args: ["stdio"], toolrack } }, { packages });
    await rack.until("everything", "ready");
    const direct = await connectDirectly();
    const { tools } = await direct.listTools();
    expect(rack.servers.tools("everything").map(({ name }) => name)).toEqual(tools.map(({ name }) => name));
    for (const { name } of tools) {
      const input = inputs[name];
      expect(input, `what ${name} is called with`).toBeDefined();
      const expected = await callDirectly(direct, name, input!);
      const result = await rack.call(`mcp_everything_${name}`, input, { client });
      if (name === "simulate-research-query") {
        // The SDK's client cannot call it; the rack follows its task.
        expect(result.content, name).toMatch(/^# Research Report: tools\n/);
      } else if (expected instanceof ProtocolError) {
        expect(result.content, name).toContain(expected.message);
      } else {
        expect(comparable(toMcpResult(result)), name).toEqual(comparable(expected));
      }
    }
    await direct.close();
  });

  it("a tool that is worked on as a task asks, reports and can be given up", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ everything: entryOf("everything", ["stdio"]) }, { packages });
    await rack.until("everything", "ready");
    const reports: unknown[] = [];
    rack.registry.subscribe((event) => {
      if (event.type === "progress") reports.push(event.update.message);
    });
    const name = "mcp_everything_simulate-research-query";
    const input = { topic: "python", ambiguous: true };
    const interpretation = "snake";
    const request: CallClient["request"] = async () => ({ action: "accept", content: { interpretation } });
    const { content } = await rack.call(name, input, { client: { ...client, request } });
    expect(content).toMatch(/^# Research Report: python \(snake\)/);
    expect(reports).toContainEqual(expect.stringMatching(/^Found multiple interpretations for "python"/));
    expect((await rack.call(name, { topic: "tools" }, { timeout: 1_500 })).error?.code).toBe("timed_out");
    await rack.eventually(() => rack.servers.get("everything").inFlight === 0, "its place is free");
    expect(rack.servers.get("everything").state).toBe("ready");
  });

  it("a link in a result can be read at once", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ everything: entryOf("everything", ["stdio"]) }, { packages });
    await rack.until("everything", "ready");
    const input = { name: "b.txt.gz", data: "data:text/plain,hello", outputType: "resourceLink" };
    const result = toMcpResult(await rack.call("mcp_everything_gzip-file-as-resource", input));
    const [uri = ""] = result.content.flatMap((block) =>
      block.type === "resource_link" ? [String(block.uri)] : [],
    );
    const read = await rack.offerings.readResource(uri, everybody);
    expect(read?.contents[0]).toMatchObject({ uri, blob: expect.any(String) });
  });

  it("prompts, resources, templates and completion pass through", async () => {
    await using rack = await UpstreamRack.create();
    await rack.open({ everything: entryOf("everything", ["stdio"]) }, { packages });
    await rack.until("everything", "ready");
    const reader = { caller: "test", mayUse: () => true, client, signal: new AbortController().signal };
    const prompts = await rack.offerings.prompts(reader);
    expect(prompts.map(({ name }) => name)).toContain("mcp_everything_simple-prompt");
    const prompt = await rack.offerings.getPrompt("mcp_everything_simple-prompt", {}, reader);
    expect(prompt?.messages[0]).toMatchObject({ role: "user" });
    const [resource] = await rack.offerings.resources(reader);
    const read = await rack.offerings.readResource(resource!.uri, reader);
    expect(read?.contents[0]).toMatchObject({ uri: resource!.uri });
    const templates = await rack.offerings.resourceTemplates(reader);
    expect(templates.length).toBeGreaterThan(0);
    const uri = templates[0]!.uriTemplate.replace(/\{\w+\}/, "1");
    expect((await rack.offerings.readResource(uri, reader))?.contents).toHaveLength(1);
    const completable = prompts.find(({ name }) => name.includes("complet"));
    const completion = await rack.offerings.complete(
      {
        ref: { type: "ref/prompt", name: completable!.name },
        argument: { name: completable!.arguments![0]!.name, value: "" },
        others: {},
      },
      reader,
    );
    expect(completion?.values.length).toBeGreaterThan(0);
    // Who may not use the server's tools does not see its prompts either.
    const stranger = { ...reader, mayUse: ({ name }: RackItem) => !name.startsWith("mcp_everything") };
    expect(await rack.offerings.prompts(stranger)).toEqual([]);
    expect(await rack.offerings.readResource(resource!.uri, stranger)).toBeUndefined();
  });

  it("killed in the middle of a call fails the call, recovers, and leaves no process", async () => {
    await using rack = await UpstreamRack.create();
    const value = crypto.randomUUID();
    await rack.open(
      { everything: entryOf("everything", ["stdio"], { env: { KILL_TEST: value } }) },
      { packages },
    );
    await rack.until("everything", "ready");
    const { pid } = rack.servers.get("everything");
    const progress: unknown[] = [];
    const { promise: reported, resolve } = Promise.withResolvers<void>();
    rack.registry.subscribe((event) => {
      if (event.type !== "progress") return;
      progress.push(event.update);
      resolve();
    });
    const running = rack.call("mcp_everything_trigger-long-running-operation", { duration: 30, steps: 300 });
    await reported;
    process.kill(pid!, "SIGKILL");
    const killed = performance.now();
    expect(await running).toMatchObject({ type: "error", content: expect.stringMatching(/SIGKILL/) });
    // The operation itself would have taken half a minute.
    expect(performance.now() - killed).toBeLessThan(15_000);
    await rack.until("everything", "ready");
    expect(await rack.call("mcp_everything_echo", { message: "back" })).toMatchObject({
      content: "Echo: back",
    });
    await rack.servers.close();
    expect(await processesWith(`KILL_TEST=${value}`)).toEqual([]);
  });
});

const inputs: Readonly<Record<string, Record<string, unknown>>> = {
  echo: { message: "你好 😀" },
  "get-annotated-message": { messageType: "error", includeImage: true },
  "get-env": {},
  "get-resource-links": { count: 3 },
  "get-resource-reference": { resourceType: "Text", resourceId: 1 },
  "get-structured-content": { location: "Chicago" },
  "get-sum": { a: 2, b: 40 },
  "get-tiny-image": {},
  "gzip-file-as-resource": { name: "a.txt.gz", data: "data:text/plain,hello", outputType: "resource" },
  "toggle-simulated-logging": {},
  "toggle-subscriber-updates": {},
  "trigger-long-running-operation": { duration: 0.2, steps: 2 },
  "get-roots-list": {},
  "trigger-elicitation-request": {},
  "trigger-url-elicitation": { url: "https://example.com/login" },
  "trigger-sampling-request": { prompt: "hi", maxTokens: 10 },
  "simulate-research-query": { topic: "tools" },
};

async function connectDirectly(): Promise<Client> {
  const program = await installedProgram(packages, npmServers.everything, "test");
  const direct = new Client({ name: "direct", version: "1" }, { capabilities: allCapabilities });
  // The SDK wants the handlers one by one, with the types of each; the answers are those of the rack's caller.
  direct.setRequestHandler("elicitation/create", () => answers["elicitation/create"] as never);
  direct.setRequestHandler("sampling/createMessage", () => answers["sampling/createMessage"] as never);
  direct.setRequestHandler("roots/list", () => answers["roots/list"] as never);
  const env = inheritedBeside({}, process.env);
  await direct.connect(
    new StdioClientTransport({ command: process.execPath, args: [program, "stdio"], env, stderr: "ignore" }),
  );
  return direct;
}

async function callDirectly(direct: Client, name: string, input: Record<string, unknown>): Promise<unknown> {
  try {
    return await direct.callTool({ name, arguments: input });
  } catch (thrown) {
    if (thrown instanceof ProtocolError) return thrown;
    throw thrown;
  }
}

/**
 * What differs between any two runs is put aside: times, ids, the order of variables, and the mark by which the rack
 * finds its processes. Of a failed call the rack tells more, in a member of its own.
 */
function comparable(result: unknown): unknown {
  const { _meta: { "toolrack/error": _, ...meta } = {}, ...rest } = result as {
    _meta?: Record<string, unknown>;
  };
  const text = JSON.stringify({ ...rest, ...(Object.keys(meta).length === 0 ? {} : { _meta: meta }) })
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z|\d+:\d\d:\d\d [AP]M/g, "TIME")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "ID");
  return JSON.parse(text, (key, value) => (key === "text" ? asVariables(value) : value));
}

function asVariables(text: string): unknown {
  if (!text.includes('"PATH"')) return text;
  const { [MARK]: _, [RACKS]: __, ...variables } = JSON.parse(text);
  return variables;
}

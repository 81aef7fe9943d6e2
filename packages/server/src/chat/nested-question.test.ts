import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Tool, type ToolMetadata } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanEnvironment, program } from "../cli/testing/spawn-cli.ts";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

/** A tool that notes something, and then calls a dangerous one. */
const tidy = (metadata: ToolMetadata, then: (what: string) => string = (what) => what) =>
  Tool.define({
    name: "tidy",
    description: "Tidies up.",
    parameters: z.object({ what: z.string() }),
    metadata,
    execute: async ({ input, call }) => {
      await call("write", { text: `tidying ${input.what}` });
      const { content } = await call("wipe", { what: then(input.what) });
      return `tidied: ${content}`;
    },
  });

const lastOf = async (rack: ChatRack, session: string) =>
  (await rack.ask(`/api/chat/sessions/${session}`)).messages.at(-1);
const ended = (rack: ChatRack, session: string) =>
  expect.poll(() => lastOf(rack, session), { timeout: 20_000 });
const ran = (rack: ChatRack) => rack.ran.map(({ input }) => input.text ?? input.what);
const answers = (rack: ChatRack) => answersIn(rack.requests.at(-1)).map(({ content }) => content);

/** A model that tidies up once. */
function script(rack: ChatRack): void {
  rack.script((request) =>
    answersIn(request).length === 0 ? called(["tidy", { what: "all" }]) : { content: "done" },
  );
}

async function askedThenRestarted(rack: ChatRack): Promise<{ session: string; approval: string }> {
  const session = await rack.session();
  const { data } = await (await rack.stream(session, "go")).until("approval");
  await rack.serving.close();
  await rack.open();
  return { session, approval: data.approval.id };
}

describe("a question of a tool that another tool calls", { timeout: 60_000 }, () => {
  it("stays open over a restart, and the outer tool is run again when somebody agrees", async () => {
    await using rack = await ChatRack.start({ tools: [tidy({ idempotent: true })] });
    script(rack);
    const { session, approval } = await askedThenRestarted(rack);
    expect((await rack.ask(`/api/approvals/${approval}`)).state).toBe("pending");
    expect(await lastOf(rack, session)).toMatchObject({ status: "running" });
    await rack.ask(`/api/approvals/${approval}`, { body: { decision: "allow" } });
    await ended(rack, session).toMatchObject({ status: "completed" });
    expect(ran(rack)).toEqual(["tidying all", "tidying all", "all"]);
    expect(answers(rack)).toEqual(["tidied: wiped all"]);
    expect((await rack.serving.store.approvals.list({})).items).toHaveLength(1);
    const { callId } = (await lastOf(rack, session)).parts[0];
    expect(await rack.serving.store.calls.get(callId)).toMatchObject({
      outcome: "completed",
      toolName: "tidy",
    });
  });

  it("counts for the same arguments only, and is asked again for others", async () => {
    let round = 0;
    await using rack = await ChatRack.start({
      tools: [tidy({ readOnly: true }, (what) => `${what} ${++round}`)],
    });
    script(rack);
    const { session, approval } = await askedThenRestarted(rack);
    await rack.ask(`/api/approvals/${approval}`, { body: { decision: "allow" } });
    const open = () =>
      rack.ask("/api/approvals").then(({ items }) => items.filter(({ state }: never) => state === "pending"));
    await expect.poll(async () => (await open()).length, { timeout: 20_000 }).toBe(1);
    const [again] = await open();
    expect(again).toMatchObject({ toolName: "wipe", input: { what: "all 2" } });
    await rack.ask(`/api/approvals/${again.id}`, { body: { decision: "allow" } });
    await ended(rack, session).toMatchObject({ status: "completed" });
    expect(ran(rack)).toEqual(["tidying all", "tidying all", "all 2"]);
  });

  it("leaves no question behind that could be answered in vain", async () => {
    const both = Tool.define({
      name: "tidy",
      description: "Tidies up.",
      parameters: z.object({ what: z.string() }),
      metadata: { idempotent: true },
      execute: async ({ call }) => {
        const made = await Promise.all(["left", "right"].map((what) => call("wipe", { what })));
        return made.map(({ content }) => content).join(", ");
      },
    });
    await using rack = await ChatRack.start({ tools: [both] });
    script(rack);
    const pending = async () => (await rack.ask("/api/approvals")).items;
    const session = await rack.session();
    await rack.stream(session, "go");
    await expect.poll(async () => (await pending()).length, { timeout: 20_000 }).toBe(2);
    await rack.serving.close();
    await rack.open();
    const asked = await pending();
    expect(asked).toHaveLength(2);
    // Whichever is answered first decides that the outer tool is run again, which asks about the other anew.
    for (const { id } of asked) await rack.ask(`/api/approvals/${id}`, { body: { decision: "allow" } });
    await expect
      .poll(
        async () => {
          for (const { id } of await pending())
            await rack.ask(`/api/approvals/${id}`, { body: { decision: "allow" } });
          return (await lastOf(rack, session)).status;
        },
        { timeout: 20_000 },
      )
      .toBe("completed");
    expect(ran(rack).toSorted()).toEqual(["left", "right"]);
    expect(answers(rack)).toEqual(["wiped left, wiped right"]);
    expect(await pending()).toEqual([]);
  });

  it("runs nothing when somebody says no, and tells the model what was done", async () => {
    await using rack = await ChatRack.start({ tools: [tidy({ idempotent: true })] });
    script(rack);
    const { session, approval } = await askedThenRestarted(rack);
    await rack.ask(`/api/approvals/${approval}`, { body: { decision: "deny", reason: "keep it" } });
    await ended(rack, session).toMatchObject({ status: "completed" });
    expect(ran(rack)).toEqual(["tidying all"]);
    expect(answers(rack)).toMatchInlineSnapshot(`
      [
        ""tidy" was interrupted: the server ended while it waited for consent to call "wipe", and a person said no (keep it). Of the calls that it had made: "write" was completed; "wipe" was not run, because nobody had agreed to it. Whether it did anything else is not known. Check before you call it again.",
      ]
    `);
  });

  it("stays open when the tool was called through toolrack_call, which does nothing else", async () => {
    await using rack = await ChatRack.start({ chat: { toolBudget: 1 } });
    rack.script((request) =>
      answersIn(request).length === 0
        ? called(["toolrack_call", { name: "wipe", arguments: { what: "all" } }])
        : { content: "done" },
    );
    const { session, approval } = await askedThenRestarted(rack);
    await rack.ask(`/api/approvals/${approval}`, { body: { decision: "allow" } });
    await ended(rack, session).toMatchObject({ status: "completed" });
    expect(ran(rack)).toEqual(["all"]);
    expect(answers(rack)).toEqual(["wiped all"]);
  });

  it("is withdrawn when running the outer tool again could do something twice", async () => {
    await using rack = await ChatRack.start({ tools: [tidy({})] });
    script(rack);
    const { session, approval } = await askedThenRestarted(rack);
    expect(await rack.ask(`/api/approvals/${approval}`)).toMatchObject({
      state: "denied",
      reason: "the server is stopping",
    });
    const { status, parts } = await lastOf(rack, session);
    expect(status).toBe("interrupted");
    expect(parts[0].state).toMatchObject({ status: "error" });
    expect(parts[0].state.error).toContain("the server is stopping");
    expect(ran(rack)).toEqual(["tidying all"]);
  });

  it("is withdrawn when the process was killed, and the model reads what was done and what was not", async () => {
    await using rack = await ChatRack.start({
      files: {
        "tools/tidy.js": `
import { Tool } from "@toolrack/core";
const none = { type: "object", properties: {} };
export const jot = Tool.define({ name: "jot", description: "Notes.", parameters: none, execute: async () => "noted" });
export const erase = Tool.define({ name: "erase", description: "Erases.", parameters: none, metadata: { dangerous: true },
  execute: async () => "erased" });
export const sweep = Tool.define({ name: "sweep", description: "Sweeps.", parameters: none,
  execute: async ({ call }) => { await call("jot", {}); await call("erase", {}); return "swept"; } });
`,
      },
    });
    await rack.serving.close();
    rack.script((request) =>
      answersIn(request).length === 0 ? called(["sweep", {}]) : { content: "I see" },
    );
    const { session, approval } = await killedWhileAsking(rack);
    await rack.open();
    expect(await rack.ask(`/api/approvals/${approval}`)).toMatchObject({ state: "denied" });
    expect(await lastOf(rack, session)).toMatchObject({ status: "interrupted" });
    await rack.say(session, "What happened?");
    expect(answers(rack)).toMatchInlineSnapshot(`
      [
        ""sweep" was interrupted: the server ended while it ran. Of the calls that it had made: "jot" was completed; "erase" was not run, because nobody had agreed to it. Whether it did anything else is not known. Check before you call it again.",
      ]
    `);
  });
});

/** Serves the workspace in a process of its own, which is killed once the model's call asks a person. */
async function killedWhileAsking({ workspace }: ChatRack): Promise<{ session: string; approval: string }> {
  const [file, ...words] = program;
  const child = spawn(file!, [...words, "serve", "--port", "0", "--json", "--no-watch"], {
    cwd: workspace.directory,
    env: cleanEnvironment(),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(createInterface(child.stdout), "line");
  child.stdout.resume();
  const token = readFileSync(join(workspace.directory, ".toolrack/token"), "utf8").trim();
  const ask = async (path: string, body?: unknown) => {
    const response = await fetch(JSON.parse(line).url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
    return response.json() as Promise<any>;
  };
  const { id: session } = await ask("/api/chat/sessions", {});
  const lost = ask(`/api/chat/sessions/${session}/messages`, { content: "go" }).catch(() => "lost");
  await expect.poll(async () => (await ask("/api/approvals")).items.length, { timeout: 20_000 }).toBe(1);
  const [{ id: approval }] = (await ask("/api/approvals")).items;
  child.kill("SIGKILL");
  await once(child, "close");
  expect(await lost).toBe("lost");
  return { session, approval };
}

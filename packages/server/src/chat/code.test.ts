import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { files, paying } from "../code/noted-runs.fixture.ts";
import { ServedWorkspace } from "../testing/served-workspace.ts";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

/** A model that runs code which notes, pays after consent, and notes again. */
async function start(): Promise<ChatRack> {
  const rack = await ChatRack.start({
    config: { code: { mode: "on" }, approvals: { timeout: 600_000 } },
    files: { "tools/tools.ts": files["tools/tools.ts"] },
  });
  rack.script((request) =>
    answersIn(request).length === 0
      ? called(["toolrack_run", { code: paying }, "run_1"])
      : { content: "it is paid" },
  );
  return rack;
}

const ran = async ({ workspace: { directory } }: ChatRack) =>
  (await readFile(join(directory, "ran.txt"), "utf8")).trim().split("\n").toSorted();
const each = ["note 1", "note 1", "note 2", "note 3", "note 5", "pay 4"];

/** What the model read of its run, as JSON. */
const told = (rack: ChatRack) => JSON.parse(answersIn(rack.requests.at(-1))[0].content);

const question = async (rack: ChatRack) => {
  const items = async () => (await rack.ask("/api/approvals?state=pending")).items;
  await expect.poll(async () => (await items()).length, { timeout: 20_000 }).toBe(1);
  return (await items())[0];
};
const lastOf = async (rack: ChatRack, session: string) =>
  (await rack.ask(`/api/chat/sessions/${session}`)).messages.at(-1);
const ended = (rack: ChatRack, session: string) =>
  expect.poll(() => lastOf(rack, session), { timeout: 30_000 });
const allow = (rack: ChatRack, id: string) =>
  rack.ask(`/api/approvals/${id}`, { body: { decision: "allow" } });

/** Expects that the records have the run and the six calls that it made. */
async function expectChildren(rack: ChatRack, run: string): Promise<void> {
  const { items } = await rack.ask(`/api/calls?root=${run}`);
  expect(
    items.map(({ toolName, parentCallId = "", status }: Record<string, string>) => [
      toolName,
      parentCallId,
      status,
    ]),
  ).toEqual(
    expect.arrayContaining([
      ["toolrack_run", "", "completed"],
      ["note", run, "completed"],
      ["pay", run, "completed"],
    ]),
  );
  expect(items).toHaveLength(7);
}

describe("code that a model runs in a chat", { timeout: 60_000 }, () => {
  it("asks the person in the stored session, and its calls are recorded below it", async () => {
    await using rack = await start();
    const session = await rack.session();
    const reader = await rack.stream(session, "pay it");
    const { data } = await reader.until("approval");
    expect(data.approval).toMatchObject({ toolName: "pay", state: "pending" });
    const { run } = await question(rack);
    expect(run).toMatchObject({ code: paying, line: 4 });
    await allow(rack, data.approval.id);
    await ended(rack, session).toMatchObject({ status: "completed" });
    expect(told(rack)).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
    expect(await ran(rack)).toEqual(each);
    const [part] = (await lastOf(rack, session)).parts;
    expect(part.callId).toBe(run.callId);
    await expectChildren(rack, run.callId);
  });

  it("asks the operator in a request to /v1/chat/completions, which waits for the answer", async () => {
    await using rack = await start();
    const answering = rack
      .client()
      .chat.completions.create({ model: "model-a", messages: [{ role: "user", content: "pay it" }] });
    const { id, run } = await question(rack);
    expect(run).toMatchObject({ code: paying, line: 4 });
    await allow(rack, id);
    expect((await answering).choices[0]?.message.content).toContain("it is paid");
    expect(told(rack)).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
    expect(await ran(rack)).toEqual(each);
    await expectChildren(rack, run.callId);
  });

  it("goes on after the server was stopped and started, with the question open, and so does its turn", async () => {
    await using rack = await start();
    const session = await rack.session();
    const { data } = await (await rack.stream(session, "pay it")).until("approval");
    const { run } = await question(rack);
    await rack.serving.close();
    await rack.open();
    expect((await question(rack)).id).toBe(data.approval.id);
    expect(await lastOf(rack, session)).toMatchObject({ status: "running" });
    await allow(rack, data.approval.id);
    await ended(rack, session).toMatchObject({ status: "completed" });
    expect(told(rack)).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
    expect(await ran(rack)).toEqual(each);
    await expectChildren(rack, run.callId);
  });

  it("goes on after kill -9, and so does its turn", async () => {
    await using rack = await start();
    await rack.serving.close();
    const served = await ServedWorkspace.start(rack.workspace.directory);
    const session = (await served.ask("POST", "/api/chat/sessions", {})).body.id;
    const lost = served
      .ask("POST", `/api/chat/sessions/${session}/messages`, { content: "pay it" })
      .catch(() => "lost");
    const open = async () => (await served.ask("GET", "/api/approvals")).body.items;
    await expect.poll(async () => (await open()).length, { timeout: 20_000 }).toBe(1);
    // The note beside the payment: of a call that ended without a record, nobody knows what it did.
    const noted = async () => (await served.ask("GET", "/api/calls?tool=note&status=completed")).body.items;
    await expect.poll(async () => (await noted()).length, { timeout: 20_000 }).toBe(4);
    await served.end("SIGKILL");
    expect(await lost).toBe("lost");
    await rack.open();
    const { id, run } = await question(rack);
    await allow(rack, id);
    await ended(rack, session).toMatchObject({ status: "completed" });
    expect(told(rack)).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
    expect(await ran(rack)).toEqual(each);
    await expectChildren(rack, run.callId);
  });

  it("reads that a person refused after the restart, and can say so", async () => {
    await using rack = await start();
    const session = await rack.session();
    const { data } = await (await rack.stream(session, "pay it")).until("approval");
    await rack.serving.close();
    await rack.open();
    const { id } = await question(rack);
    expect(id).toBe(data.approval.id);
    await rack.ask(`/api/approvals/${id}`, { body: { decision: "deny", reason: "too dear" } });
    await ended(rack, session).toMatchObject({ status: "completed" });
    const [{ content }] = answersIn(rack.requests.at(-1));
    expect(content).toContain("Line 4: a tool failed (approval_denied)");
    expect(content).toContain("too dear");
    expect(await ran(rack)).not.toContain("pay 4");
  });

  it("is cancelled with its question when the person stops the turn after the restart", async () => {
    await using rack = await start();
    const session = await rack.session();
    const { data } = await (await rack.stream(session, "pay it")).until("approval");
    await rack.serving.close();
    await rack.open();
    const { run } = await question(rack);
    await rack.ask(`/api/chat/sessions/${session}/stop`, { method: "POST" });
    await ended(rack, session).toMatchObject({ status: "stopped" });
    const state = async () => (await rack.ask(`/api/approvals/${data.approval.id}`)).state;
    await expect.poll(state, { timeout: 20_000 }).not.toBe("pending");
    await expect
      .poll(async () => (await rack.ask(`/api/calls/${run.callId}`)).status, { timeout: 20_000 })
      .toBe("cancelled");
    expect(await ran(rack)).not.toContain("pay 4");
  });

  it("goes on when the server of a request to /v1/chat/completions stopped, whose sender is told", async () => {
    await using rack = await start();
    const body = { messages: [{ role: "user", content: "pay it" }], stream: true };
    const first = await rack.fetch("/v1/chat/completions", { body });
    const { id, run } = await question(rack);
    await rack.serving.close();
    expect(await first.text()).toContain("The server stopped");
    await rack.open();
    await allow(rack, id);
    await expect
      .poll(async () => (await rack.ask(`/api/calls/${run.callId}`)).status, { timeout: 20_000 })
      .toBe("completed");
    expect(await ran(rack)).toEqual(each);
  });
});

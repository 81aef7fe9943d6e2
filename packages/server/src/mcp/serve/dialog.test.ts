import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { ClientDialog } from "./dialog.ts";
import { WriteFlow } from "./writer.ts";

const wants = { progress: true, messages: true };

function running() {
  const { promise, resolve } = Promise.withResolvers<string>();
  const dialog = new ClientDialog<string>({ peer: { abilities: {} }, wants }, "s").start(() => promise);
  return { dialog, end: () => resolve("done") };
}

test("a flood of progress leaves the latest, and what was said before it", async () => {
  const { dialog, end } = running();
  for (let progress = 1; progress <= 100_000; progress++) dialog.progress({ progress });
  const step = await dialog.next();
  const notices = step.kind === "says" ? step.notices : [];
  expect(notices.length).toBeLessThanOrEqual(100);
  expect(notices.at(-1)).toEqual({ kind: "progress", update: { progress: 100_000 } });
  end();
  expect(await dialog.next()).toEqual({ kind: "ended", result: "done" });
});

test("a flood of messages is cut off, and the client is told how much of it is missing", async () => {
  const { dialog, end } = running();
  const say = (data: number) => dialog.notify("notifications/message", { level: "info", data });
  for (let count = 0; count < 5_000; count++) say(count);
  dialog.progress({ progress: 1 });
  end();
  const step = await dialog.next();
  const notices = step.kind === "says" ? step.notices : [];
  expect(notices).toHaveLength(102);
  expect(notices[0]).toMatchObject({ kind: "message", params: { data: 0 } });
  expect(notices.at(-1)).toMatchObject({
    params: { level: "warning", data: expect.stringContaining("4900 messages were left out") },
  });
  expect(await dialog.next()).toEqual({ kind: "ended", result: "done" });
});

test("a call that asks many questions leaves nothing of them at its signal", async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const abilities = { elicitation: {} };
  const dialog = new ClientDialog<string>({ peer: { abilities }, wants }, "s").start(() => promise);
  const { signal } = new AbortController();
  for (let at = 0; at < 20; at++) {
    const asked = dialog.request("elicitation/create", { message: "Go on?" }, signal);
    const step = await dialog.next();
    const [question] = step.kind === "asks" ? step.questions : [];
    if (at % 2 === 0) dialog.questions.answer(question!.key, { action: "decline" });
    else dialog.questions.refuse(question!.key, new Error("nobody is there"));
    await asked.catch(() => {});
  }
  expect(getEventListeners(signal, "abort")).toEqual([]);
  resolve("done");
});

test("what is said waits for a client that does not read, and the latest of it is told; the end does not wait", async () => {
  let isFull = true;
  const flow = new WriteFlow(() => isFull);
  const { dialog, end } = running();
  const message = "x".repeat(100_000);
  const next = dialog.next(flow);
  for (let progress = 1; progress <= 50; progress++) dialog.progress({ progress, message });
  expect(await Promise.race([next, new Promise((resolve) => setImmediate(resolve, "waits"))])).toBe("waits");
  isFull = false;
  flow.freed();
  const step = await next;
  const notices = step.kind === "says" ? step.notices : [];
  expect(notices.length).toBeLessThan(5);
  expect(notices.at(-1)).toEqual({ kind: "progress", update: { progress: 50, message } });
  isFull = true;
  dialog.progress({ progress: 51 });
  end();
  expect(await dialog.next(flow)).toMatchObject({
    kind: "says",
    notices: [{ update: { progress: 51 } }],
  });
  expect(await dialog.next(flow)).toEqual({ kind: "ended", result: "done" });
});

test("a question does not wait for a client that does not read", async () => {
  const flow = new WriteFlow(() => true);
  const { promise, resolve } = Promise.withResolvers<string>();
  const abilities = { elicitation: {} };
  const dialog = new ClientDialog<string>({ peer: { abilities }, wants }, "s").start(() => promise);
  dialog.progress({ progress: 1 });
  const { signal } = new AbortController();
  const asked = dialog.request("elicitation/create", { message: "Go on?" }, signal);
  const step = await dialog.next(flow);
  expect(step.kind).toBe("asks");
  dialog.questions.refuse("elicitation-1", new Error("nobody is there"));
  await asked.catch(() => {});
  resolve("done");
});

test("no two open questions have one key, and an asker may use its key again", async () => {
  const { promise } = Promise.withResolvers<string>();
  const abilities = { elicitation: {} };
  const dialog = new ClientDialog<string>({ peer: { abilities }, wants }, "s").start(() => promise);
  const { signal } = new AbortController();
  const ask = (key: string) =>
    dialog.request("elicitation/create", { message: "Who?", _meta: { "toolrack/key": key } }, signal);
  const keys: string[] = [];
  for (const key of ["elicitation-1", "name", "name", ""]) {
    const asked = ask(key);
    keys.push(...dialog.open.map((question) => question.key));
    dialog.questions.answer(keys.at(-1)!, { action: "decline" });
    await asked;
  }
  expect(keys).toEqual(["elicitation-1", "name", "name", "elicitation-2"]);
  void ask("name");
  void ask("name");
  expect(dialog.open.map((question) => question.key)).toEqual(["name", "elicitation-3"]);
});

test("what is asked anew is the same question, and is withdrawn and answered as such", async () => {
  const { promise } = Promise.withResolvers<string>();
  const abilities = { elicitation: {} };
  const dialog = new ClientDialog<string>({ peer: { abilities }, wants }, "s").start(() => promise);
  const gone = new AbortController();
  const withdrawn = dialog.request("elicitation/create", { message: "One?" }, gone.signal);
  const answered = dialog.request("elicitation/create", { message: "Two?" }, new AbortController().signal);
  dialog.questions.askAnew("elicitation-1");
  dialog.questions.askAnew("elicitation-2");
  dialog.questions.askAnew("elicitation-2");
  expect(dialog.open.map(({ key, params }) => [key, params])).toEqual([
    ["elicitation-3", { message: "One?" }],
    ["elicitation-4", { message: "Two?" }],
  ]);
  const step = await dialog.next();
  expect(step).toMatchObject({
    kind: "asks",
    questions: [{ key: "elicitation-3" }, { key: "elicitation-4" }],
  });
  gone.abort("no longer wanted");
  await expect(withdrawn).rejects.toBe("no longer wanted");
  expect(dialog.questions.answer("elicitation-2", { action: "decline" })).toBe(false);
  dialog.questions.answer("elicitation-4", { action: "decline" });
  expect(await answered).toEqual({ action: "decline" });
  expect(dialog.open).toEqual([]);
});

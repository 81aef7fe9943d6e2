import { expect, test } from "vitest";
import { ClientDialog } from "./dialog.ts";
import { asksAtFirst } from "./tasks.ts";

const { signal } = new AbortController();
const params = { mode: "form", message: "Which?", requestedSchema: { type: "object", properties: {} } };

function begin(work: (dialog: ClientDialog<string>) => Promise<string>): ClientDialog<string> {
  const dialog: ClientDialog<string> = new ClientDialog(
    { peer: { abilities: { elicitation: {} } }, wants: { progress: true, messages: true } },
    "t",
  );
  return dialog.start(() => work(dialog));
}

test("a call that asks asks, and what it asked is still there for who goes on with it", async () => {
  const dialog = begin(async (client) => {
    await client.request("elicitation/create", params, signal);
    return "done";
  });
  expect(await asksAtFirst(dialog)).toBe(true);
  expect(dialog.open).toHaveLength(1);
  expect((await dialog.next()).kind).toBe("asks");
});

test("a call that ends or says something asks nothing at first", async () => {
  expect(await asksAtFirst(begin(async () => "done"))).toBe(false);
  const never = new Promise<string>(() => {});
  const saying = begin((client) => {
    client.notify("notifications/message", { level: "info", data: "x" });
    return never;
  });
  expect(await asksAtFirst(saying)).toBe(false);
  expect((await saying.next()).kind).toBe("says");
});

test("a question that is withdrawn at once keeps nobody waiting", async () => {
  const withdrawing = begin(async (client) => {
    const withdrawn = new AbortController();
    const asked = client.request("elicitation/create", params, withdrawn.signal).catch(() => "withdrawn");
    queueMicrotask(() => withdrawn.abort(new Error("no longer wanted")));
    await asked;
    return new Promise<string>(() => {});
  });
  expect(await asksAtFirst(withdrawing)).toBe(false);
});

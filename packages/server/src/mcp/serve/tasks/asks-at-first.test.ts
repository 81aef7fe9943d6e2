import { expect, test } from "vitest";
import { Exchange } from "../exchange.ts";
import { asksAtFirst } from "../tasks.ts";

const { signal } = new AbortController();
const params = { mode: "form", message: "Which?", requestedSchema: { type: "object", properties: {} } };

function begin(work: (exchange: Exchange<string>) => Promise<string>): Exchange<string> {
  const exchange: Exchange<string> = new Exchange({
    subject: "t",
    abilities: { elicitation: {} },
    wants: { progress: true, messages: true },
  });
  return exchange.start(() => work(exchange));
}

test("a call that asks asks, and what it asked is still there for who goes on with it", async () => {
  const exchange = begin(async (client) => {
    await client.request("elicitation/create", params, signal);
    return "done";
  });
  expect(await asksAtFirst(exchange, signal)).toBe(true);
  expect(exchange.open).toHaveLength(1);
  expect((await exchange.next()).kind).toBe("asks");
});

test("a call that ends or says something asks nothing at first", async () => {
  expect(
    await asksAtFirst(
      begin(async () => "done"),
      signal,
    ),
  ).toBe(false);
  const never = new Promise<string>(() => {});
  const saying = begin((client) => {
    client.notify("notifications/message", { level: "info", data: "x" });
    return never;
  });
  expect(await asksAtFirst(saying, signal)).toBe(false);
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
  expect(await asksAtFirst(withdrawing, signal)).toBe(false);
});

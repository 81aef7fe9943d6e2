import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Exchange } from "./exchange.ts";
import { HeldExchanges } from "./held-exchanges.ts";

const binding = { principal: "me", method: "tools/call" };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function asking() {
  const exchange = new Exchange<unknown>({
    subject: "tool",
    abilities: { elicitation: {} },
    wants: { progress: false, messages: false },
  });
  let ended: unknown;
  exchange.start(async (signal) => {
    try {
      return await exchange.request("elicitation/create", { message: "?" }, signal);
    } catch (thrown) {
      ended = thrown;
      throw thrown;
    }
  });
  return { exchange, ended: () => ended };
}

test("nobody can read a state, and two are never the same", () => {
  const held = new HeldExchanges();
  const { exchange } = asking();
  const one = held.hold(exchange, binding);
  const other = held.hold(exchange, binding);
  expect(one).not.toBe(other);
  expect(Buffer.from(one, "base64url").toString("latin1")).not.toContain("round");
  held.close();
});

test("a state is good for whom and what it was given for, once", () => {
  const held = new HeldExchanges();
  const { exchange } = asking();
  const state = held.hold(exchange, binding);
  expect(() => held.take(state, { ...binding, principal: "you" })).toThrow();
  expect(() => held.take(state, { ...binding, method: "prompts/get" })).toThrow();
  expect(() => held.take(`${state}A`, binding)).toThrow();
  expect(() => new HeldExchanges().take(state, binding)).toThrow();
  const ticket = held.take(state, binding);
  expect(ticket.exchange).toBe(exchange);
  const late = held.take(state, binding);
  ticket.use();
  expect(() => late.use()).toThrow();
  expect(() => held.take(state, binding)).toThrow();
  held.close();
});

test("a call whose client does not come back is cancelled", async () => {
  const held = new HeldExchanges();
  const { exchange, ended } = asking();
  const state = held.hold(exchange, binding);
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  expect(String(ended())).toContain("did not come back");
  expect(() => held.take(state, binding)).toThrow();
});

test("a client that came back has all the time that its call has", async () => {
  const held = new HeldExchanges();
  const { exchange, ended } = asking();
  held.take(held.hold(exchange, binding), binding).use();
  await vi.advanceTimersByTimeAsync(60 * 60_000);
  expect(ended()).toBeUndefined();
  held.close();
  await vi.advanceTimersByTimeAsync(0);
  expect(String(ended())).toContain("stopping");
});

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ClientDialog } from "./dialog.ts";
import { WaitingDialogs } from "./waiting-dialogs.ts";

const resume = () => {};
const isMeant = () => true;
const binding = { identity: "me", method: "tools/call" };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function asking() {
  const dialog = new ClientDialog<unknown>({
    subject: "tool",
    abilities: { elicitation: {} },
    wants: { progress: false, messages: false },
  });
  let ended: unknown;
  dialog.start(async (signal) => {
    try {
      return await dialog.request("elicitation/create", { message: "?" }, signal);
    } catch (thrown) {
      ended = thrown;
      throw thrown;
    }
  });
  return { dialog, ended: () => ended };
}

test("nobody can read a state, and two are never the same", () => {
  const held = new WaitingDialogs();
  const { dialog } = asking();
  const one = held.keep(dialog, binding, resume);
  const other = held.keep(dialog, binding, resume);
  expect(one).not.toBe(other);
  held.close();
});

test("a state is good for whom and what it was given for, once", () => {
  const held = new WaitingDialogs();
  const { dialog } = asking();
  const state = held.keep(dialog, binding, resume);
  expect(() => held.take(state, { ...binding, identity: "you" }, isMeant)).toThrow();
  expect(() => held.take(state, { ...binding, method: "prompts/get" }, isMeant)).toThrow();
  expect(() => held.take(`${state}A`, binding, isMeant)).toThrow();
  expect(() => held.take(5, binding, isMeant)).toThrow();
  expect(() => new WaitingDialogs().take(state, binding, isMeant)).toThrow();
  expect(() => held.take(state, binding, () => false)).toThrow();
  expect(held.take(state, binding, isMeant)).toMatchObject({ dialog, resume });
  expect(() => held.take(state, binding, isMeant)).toThrow();
  held.close();
});

test("a call whose client does not come back is cancelled", async () => {
  const held = new WaitingDialogs();
  const { dialog, ended } = asking();
  const state = held.keep(dialog, binding, resume);
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  expect(String(ended())).toContain("did not come back");
  expect(() => held.take(state, binding, isMeant)).toThrow();
});

test("a client that came back has all the time that its call has, and those that are waited for are told of the end", async () => {
  const held = new WaitingDialogs();
  const { dialog, ended } = asking();
  const taken = asking();
  held.take(held.keep(taken.dialog, binding, resume), binding, isMeant);
  held.keep(dialog, binding, resume);
  await vi.advanceTimersByTimeAsync(9 * 60_000);
  held.close();
  await vi.advanceTimersByTimeAsync(60 * 60_000);
  expect(String(ended())).toContain("stopping");
  expect(taken.ended()).toBeUndefined();
});

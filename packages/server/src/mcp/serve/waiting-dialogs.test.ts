import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ClientDialog } from "./dialog.ts";
import type { ClientRequest } from "./session.ts";
import { WaitingDialogs } from "./waiting-dialogs.ts";

const resume = vi.fn();
const asker = { caller: { identity: "me" }, method: "tools/call" } as ClientRequest; // Of a request, no more is looked at.

/** Comes back with a state. */
function comeBack(held: WaitingDialogs, requestState: unknown, other: object = {}, input?: object) {
  held.resume(Object.assign({}, asker, other, { params: { requestState } }), "tool", { ...input });
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function asking() {
  const dialog = new ClientDialog<unknown>(
    { peer: { abilities: { elicitation: {} } }, wants: { progress: false, messages: false } },
    "tool",
  );
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
  const one = held.keep(dialog, asker, resume);
  const other = held.keep(dialog, asker, resume);
  expect(one).not.toBe(other);
  held.close();
});

test("a state is good for whom and what it was given for, once", () => {
  const held = new WaitingDialogs();
  const { dialog } = asking();
  const state = held.keep(dialog, asker, resume);
  expect(() => comeBack(held, state, { caller: { identity: "you" } })).toThrow();
  expect(() => comeBack(held, state, { method: "prompts/get" })).toThrow();
  expect(() => comeBack(held, `${state}A`)).toThrow();
  expect(() => comeBack(held, 5)).toThrow();
  expect(() => comeBack(new WaitingDialogs(), state)).toThrow();
  expect(() => comeBack(held, state, {}, { other: "arguments" })).toThrow();
  expect(resume).not.toHaveBeenCalled();
  comeBack(held, state);
  expect(resume).toHaveBeenCalledOnce();
  expect(() => comeBack(held, state)).toThrow();
  held.close();
});

test("a call whose client does not come back is cancelled", async () => {
  const held = new WaitingDialogs();
  const { dialog, ended } = asking();
  const state = held.keep(dialog, asker, resume);
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  expect(String(ended())).toContain("did not come back");
  expect(() => comeBack(held, state)).toThrow();
});

test("a client that came back has all the time that its call has, and those that are waited for are told of the end", async () => {
  const held = new WaitingDialogs();
  const { dialog, ended } = asking();
  const taken = asking();
  comeBack(held, held.keep(taken.dialog, asker, resume));
  held.keep(dialog, asker, resume);
  await vi.advanceTimersByTimeAsync(9 * 60_000);
  held.close();
  await vi.advanceTimersByTimeAsync(60 * 60_000);
  expect(String(ended())).toContain("stopping");
  expect(taken.ended()).toBeUndefined();
});

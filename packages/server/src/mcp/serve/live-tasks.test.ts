import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import type { EndedCall } from "../../calls/call-service.ts";
import { Caller } from "./caller.ts";
import { ClientDialog } from "./dialog.ts";
import { Tasks } from "./tasks.ts";

const MINUTE = 60_000;
const caller = new Caller(masterGrant);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A task whose work asks twice, and the tasks that have it. */
function open(isWaiting = () => true) {
  const ended: unknown[] = [];
  const dialog = new ClientDialog<EndedCall>(
    { peer: { abilities: { elicitation: {} } }, wants: { progress: false, messages: false } },
    "tool",
  );
  dialog.start(async (signal) => {
    try {
      for (const message of ["First?", "Second?"]) {
        await dialog.request("elicitation/create", { message }, signal);
      }
      return await new Promise<never>((_, reject) => {
        signal.addEventListener("abort", () => reject(new Error(String(signal.reason))));
      });
    } catch (thrown) {
      ended.push(String(thrown));
      throw thrown;
    }
  });
  // Of what tasks work with, only this is asked for a task that is under way.
  const tasks = new Tasks({ service: { isWaiting } } as never);
  const { ttlMs } = tasks.adopt("one", dialog, caller, () => ({ code: 0, message: "ended" }));
  const answer = async () => {
    const { inputRequests } = (await tasks.get("one", caller))!;
    const [key] = Object.keys(inputRequests as object);
    await tasks.update("one", { [key!]: { action: "decline" } }, caller);
  };
  return { tasks, ended, ttlMs, answer };
}

test("what a task asks is open for ten minutes, each question anew", async () => {
  const { tasks, ended, answer } = open();
  await vi.advanceTimersByTimeAsync(9 * MINUTE);
  expect(await tasks.get("one", caller)).toMatchObject({ status: "input_required" });
  await answer();
  await vi.advanceTimersByTimeAsync(9 * MINUTE);
  expect(await tasks.get("one", caller)).toMatchObject({ status: "input_required" });
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(ended).toEqual(["Error: The client did not answer within 10 minutes."]);
  expect(await tasks.get("one", caller)).toMatchObject({ status: "failed" });
});

test("a task that waits for somebody else ends with the time that its client was told of, one that works does not", async () => {
  let isWaiting = false;
  const { tasks, ended, answer, ttlMs } = open(() => isWaiting);
  expect(ttlMs).toBe(60 * MINUTE);
  await vi.advanceTimersByTimeAsync(MINUTE);
  await answer();
  await vi.advanceTimersByTimeAsync(0);
  await answer();
  const { ttlMs: later } = (await tasks.get("one", caller))!;
  expect(later).toBe(61 * MINUTE);
  await vi.advanceTimersByTimeAsync(60 * MINUTE);
  expect(ended).toEqual([]);
  isWaiting = true;
  await vi.advanceTimersByTimeAsync(60 * MINUTE);
  expect(ended).toEqual(["Error: nobody answered what it asked in the time that the task had"]);
});

test("a task that has ended leaves no timer behind", async () => {
  const { tasks } = open();
  await vi.advanceTimersByTimeAsync(0);
  await tasks.cancel("one", caller);
  await vi.advanceTimersByTimeAsync(0);
  expect(vi.getTimerCount()).toBe(0);
});

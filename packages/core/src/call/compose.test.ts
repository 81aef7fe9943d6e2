import { describe, expect, it } from "vitest";
import { ToolRegistry } from "../index.ts";
import { CallFrame, type CallHost } from "./call-frame.ts";
import { compose, type Stage } from "./engine.ts";

/** A frame of a registry that the stages below never touch. */
function frameOf(): CallFrame {
  const host = { settings: { permissions: [] }, registry: new ToolRegistry() } as unknown as CallHost;
  return new CallFrame(host, 1, "c", "tool", {}, {}, undefined);
}

function run(stages: Stage[]): { frame: CallFrame; log: string[]; done: Promise<void> } {
  const log: string[] = [];
  const frame = frameOf();
  const done = new Promise<void>((resolve) => {
    const finish = (outcome: string) => {
      log.push(outcome);
      resolve();
    };
    compose(stages, {
      complete: () => finish("complete"),
      fail: (_, thrown) => finish(`fail ${(thrown as Error).message}`),
    })(frame);
  });
  return { frame, log, done };
}

describe("compose", () => {
  it("runs stages that do not wait in one go", () => {
    const order: number[] = [];
    const { log } = run([() => void order.push(1), () => void order.push(2)]);
    expect(order).toEqual([1, 2]);
    expect(log).toEqual(["complete"]);
  });

  it("waits for a stage that returns a promise, and hands its value to the next", async () => {
    const { frame, log, done } = run([async () => "value", (at) => void log.push(String(at.output))]);
    expect(log).toEqual([]);
    await done;
    expect(log).toEqual(["value", "complete"]);
    expect(frame.waited).toBe(true);
  });

  it("goes no further after a stage that throws or rejects", async () => {
    const never = () => {
      throw new Error("reached");
    };
    const thrown = run([
      () => {
        throw new Error("at once");
      },
      never,
    ]);
    expect(thrown.log).toEqual(["fail at once"]);
    const rejected = run([() => Promise.reject(new Error("later")), never]);
    await rejected.done;
    expect(rejected.log).toEqual(["fail later"]);
  });

  it("goes no further with a call that ended while it waited", async () => {
    const reached: string[] = [];
    const { frame } = run([
      () => new Promise((resolve) => setTimeout(resolve, 5)),
      () => void reached.push("next"),
    ]);
    frame.ended = true;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(reached).toEqual([]);
  });
});

import type { ToolContext } from "@toolrack/core";
import { currentCall } from "../host/current-call.ts";
import type { StackMapper } from "./loader/stack-mapper.ts";

const DESTROY_LIMIT = 5_000;
const GRACE = 1_000;

/** How a version of a file went: what its `destroy` had to say, when it did not end well. */
export interface DestroyProblem {
  readonly file: string;
  readonly reason: string;
}

/**
 * One version of one tool file. It knows its calls under way, so that it is destroyed only when the last of them
 * has ended, and never in the middle of one.
 */
export class FileVersion {
  readonly path: string;
  readonly #stacks: StackMapper;
  readonly #underWay = new Set<ToolContext<unknown>>();
  #onChange: (() => void) | undefined;

  constructor(path: string, stacks: StackMapper) {
    this.path = path;
    this.#stacks = stacks;
  }

  /** Runs the author's function as a call of this version, with stack traces that point at the source. */
  async run<Result>(context: ToolContext<unknown>, call: () => Result | Promise<Result>): Promise<Result> {
    this.#underWay.add(context);
    try {
      return await currentCall.run(context as ToolContext, call);
    } catch (thrown) {
      throw this.#stacks.apply(thrown);
    } finally {
      this.#leave(context);
    }
  }

  /** Waits for the calls under way, then lets the file clean up. Answers what went wrong, and never rejects. */
  async retire(destroy: unknown): Promise<string | undefined> {
    // A call that was ended from outside, but whose function goes on regardless, is given a little time.
    for (const context of this.#underWay) {
      const giveUp = () => setTimeout(() => this.#leave(context), GRACE).unref();
      if (context.signal.aborted) giveUp();
      else context.signal.addEventListener("abort", giveUp, { once: true });
    }
    while (this.#underWay.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
    }
    return typeof destroy === "function" ? runDestroy(destroy as () => unknown) : undefined;
  }

  #leave(context: ToolContext<unknown>): void {
    this.#underWay.delete(context);
    this.#onChange?.();
  }
}

async function runDestroy(destroy: () => unknown): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(
      () => resolve(`destroy() did not end within ${DESTROY_LIMIT / 1000} s`),
      DESTROY_LIMIT,
    );
  });
  try {
    return await Promise.race([late, Promise.resolve(destroy()).then(() => undefined)]);
  } catch (thrown) {
    return `destroy() failed: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
  } finally {
    clearTimeout(timer);
  }
}

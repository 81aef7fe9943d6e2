import { IdTable } from "@toolrack/core";
import type { AnnouncedCall } from "./call-recorder.ts";
import { CallRefused } from "./call-refused.ts";

type Placed = Pick<AnnouncedCall, "callId" | "toolName" | "caller">;

/**
 * How many calls of one tool may be under way. One that waits for an answer, of a person or of its caller, takes no place
 * of those that run, since that may take hours; but one caller cannot let more of them wait than could run, so that it
 * fills only its own share.
 */
export class CallPlaces {
  readonly #most: number;
  readonly #running = new IdTable<number>();
  /** By tool and caller. */
  readonly #waiting = new Map<string, number>();
  /** The calls that wait. */
  readonly #askers = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Throws `CallRefused` when there is no place. */
  enter({ toolName, caller }: Omit<Placed, "callId">): void {
    const running = this.#running.get(toolName) ?? 0;
    if (running >= this.#most) throw tooManyCalls(toolName, running, this.#most);
    const waiting = this.#waiting.size === 0 ? 0 : (this.#waiting.get(shareOf(toolName, caller)) ?? 0);
    if (waiting >= this.#most) throw tooManyQuestions(toolName, waiting, this.#most);
    this.#running.set(toolName, running + 1);
  }

  leave(call: Placed): void {
    if (this.#askers.delete(call.callId))
      this.#change(this.#waiting, shareOf(call.toolName, call.caller), -1);
    else this.#change(this.#running, call.toolName, -1);
  }

  /** Somebody is asked, and the call waits for the answer. */
  waits({ callId, toolName, caller }: Placed): void {
    if (this.#askers.has(callId)) return;
    this.#askers.add(callId);
    this.#change(this.#running, toolName, -1);
    this.#change(this.#waiting, shareOf(toolName, caller), 1);
  }

  /** It waits for no answer any more. */
  goesOn({ callId, toolName, caller }: Placed): void {
    if (!this.#askers.delete(callId)) return;
    this.#change(this.#waiting, shareOf(toolName, caller), -1);
    this.#change(this.#running, toolName, 1);
  }

  #change(counts: IdTable<number> | Map<string, number>, key: string, by: number): void {
    const count = (counts.get(key) ?? 0) + by;
    if (count > 0) counts.set(key, count);
    else counts.delete(key);
  }
}

function shareOf(toolName: string, caller: string): string {
  return `${toolName} ${caller}`;
}

function tooManyCalls(toolName: string, running: number, limit: number): CallRefused {
  return new CallRefused(
    "too_many_calls",
    `"${toolName}" is running ${running} times, which is as often as it may. Call it when one has ended.`,
    { toolName, limit },
    1,
  );
}

function tooManyQuestions(toolName: string, waiting: number, limit: number): CallRefused {
  return new CallRefused(
    "too_many_calls",
    `${waiting} calls of "${toolName}" by this caller wait for an answer, which is as many as may. Answer one of them, or cancel it, and call again.`,
    { toolName, limit },
    1,
  );
}

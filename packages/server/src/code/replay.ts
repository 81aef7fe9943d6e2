import { CodeDivergedError, type ToolError, type ToolInfo, type ToolResult } from "@toolrack/core";
import { RESUMED } from "../calls/index.ts";
import type { StoredCall } from "../store/index.ts";

/**
 * What is known of a call that the code made before it was run again. `finished`: its record has the answer. `waiting`: it
 * waits for a person, and did not begin. `unknown`: its process ended while it ran.
 */
export interface PastCall {
  readonly kind: "finished" | "waiting" | "unknown";
  /** The call whose record has the answer, when it was made again under another id. */
  readonly callId: string;
  readonly toolName: string;
  readonly line?: number | undefined;
  /** When it ended, in milliseconds since the epoch. */
  readonly endedAt: number;
}

/** When a call ended, from its record. Code that is run again is shown the same time as before. */
export function endOf({ timestamp, duration }: { timestamp: number; duration: number }): number {
  return Math.round(timestamp) + Math.round(duration);
}

/** Reads what a run did from the records of its calls, by the ids under which the code asks for them again. */
export function pastCalls(records: readonly StoredCall[]): Map<string, PastCall> {
  const known = new Map(records.map((record) => [record.callId, record]));
  const past = new Map<string, PastCall>();
  for (const record of records) {
    if (record.callId.endsWith(RESUMED)) continue;
    let latest = record;
    for (let next = known.get(latest.callId + RESUMED); next !== undefined; ) {
      latest = next;
      next = known.get(latest.callId + RESUMED);
    }
    const { callId, toolName, outcome, flags } = latest;
    const isFinished = outcome === "completed" || outcome === "error";
    const kind = isFinished ? "finished" : outcome === "running" ? "waiting" : "unknown";
    past.set(record.callId, { kind, callId, toolName, line: flags?.line, endedAt: endOf(latest) });
  }
  return past;
}

/** A search or a description that the code asked for, which the host answered itself. */
export interface LookUp {
  readonly callId: string;
  readonly toolName: string;
  readonly args: readonly unknown[];
  readonly line: number;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly result: ToolResult;
}

/** The records of a run's calls. */
export interface RunRecords {
  /** The whole result of an ended call. Rejects when it cannot be read. */
  read(callId: string): Promise<ToolResult>;
  /**
   * Writes that the run is about to make a call. Resolves when that outlives the process, so that the call is never taken
   * for one that was not made.
   */
  announce(call: { readonly callId: string; readonly tool: ToolInfo; readonly line: number }): Promise<void>;
  /** Writes a look-up as a call of the run. Resolves when that outlives the process. */
  keep(lookUp: LookUp): Promise<void>;
  /** Closes what is still open of the questions and records of calls that waited for a person and will not be made. */
  giveUp(callIds: readonly string[]): Promise<void>;
  /** Lets a call that waited for a person in a process that is gone go on with its question. */
  continueQuestion(callId: string): void;
}

interface HeldCall {
  readonly line: number;
  readonly path: string;
  readonly gate: PromiseWithResolvers<void>;
}

/**
 * Leads code that is run again along the way that it took before. Answers of past calls are given in the order in which
 * those calls ended, so that parallel code takes the same turns. A call that is not among them has to wait until all of them
 * have been asked for: then the code is where it was interrupted.
 */
export class Replay {
  readonly #past: ReadonlyMap<string, PastCall>;
  readonly #unasked: Set<string>;
  /** The finished calls in the order in which they ended. */
  readonly #order: readonly string[];
  readonly #turns = new Map<string, () => void>();
  readonly #given = new Set<string>();
  readonly #held: HeldCall[] = [];
  #next = 0;
  /** How many answers are being read from records. */
  #reading = 0;

  constructor(past: ReadonlyMap<string, PastCall>) {
    this.#past = past;
    this.#unasked = new Set(past.keys());
    this.#order = [...past]
      .filter(([, { kind }]) => kind === "finished")
      .sort(([, one], [, other]) => one.endedAt - other.endedAt)
      .map(([callId]) => callId);
  }

  /** What is known of a call for which the code asks now. */
  ask(callId: string): PastCall | undefined {
    if (!this.#unasked.delete(callId)) return undefined;
    if (this.#unasked.size === 0) for (const { gate } of this.#held.splice(0)) gate.resolve();
    return this.#past.get(callId);
  }

  /** Answers with what `read` reads, when it is this call's turn. */
  async answer<Value>(callId: string, read: () => Promise<Value>): Promise<Value> {
    this.#reading++;
    let value: Value;
    try {
      value = await read();
    } finally {
      this.#reading--;
    }
    await new Promise<void>((resolve) => {
      this.#turns.set(callId, resolve);
      this.#advance();
    });
    return value;
  }

  /** Waits until a call may be made that was not made before. Rejects when the code has taken another way. */
  async newCall(path: string, line: number): Promise<void> {
    if (this.#unasked.size === 0) return;
    const gate = Promise.withResolvers<void>();
    this.#held.push({ line, path, gate });
    await gate.promise;
  }

  /** To be called when the code does nothing but wait for answers. Returns the error of code that took another way. */
  stalled(): ToolError | undefined {
    if (this.#reading > 0) return undefined;
    const [held] = this.#held;
    if (held !== undefined)
      return diverged(held.line, `it now makes another call here, of ${held.path}`, this.#missing());
    // Calls that ended in another order than the code now waits for them have their answers all the same.
    for (const callId of [...this.#turns.keys()]) this.#give(callId);
    return undefined;
  }

  /** The error of code that has ended without asking for everything that it asked for before. */
  ended(): ToolError | undefined {
    const missing = this.#missing();
    return missing === undefined ? undefined : diverged(missing.line ?? 0, "it now ends without it", missing);
  }

  /** The calls that wait for a person and that the code has not asked for. */
  get forgotten(): string[] {
    return [...this.#unasked].filter((callId) => this.#past.get(callId)?.kind === "waiting");
  }

  #missing(): PastCall | undefined {
    const [first] = this.#unasked;
    return first === undefined ? undefined : this.#past.get(first);
  }

  #advance(): void {
    for (let callId = this.#order[this.#next]; callId !== undefined; callId = this.#order[this.#next]) {
      if (!this.#given.has(callId) && !this.#turns.has(callId)) return;
      this.#next++;
      this.#give(callId);
    }
  }

  #give(callId: string): void {
    const resolve = this.#turns.get(callId);
    this.#turns.delete(callId);
    this.#given.add(callId);
    resolve?.();
  }
}

function diverged(line: number, what: string, missing: PastCall | undefined): ToolError {
  const before =
    missing === undefined
      ? ""
      : ` Before, it had called "${missing.toolName}"${missing.line ? ` in line ${missing.line}` : ""}, and ${what}.`;
  const message = `Line ${line}: the code was interrupted, was run again, and took another way than before, so it was stopped.${before} What it had done is in the records of its calls. Look at them, and write code for what is left.`;
  return new CodeDivergedError(message, { data: { line } });
}

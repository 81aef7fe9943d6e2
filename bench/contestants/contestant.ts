import type { Scenario } from "../scenarios/scenario.ts";

/** One tool, ready to be called again and again. */
export interface CallTarget {
  /** The form in which arguments reach this contestant, made before the clock runs; the object itself by default. */
  encode?(input: unknown): unknown;
  call(input: unknown): Promise<unknown>;
  /** The text in what `call` gave back. Throws when that says that the call failed. Not measured. */
  readAnswer(output: unknown): string;
}

/** An empty rack to fill. */
export interface RackTarget {
  add(name: string): void;
  /** Left out when the contestant has no public way to look a tool up. */
  get?(name: string): unknown;
  call(name: string, input: unknown): Promise<unknown>;
  list(): readonly unknown[] | Promise<readonly unknown[]>;
}

export interface Contestant {
  setUpCall?(scenario: Scenario): CallTarget | Promise<CallTarget>;
  setUpRack?(scenario: Scenario): RackTarget;
}

export function readText(output: unknown): string {
  if (typeof output === "string") return output;
  throw new Error(`expected a text, got ${JSON.stringify(output)}`);
}

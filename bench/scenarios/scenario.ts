import { z } from "zod";

/** A tool as every contestant gets it: it wraps `run` in whatever it calls a tool. */
export interface Scenario {
  readonly name: string;
  readonly description: string;
  readonly zodSchema: z.ZodObject;
  readonly jsonSchema: Record<string, unknown>;
  /** Cheap on purpose: what is measured is the way to it. */
  run(input: unknown): string;
  /** All different, so that nobody answers from a cache and no loop guard sees a loop. A power of two of them. */
  readonly inputs: readonly unknown[];
  /** Each is wrong in one place and must be refused before `run`. */
  readonly badInputs: readonly unknown[];
}

export interface ScenarioConfig<Schema extends z.ZodObject> {
  readonly name: string;
  readonly description: string;
  readonly zodSchema: Schema;
  run(input: z.output<Schema>): string;
  makeInput(index: number): z.input<Schema>;
  readonly badInputs: readonly unknown[];
}

const inputCount = 1024;

export function defineScenario<Schema extends z.ZodObject>(config: ScenarioConfig<Schema>): Scenario {
  const { name, description, zodSchema, run, makeInput, badInputs } = config;
  return {
    name,
    description,
    zodSchema,
    // Through text, because zod hides its own validator in what it returns, and whoever finds it would run zod again.
    jsonSchema: JSON.parse(JSON.stringify(z.toJSONSchema(zodSchema, { io: "input" }))),
    // Whoever calls it has validated the input, or is the floor, which is only given good ones.
    run: run as (input: unknown) => string,
    inputs: Array.from({ length: inputCount }, (_, index) => makeInput(index)),
    badInputs,
  };
}

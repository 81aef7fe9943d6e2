import type { Contestant } from "./contestant.ts";

interface MapTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: object;
  execute(input: unknown): Promise<string>;
}

/** The floor of the registry suite. */
export const map: Contestant = {
  setUpRack({ description, jsonSchema, run }) {
    const tools = new Map<string, MapTool>();
    return {
      add: (name) =>
        tools.set(name, {
          name,
          description,
          parameters: jsonSchema,
          execute: async (input: unknown) => run(input),
        }),
      get: (name) => tools.get(name),
      call: async (name, input) => tools.get(name)?.execute(input),
      list: () => [...tools.values()],
    };
  },
};

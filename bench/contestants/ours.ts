import { Tool, ToolRegistry, type ToolResult } from "@toolrack/core";
import type { Scenario } from "../scenarios/scenario.ts";
import type { CallTarget, Contestant } from "./contestant.ts";

export const oursJsonSchema: Contestant = {
  setUpCall: (scenario) => setUpCall(scenario, scenario.jsonSchema),
  setUpRack(scenario) {
    const registry = new ToolRegistry();
    return {
      add: (name) => registry.register(defineTool(scenario, scenario.jsonSchema, name)),
      get: (name) => registry.get(name),
      call: (name, input) => registry.execute(name, input),
      list: () => registry.list(),
    };
  },
};

export const oursZod: Contestant = {
  setUpCall: (scenario) => setUpCall(scenario, scenario.zodSchema),
};

/** One long session: the loop guard looks at every call and finds nothing, as in an agent that does its work. */
export const oursSession: Contestant = {
  setUpCall: (scenario) => setUpCall(scenario, scenario.jsonSchema, { sessionID: "bench" }),
};

function setUpCall(
  scenario: Scenario,
  parameters: object,
  options?: { readonly sessionID: string },
): CallTarget {
  const registry = new ToolRegistry();
  registry.register(defineTool(scenario, parameters, scenario.name));
  return {
    call: (input) => registry.execute(scenario.name, input, options),
    readAnswer(output) {
      // `call` gives back what `execute` resolves to.
      const { type, content } = output as ToolResult;
      if (type === "error") throw new Error(content);
      return content;
    },
  };
}

function defineTool({ description, run }: Scenario, parameters: object, name: string) {
  return Tool.define({ name, description, parameters, execute: async ({ input }) => run(input) });
}

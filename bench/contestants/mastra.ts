import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import type { Scenario } from "../scenarios/scenario.ts";
import { type Contestant, readText } from "./contestant.ts";

export const mastra: Contestant = {
  setUpCall(scenario) {
    const tool = defineTool(scenario, scenario.name);
    return {
      // A refused input is not thrown but returned, as an object with `error`, which is no text.
      call: (input) => callTool(tool, input),
      readAnswer: readText,
    };
  },
  setUpRack(scenario) {
    const registry = new Mastra({ logger: false });
    // Its type knows only the tools given to the constructor, of which there are none here.
    const get = (name: string) => registry.getTool(name as never) as MastraTool;
    return {
      add: (name) => registry.addTool(defineTool(scenario, name)),
      get,
      call: (name, input) => callTool(get(name), input),
      list: () => Object.values(registry.listTools() ?? {}),
    };
  },
};

type MastraTool = ReturnType<typeof defineTool>;

async function callTool(tool: MastraTool, input: unknown): Promise<unknown> {
  // Outside an agent there is no context to hand over, though the type asks for one.
  return tool.execute!(input as Record<string, unknown>, {} as never);
}

function defineTool({ description, zodSchema, run }: Scenario, id: string) {
  return createTool({ id, description, inputSchema: zodSchema, execute: async (input) => run(input) });
}

import { tool } from "@langchain/core/tools";
import { type Contestant, readText } from "./contestant.ts";

export const langchain: Contestant = {
  setUpCall({ name, description, zodSchema, run }) {
    const definition = tool(async (input) => run(input), { name, description, schema: zodSchema });
    return {
      call: (input) => definition.invoke(input as Record<string, unknown>),
      readAnswer: readText,
    };
  },
};

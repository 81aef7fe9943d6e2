import { RunContext, setTracingDisabled, tool } from "@openai/agents";
import { type Contestant, readText } from "./contestant.ts";

/** Starts from JSON text, as the model sends it. */
export const openaiAgents: Contestant = {
  setUpCall({ name, description, zodSchema, run }) {
    setTracingDisabled(true);
    const definition = tool({
      name,
      description,
      parameters: zodSchema,
      execute: async (input) => run(input),
      // By default a refused input comes back as an ordinary text.
      errorFunction: null,
    });
    const context = new RunContext();
    return {
      encode: (input) => JSON.stringify(input),
      call: (text) => definition.invoke(context, readText(text)),
      readAnswer: readText,
    };
  },
};

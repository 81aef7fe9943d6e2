import { executeTool, safeParseJSON } from "@ai-sdk/provider-utils";
import { tool } from "ai";
import { type Contestant, readText } from "./contestant.ts";

/** Outside the model loop `ai` has no call of its own; these are the two steps its loop takes. It starts from JSON text. */
export const ai: Contestant = {
  setUpCall({ description, zodSchema, run }) {
    const definition = tool({ description, inputSchema: zodSchema, execute: async (input) => run(input) });
    return {
      encode: (input) => JSON.stringify(input),
      async call(text) {
        const parsed = await safeParseJSON({ text: readText(text), schema: zodSchema });
        if (!parsed.success) throw parsed.error;
        const options = { toolCallId: "call", messages: [], context: undefined as never };
        let output: unknown;
        for await (const part of executeTool({ tool: definition, input: parsed.value, options }))
          output = part.output;
        return output;
      },
      readAnswer: readText,
    };
  },
};

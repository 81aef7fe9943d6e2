import type { ToolContext } from "./context.ts";
import { define } from "./define.ts";
import type { ToolInfo } from "./info.ts";

type TextFunction = (text: string, context: ToolContext<{ text: string }>) => string | Promise<string>;

/** A tool that takes one text and answers with a text: the text itself, or what `transform` makes of it. */
export function createTextTool(name: string, description: string, transform?: TextFunction): ToolInfo {
  return define({
    name,
    description,
    parameters: {
      type: "object",
      properties: { text: { type: "string", description: "The text." } },
      required: ["text"],
    },
    execute: async (context) => ({
      content: transform ? await transform(context.input.text, context) : context.input.text,
      type: "text",
    }),
  });
}

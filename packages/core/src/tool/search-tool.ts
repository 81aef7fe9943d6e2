import { define } from "./define.ts";
import type { ToolContext, ToolInfo } from "./types.ts";

interface SearchOptions {
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** Finds what the query asks for. A returned list is cut to `limit` items. */
export type SearchFunction = (query: string, options: SearchOptions) => unknown;

/** A read-only tool that takes a query and a limit and answers with what `searchFn` finds. */
export function createSearchTool(name: string, description: string, searchFn: SearchFunction): ToolInfo {
  return define({
    name,
    description,
    parameters: {
      type: "object",
      properties: {
        query: { type: "string", minLength: 1, description: "What to look for." },
        limit: {
          type: "integer",
          minimum: 1,
          maximum: 100,
          default: 10,
          description: "How many results at most.",
        },
      },
      required: ["query"],
    },
    metadata: { category: "search", readOnly: true },
    execute: async ({ input, signal }) => {
      const limit = input.limit ?? 10;
      const found = await searchFn(input.query, { limit, signal });
      return Array.isArray(found) ? { results: found.slice(0, limit), total: found.length } : found;
    },
  });
}

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

import { define } from "./define.ts";
import type { ToolInfo } from "./info.ts";

export interface SearchOptions {
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** Looks something up. What it returns is cut to `limit` when it is a list. */
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

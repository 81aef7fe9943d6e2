import type { McpServerTool } from "../../api/mcp-server-types.ts";

/** What a definition said before and says now, as two texts whose lines can be compared. */
export function changesAsText(changes: McpServerTool["changes"]): { before: string; after: string } {
  const side = (which: "before" | "after") =>
    changes
      .filter((change) => change[which] !== undefined)
      .map((change) => `${change.path}: ${shown(change[which])}`)
      .join("\n");
  return { before: side("before"), after: side("after") };
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}

import type { ToolCallRecord, ToolRegistry, ToolResult } from "@toolrack/core";

/** The result with its whole text: what is left out for a model's sake is not left out for a person or a script. */
export function wholeResult(
  result: ToolResult,
  record: ToolCallRecord | undefined,
  registry: ToolRegistry,
): ToolResult {
  if (record?.flags?.truncated !== true) return result;
  const page = registry.readResult(record.callId, { limit: Number.POSITIVE_INFINITY });
  if (page === undefined || page.nextOffset !== undefined) return result;
  const [first, ...others] = result.blocks ?? [];
  const { truncated: _, ...metadata } = result.metadata ?? {};
  return {
    ...result,
    content: page.text,
    metadata,
    ...(first?.type === "text" ? { blocks: [{ type: "text", text: page.text }, ...others] } : {}),
  };
}

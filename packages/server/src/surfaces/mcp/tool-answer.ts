import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import { toMcpResult } from "@toolrack/core";
import type { EndedCall } from "../../calls/call-desk.ts";
import { CallRefused } from "../../calls/call-refused.ts";
import { unknownTool } from "../../calls/unknown-tool.ts";
import { whereNamesAre } from "../../meta-tools/meta-tools.ts";
import { resultUri } from "./call-results.ts";
import type { McpParts } from "./mcp-parts.ts";
import type { Viewer } from "./viewer.ts";

export type ToolAnswer = ReturnType<typeof toMcpResult>;

export interface AnswerOptions {
  /** Whether the client knows links. */
  readonly canLink: boolean;
  /** Whether the list shows an output schema for the tool. */
  readonly isPromised: boolean;
}

/** The result as the protocol says it; a result that was cut comes with a link to the whole. */
export function toolAnswer(ended: EndedCall, { canLink, isPromised }: AnswerOptions): ToolAnswer {
  const { callId, record, result } = ended;
  const answer = isPromised ? withPromised(toMcpResult(result), ended) : toMcpResult(result);
  if (record.flags?.truncated !== true || !canLink) return answer;
  const link = {
    type: "resource_link",
    uri: resultUri(callId),
    name: `The whole result of ${record.toolName}`,
    mimeType: "text/plain",
  };
  return { ...answer, content: [...answer.content, link] };
}

/**
 * A schema promises a structured value, and clients take no answer without one. So it is whole where only the text was
 * cut, and where the value itself is more than any answer carries the answer is a failure.
 */
function withPromised(answer: ToolAnswer, { record, result }: EndedCall): ToolAnswer {
  const { type, structured } = result;
  if (answer.structuredContent !== undefined || type !== "json") return answer;
  if (structured !== undefined) return { ...answer, structuredContent: structured };
  const text = `The call of ${record.toolName} succeeded, but its structured result is too large to be answered with. Its beginning and end follow. Ask for less, or read the whole by the call's id.`;
  return { ...answer, content: [{ type: "text", text }, ...answer.content], isError: true };
}

/** Throws for a name that means nothing to this viewer: the protocol wants an error there, not a result. */
export function requireVisible(
  { registry, lists }: Pick<McpParts, "registry" | "lists">,
  viewer: Viewer,
  name: string,
): void {
  const info = registry.get(name);
  if (info !== undefined && viewer.sees(info)) return;
  const { isShortened } = lists.of(viewer);
  const message = isShortened
    ? whereNamesAre(name)
    : unknownTool(registry, name, (tool) => viewer.sees(tool)).message;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

/** What never became a call is an error of the protocol. */
export function toProtocolError(reason: unknown): unknown {
  if (!(reason instanceof CallRefused)) return reason;
  const code = reason.code === "tool_not_found" ? ProtocolErrorCode.InvalidParams : BUSY;
  return new ProtocolError(code, reason.message, reason.details);
}

/** Of the codes that the protocol leaves to implementations. */
const BUSY = -32001;

import type { EndedCall } from "../../../calls/call-desk.ts";

/**
 * The answer to a call whose result is plain: text, and perhaps an object, for a tool that did not fail. Undefined for
 * any other, whose form is the SDK's business. `ending` is what results of this version of the protocol end with.
 */
export function plainAnswer(
  { result, record }: EndedCall,
  id: string | number,
  ending: string,
): string | undefined {
  const { content, type, structured, blocks, attachments, metadata } = result;
  if (type === "error" || blocks !== undefined || metadata !== undefined || record.flags?.truncated)
    return undefined;
  if (attachments !== undefined && attachments.length > 0) return undefined;
  // A kind that does not follow from the rest is told in a field of our own.
  if ((type === "json") !== (structured !== undefined)) return undefined;
  const blocksText = content === "" ? "[]" : `[{"type":"text","text":${JSON.stringify(content)}}]`;
  if (structured === undefined) {
    return `{"result":{"content":${blocksText}${ending}},"jsonrpc":"2.0","id":${JSON.stringify(id)}}`;
  }
  if (typeof structured !== "object" || structured === null || Array.isArray(structured)) return undefined;
  const structuredText = JSON.stringify(structured);
  return `{"result":{"content":${blocksText},"structuredContent":${structuredText}${ending}},"jsonrpc":"2.0","id":${JSON.stringify(id)}}`;
}

import { hashText } from "../schema/hash.ts";
import { hashValue } from "../schema/hash-value.ts";
import type { ToolResult } from "../tool/result.ts";
import { safeJson } from "../tool/safe-json.ts";
import { type ResultKeys, textKeys } from "./text-keys.ts";

type Parts = Pick<ToolResult, "content" | "type" | "attachments" | "structured" | "blocks">;

/**
 * The keys of a whole result: two that differ in a picture or in their structured form are not the same. An
 * error is what it says, whatever comes with it, when somebody asked differently.
 */
export function resultKeys(result: Parts, at: number): ResultKeys {
  const isError = result.type === "error";
  const text = textKeys(result.content, at, isError);
  const others = partsBeyondText(result);
  if (others === undefined) return text;
  const beyond = textKeys(others, at, isError);
  return {
    resultKey: hashText(`${text.resultKey} ${beyond.resultKey}`),
    exactKey: isError ? text.exactKey : hashText(`${text.exactKey} ${beyond.exactKey}`),
  };
}

/**
 * Whether the text shows only a part of the result, at a glance: JSON is taken for the text of the structured
 * form. `resultKeys` looks closely.
 */
export function showsBeyondText({ content, type, attachments, structured, blocks }: Parts): boolean {
  if (attachments !== undefined || blocks !== undefined) return true;
  if (structured === undefined) return false;
  if (type !== "json") return true;
  return typeof structured === "object" && content[0] !== "{" && content[0] !== "[" && content !== "null";
}

/** What the text does not show, as a text in which times and ids can be masked like in any other. */
function partsBeyondText({ content, attachments, structured, blocks }: Parts): string | undefined {
  if (attachments === undefined && structured === undefined && blocks === undefined) return undefined;
  const parts: string[] = [];
  if (structured !== undefined) {
    const { text } = safeJson(structured);
    if (text !== content) parts.push(text);
  }
  for (const { mime, filename, url } of attachments ?? []) {
    parts.push(`${mime} ${filename} ${url.startsWith("data:") ? hashText(url) : url}`);
  }
  const media = blocks?.filter((block) => block?.type !== "text") ?? [];
  if (media.length > 0) parts.push(hashValue(media));
  return parts.length === 0 ? undefined : parts.join("\n");
}

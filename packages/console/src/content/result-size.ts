import type { ToolResult } from "../api/types.ts";
import { mediaOf } from "./media-of.ts";
import { wholeOf } from "./whole-of.ts";

/** About how many bytes a result has: its text as UTF-8, and what came with it. Exact for what is at hand whole. */
export function resultSize(result: ToolResult, total?: number): number {
  const whole = wholeOf(result, total);
  const shown = new TextEncoder().encode(whole.text).length;
  // Of a longer text only the characters are known; the rest is taken to be like the beginning.
  const text = whole.text === "" ? whole.total : shown * (whole.total / whole.text.length);
  return mediaOf(result).reduce((sum, { url }) => sum + dataSize(url), Math.round(text));
}

/** The bytes that a `data:` address holds; 0 for any other. */
export function dataSize(url: string): number {
  const comma = url.indexOf(",");
  if (!url.startsWith("data:") || comma === -1) return 0;
  const length = url.length - comma - 1;
  if (!url.slice(0, comma).endsWith(";base64")) return length;
  return Math.floor((length * 3) / 4) - (url.endsWith("==") ? 2 : url.endsWith("=") ? 1 : 0);
}

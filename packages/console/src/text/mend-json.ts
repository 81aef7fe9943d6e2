import { parseJson } from "./parse-json.ts";

/**
 * The value of JSON as people have it in documents, files and chats: with comments, with commas too many, with single
 * quotes or none, cut off, or between code fences. Undefined for what shows no object or list at all: any text could be
 * mended into a string. What mends is fetched when it is first needed.
 */
export async function mendJson(text: string): Promise<unknown> {
  const bare = withoutFences(text);
  const read = parse(bare);
  if (read !== undefined) return read;
  if (!/^(?:\/\/[^\n]*\n|\/\*[\s\S]*?\*\/|\s)*[[{]/.test(bare)) return undefined;
  const { jsonrepair } = await import("jsonrepair");
  try {
    return parse(jsonrepair(bare));
  } catch {
    return undefined;
  }
}

/** What stands between the first fences; all of a text that has none. */
export function withoutFences(text: string): string {
  const fenced = /^[ \t]*(```+|~~~+)[^\n]*\n([\s\S]*?)(?:^[ \t]*\1|$(?![\s\S]))/m.exec(text);
  return (fenced?.[2] ?? text).trim();
}

function parse(text: string): unknown {
  const read = parseJson(text);
  return read.ok ? read.value : undefined;
}

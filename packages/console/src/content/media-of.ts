import type { ToolResult } from "../api/types.ts";
import { isSafeLink } from "./markdown-inline.ts";

/** A file or address that came with a result. */
export interface Medium {
  readonly kind: "image" | "audio" | "video" | "file" | "link";
  readonly url: string;
  readonly name: string;
}

/** Everything in a result that is not text. What lies on another machine becomes a link: it is never fetched unasked. */
export function mediaOf({ attachments = [], blocks = [] }: ToolResult): Medium[] {
  const files = attachments.map(({ mime, url, filename }) => medium(mime, url, filename));
  const fromBlocks = blocks.flatMap((block) => {
    const { type, data, mimeType, uri, name } = block;
    const mime = typeof mimeType === "string" ? mimeType : "application/octet-stream";
    if ((type === "image" || type === "audio") && typeof data === "string")
      return [medium(mime, `data:${mime};base64,${data}`)];
    if (type === "resource_link" && typeof uri === "string")
      return [medium("", uri, typeof name === "string" ? name : uri)];
    return [];
  });
  // A file that is in both was given once.
  const seen = new Set<string>();
  return [...files, ...fromBlocks].filter(({ url }) => !seen.has(url) && seen.add(url));
}

function medium(mime: string, url: string, name?: string): Medium {
  const shown = name ?? (mime || url);
  if (!url.startsWith("data:")) return { kind: "link", url: isSafeLink(url) ? url : "", name: name ?? url };
  const [family] = mime.split("/");
  // Pictures that can carry scripts are only ever shown as pictures, where scripts do not run.
  const kind = family === "image" || family === "audio" || family === "video" ? family : "file";
  return { kind, url, name: shown };
}

import { writeFile } from "node:fs/promises";
import type { FilePart, ToolResult } from "@toolrack/core";
import { CliError } from "../cli-error.ts";

/** What `--output` wrote. */
export interface SavedOutput {
  readonly bytes: number;
  readonly isText: boolean;
}

/** Writes the first attachment, or the text when there is none. */
export async function saveOutput(
  path: string,
  { content, attachments = [] }: ToolResult,
): Promise<SavedOutput> {
  const [first] = attachments;
  const bytes = first === undefined ? Buffer.from(content) : bytesOf(first);
  try {
    await writeFile(path, bytes);
  } catch (thrown) {
    throw new CliError(`The result could not be saved: ${(thrown as Error).message}`, { code: "not_saved" });
  }
  return { bytes: bytes.length, isText: first === undefined };
}

/** One line about an attachment. */
export function describeAttachment({ mime, url, filename }: FilePart): string {
  const size = url.startsWith("data:") ? formatBytes(dataOf(url)?.length ?? 0) : url;
  return [filename, mime, size].filter((part) => part !== undefined && part !== "").join(", ");
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

function bytesOf({ url }: FilePart): Buffer {
  const data = dataOf(url);
  if (data !== undefined) return data;
  throw new CliError(`The attachment is an address, not data: ${url}. Download it from there.`, {
    code: "not_saved",
    details: { url },
  });
}

function dataOf(url: string): Buffer | undefined {
  const [, encoding, data] = /^data:[^,]*?(;base64)?,(.*)$/s.exec(url) ?? [];
  if (data === undefined) return undefined;
  return encoding === undefined ? Buffer.from(decodeURIComponent(data)) : Buffer.from(data, "base64");
}

import type { FilePart, ToolResult } from "@toolrack/core";
import { asRecord, isRecord } from "../helpers/index.ts";

/** The files that tools gave to one run. The code has handles of them, which it can pass to other tools or return. */
export class RunFiles {
  readonly #files = new Map<string, FilePart>();

  /** `structured`, else the value of a text that is JSON, else the text; with files, an object that has both. */
  valueOf(callId: string, { structured, content, attachments = [] }: ToolResult): unknown {
    const result = structured === undefined ? parsed(content) : structured;
    if (attachments.length === 0) return result;
    const handles = attachments.map((file, at) => {
      const attachment = `${callId}#${at}`;
      this.#files.set(attachment, file);
      return { attachment, mimeType: file.mime, ...(file.filename && { filename: file.filename }) };
    });
    return { result, attachments: handles };
  }

  /** Arguments in which the handle of a file is replaced by the file, as a `data:` URL or its address. */
  inArguments(value: unknown): unknown {
    if (this.#files.size === 0 || typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => this.inArguments(item));
    const file = this.#fileOf(value);
    if (file !== undefined) return file.url;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.inArguments(item)]));
  }

  /** The files whose handles are in the value. */
  namedIn(value: unknown): FilePart[] {
    const files = new Set<FilePart>();
    const collect = (item: unknown): void => {
      if (typeof item !== "object" || item === null || this.#files.size === 0) return;
      const file = isRecord(item) ? this.#fileOf(item) : undefined;
      if (file !== undefined) files.add(file);
      for (const member of Object.values(item)) collect(member);
    };
    collect(value);
    return [...files];
  }

  #fileOf(value: object): FilePart | undefined {
    const { attachment } = asRecord(value);
    return typeof attachment === "string" ? this.#files.get(attachment) : undefined;
  }
}

/** Objects and lists that a tool returned as text. Any other text stays as it is: `12` may be a name. */
function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

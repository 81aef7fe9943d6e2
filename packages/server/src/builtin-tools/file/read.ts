import * as s from "../../helpers/schema.ts";
import { amount, answer, defineTool, formatSize } from "../tool-definition.ts";
import {
  decodeText,
  fileType,
  isReadableImage,
  looksBinary,
  type OpenFile,
  openRegularFile,
  type Page,
  readPage,
  type TextEncoding,
  textEncoding,
} from "./support/file-reader.ts";

const HEAD = 8192;
const LONGEST_PAGE = 256 * 1024;
const LARGEST_IMAGE = 2 * 1024 * 1024;

const input = {
  path: s.text("The file: relative to the workspace, or absolute inside it."),
  offset: s.integer("The first line to read, counted from 1.", { minimum: 1, default: 1 }),
  limit: s.integer("The most lines to read.", { minimum: 1, default: 2000 }),
  lineNumbers: s.boolean("Put its number and a tab before every line.", { default: false }),
  "encoding?": s.text(
    "The file's encoding when it is neither UTF-8 nor marked as UTF-16, such as gbk, shift_jis or latin1.",
  ),
  skipBytes: s.integer(
    "Bytes of the first line to leave out. Only to read on inside a line longer than 256 KB; the note at its cut says the number.",
    { minimum: 0, default: 0 },
  ),
};

type ReadArguments = s.Values<typeof input>;

export default defineTool({
  name: "read",
  description:
    "Reads a text file of the workspace. Answers with its lines, at most 2,000 lines or 256 KB per call; a longer " +
    "file ends with a note that says how to read on. An image up to 2 MB comes back as an image; of any other " +
    "binary file only type and size are told.",
  input,
  output: {
    path: s.text(),
    size: s.integer("Bytes of the whole file."),
    "mimeType?": s.text("Of a binary file only."),
    "content?": s.text("The text exactly as in the file; absent for binary files."),
    "encoding?": s.text(),
    "lineEnding?": s.choice(["lf", "crlf", "mixed", "none"]),
    "firstLine?": s.integer(),
    "lastLine?": s.integer(),
    "totalLines?": s.integer("Absent when the file is too large to count."),
    "next?": s.anything({
      type: "object",
      description: "The arguments that read on; absent at the end of the file.",
      properties: { offset: { type: "integer" }, skipBytes: { type: "integer" } },
    }),
  },
  async handler(args, { workspace, signal }) {
    const file = await openRegularFile(workspace, args.path);
    await using handle = file.handle;
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEAD), 0, HEAD, 0);
    const head = buffer.subarray(0, bytesRead);
    const type = fileType(head);
    if (isReadableImage(type, head)) return await imageResult(file, type);
    const encoding = textEncoding(head, args.encoding);
    if (looksBinary(head, encoding)) return binaryResult(file, type);
    const { offset, skipBytes, limit: lines } = args;
    const page = await readPage(handle, { offset, skipBytes, lines, bytes: LONGEST_PAGE, encoding, signal });
    if ("endsAt" in page) throw pastTheEnd(file, args, page.endsAt);
    const text = looksBinary(page.bytes, encoding) ? undefined : decodeText(page.bytes, encoding);
    if (text !== undefined) return textResult(file, args, page, text, encoding);
    if (type !== undefined || looksBinary(page.bytes, encoding)) return binaryResult(file, type);
    throw notThisEncoding(file, args, page, encoding);
  },
  metadata: { category: "file", readOnly: true, idempotent: true },
});

async function imageResult(file: OpenFile, mimeType: string) {
  const { size } = file.stats;
  if (size > LARGEST_IMAGE) return binaryResult(file, mimeType);
  const bytes = Buffer.alloc(size);
  const { bytesRead } = await file.handle.read(bytes, 0, size, 0);
  const data = bytes.subarray(0, bytesRead).toString("base64");
  return {
    content: [
      { type: "text", text: `${file.shown} is an image (${mimeType}, ${formatSize(size)}).` },
      { type: "image", data, mimeType },
    ],
    structuredContent: { path: file.shown, size, mimeType },
  };
}

function binaryResult(file: OpenFile, type: string | undefined) {
  const { size } = file.stats;
  const mimeType = type ?? "application/octet-stream";
  const hint = type === undefined ? ' If it is text in UTF-16, pass encoding: "utf-16le".' : "";
  const text = `${file.shown} is a binary file (${mimeType}, ${formatSize(size)}). Its bytes are not shown.${hint}`;
  return answer(text, { path: file.shown, size, mimeType });
}

function textResult(file: OpenFile, args: ReadArguments, page: Page, text: string, encoding: TextEncoding) {
  const lineEnding = lineEndingOf(text);
  const lastLine = args.offset + page.lines - 1;
  const shown = lineEnding === "lf" ? text : text.replaceAll("\r\n", "\n");
  const body = args.lineNumbers ? numberLines(shown, args.offset) : shown;
  const notes = [rangeNote(file, args, page, lastLine), formNote(encoding, lineEnding)].filter(Boolean);
  const gap = body === "" ? "" : body.endsWith("\n") ? "\n" : "\n\n";
  return answer(notes.length === 0 ? body : `${body}${gap}[${notes.join(" ")}]`, {
    path: file.shown,
    size: file.stats.size,
    content: text,
    encoding: encoding.label,
    lineEnding,
    firstLine: args.offset,
    lastLine,
    ...(page.totalLines !== undefined && { totalLines: page.totalLines }),
    ...(page.next && { next: page.next }),
  });
}

function rangeNote(file: OpenFile, args: ReadArguments, page: Page, lastLine: number): string {
  const { next, totalLines } = page;
  if (page.bytes.length === 0) return `${file.shown} is empty.`;
  if (next !== undefined && next.skipBytes > 0) {
    return `A piece of line ${next.offset}, which is longer than a page. Read on with offset: ${next.offset}, skipBytes: ${next.skipBytes}.`;
  }
  if (next === undefined && args.offset === 1 && args.skipBytes === 0) return "";
  const range = args.offset === lastLine ? `Line ${lastLine}` : `Lines ${args.offset}-${lastLine}`;
  const total =
    totalLines === undefined ? `; the file has ${formatSize(file.stats.size)}` : ` of ${totalLines}`;
  return `${range}${total}.${next === undefined ? "" : ` Read on with offset: ${next.offset}.`}`;
}

/** Properties that the text does not show, but that matter for writing the file. */
function formNote({ bom, label }: TextEncoding, lineEnding: string): string {
  const mark = bom > 0 ? `${label.toUpperCase()} with byte order mark.` : "";
  const ending = { crlf: "CRLF line endings.", mixed: "Mixed line endings." }[lineEnding] ?? "";
  return [mark, ending].filter(Boolean).join(" ");
}

function lineEndingOf(text: string): "lf" | "crlf" | "mixed" | "none" {
  const all = text.split("\n").length;
  const wide = text.split("\r\n").length;
  if (wide === 1) return all === 1 ? "none" : "lf";
  return wide === all ? "crlf" : "mixed";
}

function numberLines(text: string, first: number): string {
  let line = first;
  return text.replace(/[^\n]*\n|[^\n]+$/g, (whole) => `${line++}\t${whole}`);
}

function pastTheEnd(file: OpenFile, args: ReadArguments, lines: number): Error {
  if (args.skipBytes > 0)
    return new Error(`${file.shown} ends before byte ${args.skipBytes} of line ${args.offset}.`);
  return new Error(`${file.shown} has ${amount(lines, "line")}; offset ${args.offset} is past its end.`);
}

function notThisEncoding(file: OpenFile, args: ReadArguments, page: Page, encoding: TextEncoding): Error {
  const last = args.offset + page.lines - 1;
  const advice = args.encoding === undefined ? "If it is text in another encoding, pass" : "Pass another";
  return new Error(
    `${file.shown} is not ${encoding.label.toUpperCase()} text (lines ${args.offset}-${last}). ${advice} encoding, such as "gbk", "shift_jis" or "latin1".`,
  );
}

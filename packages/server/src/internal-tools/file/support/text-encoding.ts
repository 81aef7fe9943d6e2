/** How the bytes of a file become lines of text. */
export interface TextEncoding {
  /** As `TextDecoder` names it. */
  readonly label: string;
  /** Bytes of the byte order mark, which is no text. */
  readonly bom: number;
  /** Where the line that goes on at `from` ends: behind its newline; -1 when the newline is not in `bytes`. */
  lineEnd(bytes: Buffer, from: number): number;
}

/** Files that hold this byte are not text, but for UTF-16, where every other byte of English is one. */
const NUL = 0;
const NEWLINE = 10;

/** The encoding asked for, or the one that the byte order mark tells; UTF-8 without either. */
export function textEncoding(head: Uint8Array, asked: string | undefined): TextEncoding {
  const marked = fromMark(head);
  const label = asked === undefined ? (marked?.label ?? "utf-8") : knownLabel(asked);
  const bom = marked?.label === label ? marked.bom : 0;
  if (label === "utf-16le") return { label, bom, lineEnd: (bytes, from) => wideLineEnd(bytes, from, 0) };
  if (label === "utf-16be") return { label, bom, lineEnd: (bytes, from) => wideLineEnd(bytes, from, 1) };
  return { label, bom, lineEnd: narrowLineEnd };
}

/** Whether bytes read in this encoding can be text at all. */
export function looksBinary(bytes: Uint8Array, encoding: TextEncoding): boolean {
  return !encoding.label.startsWith("utf-16") && bytes.includes(NUL);
}

/** The text of whole characters; `undefined` when the bytes are not of this encoding. */
export function decodeText(bytes: Uint8Array, encoding: TextEncoding): string | undefined {
  try {
    return new TextDecoder(encoding.label, { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function knownLabel(asked: string): string {
  try {
    return new TextDecoder(asked).encoding;
  } catch {
    throw new Error(
      `"${asked}" is no encoding known here. Some that are: utf-8, utf-16le, latin1, gbk, gb18030, big5, shift_jis, euc-kr, windows-1252.`,
    );
  }
}

function fromMark(head: Uint8Array): { label: string; bom: number } | undefined {
  if (head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf) return { label: "utf-8", bom: 3 };
  if (head[0] === 0xff && head[1] === 0xfe) return { label: "utf-16le", bom: 2 };
  if (head[0] === 0xfe && head[1] === 0xff) return { label: "utf-16be", bom: 2 };
  return undefined;
}

function narrowLineEnd(bytes: Buffer, from: number): number {
  return bytes.indexOf(NEWLINE, from) + 1 || -1;
}

/** `bytes` must begin at an even position of the file. `low` is where the newline stands in its pair. */
function wideLineEnd(bytes: Buffer, from: number, low: 0 | 1): number {
  for (let at = bytes.indexOf(NEWLINE, from); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) {
    if (at % 2 === low && bytes[low === 0 ? at + 1 : at - 1] === NUL) return at - low + 2;
  }
  return -1;
}

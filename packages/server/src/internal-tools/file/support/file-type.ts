interface Signature {
  readonly type: string;
  readonly bytes: readonly number[];
  readonly at?: number;
}

const ascii = (text: string): readonly number[] => [...text].map((letter) => letter.charCodeAt(0));

const signatures: readonly Signature[] = [
  { type: "image/png", bytes: [0x89, ...ascii("PNG\r\n"), 0x1a, 0x0a] },
  { type: "image/jpeg", bytes: [0xff, 0xd8, 0xff] },
  { type: "image/gif", bytes: ascii("GIF8") },
  { type: "image/webp", bytes: ascii("WEBP"), at: 8 },
  { type: "audio/wav", bytes: ascii("WAVE"), at: 8 },
  { type: "image/bmp", bytes: ascii("BM") },
  { type: "application/pdf", bytes: ascii("%PDF-") },
  { type: "application/zip", bytes: [0x50, 0x4b, 0x03, 0x04] },
  { type: "application/gzip", bytes: [0x1f, 0x8b] },
  { type: "application/zstd", bytes: [0x28, 0xb5, 0x2f, 0xfd] },
  { type: "application/x-xz", bytes: [0xfd, ...ascii("7zXZ")] },
  { type: "application/x-7z-compressed", bytes: [...ascii("7z"), 0xbc, 0xaf, 0x27, 0x1c] },
  { type: "application/vnd.sqlite3", bytes: ascii("SQLite format 3") },
  { type: "application/wasm", bytes: [0x00, ...ascii("asm")] },
  { type: "application/x-elf", bytes: [0x7f, ...ascii("ELF")] },
  { type: "video/mp4", bytes: ascii("ftyp"), at: 4 },
  { type: "audio/ogg", bytes: ascii("OggS") },
  { type: "audio/mpeg", bytes: ascii("ID3") },
  { type: "font/woff2", bytes: ascii("wOF2") },
];

/** Images that every model's provider takes. */
const readableImages = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** The media type that the first bytes of a file give away. Text may look like one of them by chance. */
export function fileType(head: Uint8Array): string | undefined {
  return signatures.find(({ bytes, at = 0 }) => bytes.every((byte, index) => head[at + index] === byte))
    ?.type;
}

/** Whether the file is an image that a model can be shown. */
export function isReadableImage(type: string | undefined, head: Uint8Array): type is string {
  const isNoText = head.includes(0) || (head[0] ?? 0) >= 0x80;
  return isNoText && type !== undefined && readableImages.has(type);
}

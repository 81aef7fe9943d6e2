export interface ZipFile {
  readonly path: string;
  readonly content: Uint8Array;
  readonly executable: boolean;
}

/** An archive of the files, uncompressed: a skill is small, and every system opens it. */
export function zip(files: readonly ZipFile[]): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const { path, content, executable } of files) {
    const name = new TextEncoder().encode(path);
    const facts = [VERSION, UTF8_NAMES, STORED, 0, FIRST_OF_1980] as const;
    const sizes = [crc32(content), content.length, content.length] as const;
    const local = record(30, (set) => {
      set.long(0x04034b50);
      for (const fact of facts) set.short(fact);
      for (const size of sizes) set.long(size);
      set.short(name.length);
      set.short(0);
    });
    directory.push(
      record(46, (set) => {
        set.long(0x02014b50);
        set.short(MADE_ON_UNIX | VERSION);
        for (const fact of facts) set.short(fact);
        for (const size of sizes) set.long(size);
        set.short(name.length);
        for (let empty = 0; empty < 4; empty++) set.short(0);
        // The upper half holds the mode that Unix gives the file.
        set.long((0o100000 | (executable ? 0o755 : 0o644)) * 0x10000);
        set.long(offset);
      }),
      name,
    );
    parts.push(local, name, content);
    offset += local.length + name.length + content.length;
  }
  const directorySize = directory.reduce((sum, { length }) => sum + length, 0);
  const end = record(22, (set) => {
    set.long(0x06054b50);
    set.short(0);
    set.short(0);
    set.short(files.length);
    set.short(files.length);
    set.long(directorySize);
    set.long(offset);
    set.short(0);
  });
  return concatenate([...parts, ...directory, end]);
}

const VERSION = 20;
const MADE_ON_UNIX = 3 << 8;
const UTF8_NAMES = 1 << 11;
const STORED = 0;
/** The earliest date that the format knows; the same skill gives the same archive. */
const FIRST_OF_1980 = (1 << 5) | 1;

function record(
  size: number,
  fill: (set: { short(value: number): void; long(value: number): void }) => void,
): Uint8Array {
  const view = new DataView(new ArrayBuffer(size));
  let at = 0;
  fill({
    short(value) {
      view.setUint16(at, value, true);
      at += 2;
    },
    long(value) {
      view.setUint32(at, value, true);
      at += 4;
    },
  });
  return new Uint8Array(view.buffer);
}

const table = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

function crc32(content: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of content) sum = table[(sum ^ byte) & 0xff]! ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}

function concatenate(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/** The contents of SQLite's write-ahead log, the file with the latest changes. */
export interface WriteAheadLog {
  /** The offset of each page's latest committed content, by page number. */
  readonly pages: ReadonlyMap<number, number>;
  /** How many frames SQLite reads. A frame is one page. */
  readonly frames: number;
  /** Later frames of the same log that SQLite cannot read any more. */
  readonly dropped: number;
  /** Whether the log has frames that are neither current nor left over from an earlier log. */
  readonly isDamaged: boolean;
}

const HEADER = 32;
const FRAME_HEADER = 24;
/** The last bit is set when checksums use big-endian words. */
const MAGIC = 0x377f0682;
/** Each restart of the log raises its first salt by one. A salt that is at most this much older is a leftover. */
const GENERATIONS = 1 << 20;
const emptyLog: WriteAheadLog = { pages: new Map(), frames: 0, dropped: 0, isDamaged: false };

/**
 * Reads the log as SQLite does when it recovers: up to the first frame with a wrong checksum. Unlike SQLite, it reports
 * what is left out. Must be called while no process has the database open.
 */
export function readWriteAheadLog(path: string): WriteAheadLog {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    if (size === 0) return emptyLog;
    const header = Buffer.alloc(HEADER);
    if (readSync(file, header, 0, HEADER, 0) < HEADER) return { ...emptyLog, isDamaged: true };
    const pageSize = header.readUInt32BE(8);
    const sum = new Checksum((header.readUInt32BE(0) & 1) === 1);
    sum.add(header.subarray(0, 24));
    const isHeader = (header.readUInt32BE(0) & ~1) >>> 0 === MAGIC && sum.matches(header, 24);
    if (!isHeader || !isPageSize(pageSize)) return { ...emptyLog, isDamaged: true };
    return readFrames(file, size, header, pageSize, sum);
  } finally {
    closeSync(file);
  }
}

function readFrames(
  file: number,
  size: number,
  header: Buffer,
  pageSize: number,
  sum: Checksum,
): WriteAheadLog {
  const salts = header.subarray(16, 24);
  const frame = Buffer.alloc(FRAME_HEADER + pageSize);
  const frameAt = (at: number) => readSync(file, frame, 0, frame.length, at) === frame.length;
  const pages = new Map<number, number>();
  let uncommitted: [number, number][] = [];
  let frames = 0;
  let at = HEADER;
  for (; frameAt(at); at += frame.length) {
    if (!frame.subarray(8, 16).equals(salts)) break;
    sum.add(frame.subarray(0, 8));
    sum.add(frame.subarray(FRAME_HEADER));
    if (!sum.matches(frame, 16)) break;
    uncommitted.push([frame.readUInt32BE(0), at + FRAME_HEADER]);
    if (frame.readUInt32BE(4) === 0) continue;
    for (const [page, offset] of uncommitted) pages.set(page, offset);
    frames += uncommitted.length;
    uncommitted = [];
  }
  // A killed process leaves at most one incomplete frame. More, or a frame with an unknown salt, is damage.
  let dropped = 0;
  let isForeign = false;
  for (let behind = at; behind + frame.length <= size && frameAt(behind); behind += frame.length) {
    if (frame.subarray(8, 16).equals(salts)) dropped++;
    else if (behind === at) isForeign = !isOlder(frame.readUInt32BE(8), header.readUInt32BE(16));
  }
  return { pages, frames, dropped, isDamaged: isForeign || dropped > 1 };
}

function isOlder(salt: number, current: number): boolean {
  const age = (current - salt) >>> 0;
  return age > 0 && age <= GENERATIONS;
}

export function isPageSize(size: number): boolean {
  return size >= 512 && size <= 65_536 && (size & (size - 1)) === 0;
}

/** SQLite's checksum, which runs on from the header to the last frame. */
class Checksum {
  readonly #isBigEndian: boolean;
  #one = 0;
  #two = 0;

  constructor(isBigEndian: boolean) {
    this.#isBigEndian = isBigEndian;
  }

  add(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at += 8) {
      this.#one = (this.#one + this.#word(bytes, at) + this.#two) >>> 0;
      this.#two = (this.#two + this.#word(bytes, at + 4) + this.#one) >>> 0;
    }
  }

  matches(bytes: Buffer, at: number): boolean {
    return bytes.readUInt32BE(at) === this.#one && bytes.readUInt32BE(at + 4) === this.#two;
  }

  #word(bytes: Buffer, at: number): number {
    return this.#isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at);
  }
}

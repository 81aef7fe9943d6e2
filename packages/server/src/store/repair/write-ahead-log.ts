import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/** What there is in the file beside a SQLite database that has its latest changes. */
export interface WriteAheadLog {
  /** Where in the file the latest committed content of each page is, by the number of the page. */
  readonly pages: ReadonlyMap<number, number>;
  /** Frames that SQLite reads, each a page. */
  readonly frames: number;
  /** Frames behind them that were written for the same changes and cannot be read any more. */
  readonly dropped: number;
  /** Whether something in it is neither a frame of now nor what is left of earlier ones. */
  readonly isDamaged: boolean;
}

const HEADER = 32;
const FRAME_HEADER = 24;
/** `0x377f0682`, with the last bit set where checksums are made of big-endian words. */
const MAGIC = 0x377f0682;
/** Every restart of the log counts its first salt up by one; what is older by no more than this is a leftover. */
const GENERATIONS = 1 << 20;
const none: WriteAheadLog = { pages: new Map(), frames: 0, dropped: 0, isDamaged: false };

/**
 * Reads the log as SQLite does when it recovers: frame by frame, up to the first whose checksum is wrong. SQLite says
 * nothing of what it leaves out; this does. To be called while nobody has the database open.
 */
export function readWriteAheadLog(path: string): WriteAheadLog {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    if (size === 0) return none;
    const header = Buffer.alloc(HEADER);
    if (readSync(file, header, 0, HEADER, 0) < HEADER) return { ...none, isDamaged: true };
    const pageSize = header.readUInt32BE(8);
    const sum = new Checksum((header.readUInt32BE(0) & 1) === 1);
    sum.add(header.subarray(0, 24));
    const isHeader = (header.readUInt32BE(0) & ~1) >>> 0 === MAGIC && sum.matches(header, 24);
    if (!isHeader || !isPageSize(pageSize)) return { ...none, isDamaged: true };
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
  // A process that is killed leaves at most one frame that is not whole. More, or one of no known age, is damage.
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

/** SQLite's own, over pairs of words, from the header on to the last frame. */
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

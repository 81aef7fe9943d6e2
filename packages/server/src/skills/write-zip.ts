import { crc32 } from "node:zlib";
import type { SkillFile } from "../store/skills/skill-store.ts";

/** A zip archive of the files, uncompressed: a skill is small, and every system opens it. The same files give the same bytes. */
export function writeZip(files: readonly SkillFile[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const file of files) {
    const name = Buffer.from(file.path);
    const local = localHeader(file, name);
    directory.push(centralHeader(file, name, offset), name);
    parts.push(local, name, file.content);
    offset += local.length + name.length + file.content.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(files.length, 8);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, central, end]);
}

const VERSION = 20;
const MADE_ON_UNIX = 3 << 8;
const UTF8_NAMES = 1 << 11;
/** The earliest day that the format knows. */
const FIRST_OF_1980 = (1 << 5) | 1;

function localHeader(file: SkillFile, name: Buffer): Buffer {
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x04034b50, 0);
  writeFacts(header, 4, file, name);
  return header;
}

function centralHeader(file: SkillFile, name: Buffer, offset: number): Buffer {
  const header = Buffer.alloc(46);
  header.writeUInt32LE(0x02014b50, 0);
  header.writeUInt16LE(MADE_ON_UNIX | VERSION, 4);
  writeFacts(header, 6, file, name);
  // The upper half holds the mode that Unix gives the file.
  header.writeUInt32LE((0o100000 | (file.executable ? 0o755 : 0o644)) * 0x10000, 38);
  header.writeUInt32LE(offset, 42);
  return header;
}

/** What both headers say of a file, in the same order. */
function writeFacts(header: Buffer, at: number, { content }: SkillFile, name: Buffer): void {
  header.writeUInt16LE(VERSION, at);
  header.writeUInt16LE(UTF8_NAMES, at + 2);
  header.writeUInt16LE(FIRST_OF_1980, at + 8);
  header.writeUInt32LE(crc32(content), at + 10);
  header.writeUInt32LE(content.length, at + 14);
  header.writeUInt32LE(content.length, at + 18);
  header.writeUInt16LE(name.length, at + 22);
}

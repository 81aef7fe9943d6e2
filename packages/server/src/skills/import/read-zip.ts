import { promisify } from "node:util";
import { crc32, inflateRaw } from "node:zlib";
import type { SkillFile } from "../../store/skills/skill-store.ts";

const inflate = promisify(inflateRaw);

export interface ZipLimits {
  readonly files: number;
  /** Of all files together, unpacked. */
  readonly bytes: number;
}

/**
 * The files of a zip archive, by the paths that it gives them; whoever writes them somewhere checks those. Links and
 * what macOS adds are left out. Never unpacks more than `limits` allows, whatever the archive says of its sizes. Throws
 * with the reason for what is no archive, is damaged, or has more.
 */
export async function readZip(bytes: Buffer, limits: ZipLimits): Promise<SkillFile[]> {
  const files: SkillFile[] = [];
  let left = limits.bytes;
  for (const entry of entriesOf(bytes)) {
    if (isLeftOut(entry)) continue;
    if (files.length === limits.files) throw new Error(`The archive has more than ${limits.files} files.`);
    const content = await contentOf(bytes, entry, left);
    left -= content.length;
    files.push({ path: entry.path, content, executable: (entry.mode & 0o100) !== 0 });
  }
  return files;
}

interface Entry {
  readonly path: string;
  /** As Unix has it; 0 where the archive was made elsewhere. */
  readonly mode: number;
  readonly method: number;
  readonly isEncrypted: boolean;
  readonly checksum: number;
  readonly packed: number;
  readonly size: number;
  readonly offset: number;
}

const END = 0x06054b50;
const CENTRAL = 0x02014b50;
const LOCAL = 0x04034b50;
const END_SIZE = 22;
const CENTRAL_SIZE = 46;
const LOCAL_SIZE = 30;
const LONGEST_COMMENT = 0xffff;
const UNIX = 3;
const LINK = 0o120000;
const KIND = 0o170000;

function* entriesOf(bytes: Buffer): Generator<Entry> {
  const end = endOf(bytes);
  const count = bytes.readUInt16LE(end + 10);
  let at = bytes.readUInt32LE(end + 16);
  for (let number = 0; number < count; number++) {
    if (at + CENTRAL_SIZE > end || bytes.readUInt32LE(at) !== CENTRAL) throw damaged();
    const name = at + CENTRAL_SIZE;
    const nameLength = bytes.readUInt16LE(at + 28);
    const isUnix = bytes.readUInt8(at + 5) === UNIX;
    yield {
      path: bytes.toString("utf8", name, name + nameLength),
      mode: isUnix ? bytes.readUInt32LE(at + 38) >>> 16 : 0,
      isEncrypted: (bytes.readUInt16LE(at + 8) & 1) === 1,
      method: bytes.readUInt16LE(at + 10),
      checksum: bytes.readUInt32LE(at + 16),
      packed: bytes.readUInt32LE(at + 20),
      size: bytes.readUInt32LE(at + 24),
      offset: bytes.readUInt32LE(at + 42),
    };
    at = name + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
}

/** Where the record stands that every archive ends with, but for a comment. */
function endOf(bytes: Buffer): number {
  const first = Math.max(0, bytes.length - END_SIZE - LONGEST_COMMENT);
  for (let at = bytes.length - END_SIZE; at >= first; at--) {
    if (bytes.readUInt32LE(at) === END) return at;
  }
  throw new Error("This is no zip archive.");
}

function isLeftOut({ path, mode }: Entry): boolean {
  const isLink = (mode & KIND) === LINK;
  return path.endsWith("/") || isLink || /^__MACOSX\/|(^|\/)\.DS_Store$/.test(path);
}

async function contentOf(bytes: Buffer, entry: Entry, most: number): Promise<Buffer> {
  const { path, offset, packed, size, method, isEncrypted, checksum } = entry;
  if (isEncrypted) throw new Error(`"${path}" is encrypted. Pack it without a password.`);
  if (method !== 0 && method !== 8) throw new Error(`"${path}" is packed in a way that cannot be read.`);
  if (size > most) throw tooLarge();
  if (offset + LOCAL_SIZE > bytes.length || bytes.readUInt32LE(offset) !== LOCAL) throw damaged();
  const start = offset + LOCAL_SIZE + bytes.readUInt16LE(offset + 26) + bytes.readUInt16LE(offset + 28);
  if (start + packed > bytes.length) throw damaged();
  const raw = bytes.subarray(start, start + packed);
  const content = method === 0 ? raw : await unpacked(raw, most);
  if (content.length !== size || crc32(content) !== checksum) throw damaged();
  return content;
}

async function unpacked(raw: Buffer, most: number): Promise<Buffer> {
  try {
    return await inflate(raw, { maxOutputLength: Math.max(1, most) });
  } catch (thrown) {
    throw (thrown as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE" ? tooLarge() : damaged();
  }
}

function tooLarge(): Error {
  return new Error("The archive holds more than can be imported at once. Import its skills one by one.");
}

function damaged(): Error {
  return new Error("The archive is damaged. Pack or export it again.");
}

import { buffer } from "node:stream/consumers";
import { crc32 } from "node:zlib";
import type { Entry, ZipFile } from "yauzl";
import type { SkillFile } from "../../store/index.ts";

/** The earliest date that a zip archive can hold. With it, the same files always give the same bytes. */
const FIRST_DAY = new Date(1980, 0, 1);

/** A zip archive of the files, uncompressed: a skill is small, and every system opens it. */
export async function writeZip(files: readonly SkillFile[]): Promise<Buffer> {
  const { ZipFile } = await import("yazl");
  const archive = new ZipFile();
  for (const { path, content, executable } of files) {
    const mode = 0o100000 | (executable ? 0o755 : 0o644);
    archive.addBuffer(content, path, { compress: false, mtime: FIRST_DAY, forceDosTimestamp: true, mode });
  }
  archive.end();
  return buffer(archive.outputStream);
}

interface ZipLimits {
  readonly files: number;
  /** The unpacked size of all files. */
  readonly bytes: number;
}

/** A problem of an archive, described for its sender. */
class ArchiveError extends Error {}

const UNIX = 3;
const KIND = 0o170000;
const LINK = 0o120000;

/**
 * The files of a zip archive by their paths, which the caller must check before writing. Leaves out links and
 * files that macOS adds. Never unpacks more than `limits` allows, whatever sizes the archive claims. Throws
 * when `bytes` are no archive, are damaged, or are too large.
 */
export async function readZip(bytes: Buffer, limits: ZipLimits): Promise<SkillFile[]> {
  const { fromBufferPromise } = await import("yauzl");
  const files: SkillFile[] = [];
  let left = limits.bytes;
  try {
    // The caller checks paths, and sizes are checked below: those in the archive may be wrong.
    const options = { lazyEntries: true, decodeStrings: false, validateEntrySizes: false };
    const archive = await fromBufferPromise(bytes, options);
    for await (const entry of archive.eachEntry()) {
      const path = entry.fileNameRaw.toString("utf8");
      const mode = entry.versionMadeBy >>> 8 === UNIX ? entry.externalFileAttributes >>> 16 : 0;
      const isLink = (mode & KIND) === LINK;
      if (path.endsWith("/") || isLink || /^__MACOSX\/|(^|\/)\.DS_Store$/.test(path)) continue;
      if (files.length === limits.files)
        throw new ArchiveError(`The archive has more than ${limits.files} files.`);
      const content = await contentOf(archive, entry, path, left);
      left -= content.length;
      files.push({ path, content, executable: (mode & 0o100) !== 0 });
    }
    return files;
  } catch (thrown) {
    if (thrown instanceof ArchiveError) throw thrown;
    const isNone = thrown instanceof Error && /signature not found/i.test(thrown.message);
    throw new Error(isNone ? "This is no zip archive." : "The archive is damaged. Pack or export it again.");
  }
}

async function contentOf(archive: ZipFile, entry: Entry, path: string, most: number): Promise<Buffer> {
  const { compressionMethod, uncompressedSize } = entry;
  if (entry.isEncrypted()) throw new ArchiveError(`"${path}" is encrypted. Pack it without a password.`);
  if (compressionMethod !== 0 && compressionMethod !== 8)
    throw new ArchiveError(`"${path}" is packed in a way that cannot be read.`);
  const chunks: Buffer[] = [];
  let size = uncompressedSize > most ? uncompressedSize : 0;
  for await (const chunk of await archive.openReadStreamPromise(entry)) {
    size += chunk.length;
    if (size > most) break;
    chunks.push(chunk);
  }
  if (size > most)
    throw new ArchiveError(
      "The archive holds more than can be imported at once. Import its skills one by one.",
    );
  const content = Buffer.concat(chunks);
  if (size !== uncompressedSize || crc32(content) !== entry.crc32)
    throw new Error("It is not what was packed.");
  return content;
}

import { randomUUID } from "node:crypto";
import { existsSync, lstatSync, statSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { crc32, inflateRaw } from "node:zlib";
import type { Sandbox } from "../../sandbox/index.ts";
import type { SkillBundle, SkillFile } from "../../store/index.ts";
import { SkillInputError } from "../checks.ts";
import { otherFiles } from "../export.ts";
import {
  findSkillFolders,
  isSafePath,
  readSkillFiles,
  readSkillFolder,
  readSkillText,
  writeSkillFiles,
} from "../folder.ts";
import { parseSqlDump } from "./sql-dump.ts";
import { fromTables, type ImportedTables, type ImportFailure, importedColumns } from "./tables.ts";

export interface ImportOptions {
  readonly sandbox: () => Promise<Sandbox>;
  /** Whether what is imported is the operator's own. */
  readonly trusted: boolean;
}

const importedTables = [...importedColumns.keys()];

type Tables = Map<string, Record<string, unknown>[]>;

/**
 * Reads what is to be imported: folders with a `SKILL.md`, folders of such folders, SQL dumps, CSV files named like
 * their tables, and folders of those. Throws for a path that is none of these.
 */
export async function readImport(paths: readonly string[], options: ImportOptions): Promise<ImportedTables> {
  const read: ReadFolders = { bundles: [], failed: [], warnings: [] };
  const tables: Tables = new Map();
  for (const path of paths) {
    if (!existsSync(path)) throw new Error(`There is no ${path}.`);
    if (statSync(path).isDirectory()) await readFolder(path, options, read, tables);
    else await readTable(path, tables);
  }
  const found = fromTables(tables, options.trusted);
  const bundles = [...read.bundles, ...found.bundles];
  const failed = [...read.failed, ...found.failed];
  if (bundles.length + found.experts.length + failed.length === 0) {
    throw new Error(`There is no skill and no expert in ${paths.join(", ")}.`);
  }
  return { bundles, failed, experts: found.experts, warnings: [...read.warnings, ...found.warnings] };
}

interface ReadFolders {
  readonly bundles: SkillBundle[];
  readonly failed: ImportFailure[];
  readonly warnings: string[];
}

async function readFolder(
  path: string,
  options: ImportOptions,
  read: ReadFolders,
  tables: Tables,
): Promise<void> {
  const folders = existsSync(join(path, "SKILL.md")) ? [path] : await foldersBelow(path);
  for (const folder of folders) {
    try {
      const { skill, tools, warnings } = await readSkillFolder(folder, options);
      read.bundles.push({ skill, tools, files: otherFiles(await readSkillFiles(folder)) });
      read.warnings.push(...warnings.map((warning) => `${basename(folder)}: ${warning}`));
    } catch (thrown) {
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      read.failed.push({ name: basename(folder), reason });
    }
  }
  const entries = folders.length > 0 ? [] : await readdir(path, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile() && isTableFile(entry.name)).map(({ name }) => name);
  for (const name of names) await readTable(join(path, name), tables);
  if (folders.length === 0 && names.length === 0) {
    throw new Error(
      `${path} has neither a SKILL.md, nor folders with one, nor ${importedTables.join(".csv, ")}.csv.`,
    );
  }
}

/** What a folder from elsewhere links to is not part of it. */
async function foldersBelow(path: string): Promise<string[]> {
  return (await findSkillFolders([path])).filter((folder) => lstatSync(folder).isDirectory());
}

async function readTable(path: string, tables: Tables): Promise<void> {
  const text = await readFile(path, "utf8");
  if (path.toLowerCase().endsWith(".sql")) {
    const rows = parseSqlDump(text, importedColumns);
    if (rows.size === 0) throw new Error(`${path} has no rows of ${importedTables.join(", ")}.`);
    for (const [table, found] of rows) tables.set(table, [...(tables.get(table) ?? []), ...found]);
    return;
  }
  const table = tableOf(path);
  if (table === undefined) {
    throw new Error(`${path} is neither a .sql dump nor one of ${importedTables.join(".csv, ")}.csv.`);
  }
  tables.set(table, [...(tables.get(table) ?? []), ...parseCsv(text)]);
}

function isTableFile(name: string): boolean {
  return name.toLowerCase().endsWith(".sql") || tableOf(name) !== undefined;
}

function tableOf(path: string): string | undefined {
  const name = basename(path).toLowerCase();
  return importedTables.find((table) => name === `${table}.csv`);
}

/**
 * Reads what somebody sent as files, exactly like the same files in a folder. For as long as that takes they lie below
 * `parent`, which whoever is told of trouble does not learn. Throws `SkillInputError`.
 */
export async function readUpload(
  parent: string,
  files: readonly SkillFile[],
  options: ImportOptions,
): Promise<ImportedTables> {
  if (files.length === 0) throw SkillInputError.of("files", "There is none.");
  for (const { path } of files) {
    if (!isSafePath(path)) throw SkillInputError.of("files", `"${path}" is no path for a file.`);
  }
  const folder = join(parent, `.${randomUUID()}`);
  const told = (text: string) => text.replaceAll(`${folder}/`, "").replaceAll(folder, "What was sent");
  try {
    await mkdir(folder, { recursive: true, mode: 0o755 });
    const placed = await inFolder(files);
    if (placed === undefined) {
      const failed = [{ name: "SKILL.md", reason: nameless }];
      return { bundles: [], experts: [], failed, warnings: [] };
    }
    await writeSkillFiles(folder, placed);
    const found = await readImport([join(folder, commonFolder(placed))], options);
    return {
      ...found,
      failed: found.failed.map(({ name, reason }) => ({ name, reason: told(reason) })),
      warnings: found.warnings.map(told),
    };
  } catch (thrown) {
    throw SkillInputError.of("files", told(thrown instanceof Error ? thrown.message : String(thrown)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const nameless =
  "It has no name, and its folder, which could have given it one, was not sent with it. Begin it with front matter that says `name: my-skill` between two lines of three dashes, or send the folder.";

/**
 * A skill whose folder was not sent with it is put into one of its name, as the format wants it. Undefined when it has
 * none.
 */
async function inFolder(files: readonly SkillFile[]): Promise<readonly SkillFile[] | undefined> {
  const text = files.find(({ path }) => path === "SKILL.md")?.content.toString("utf8");
  if (text === undefined) return files;
  // What is wrong with it is said by whoever reads the skill.
  const name = await readSkillText(text).then(
    ({ frontMatter }) => frontMatter.name ?? "",
    () => undefined,
  );
  if (typeof name === "string" && name.trim() === "") return undefined;
  const folder = typeof name === "string" && /^[a-z0-9-]{1,64}$/.test(name) ? name : "skill";
  return files.map((file) => ({ ...file, path: `${folder}/${file.path}` }));
}

/** The one folder that all files lie in; nothing when there is none. */
function commonFolder(files: readonly SkillFile[]): string {
  const first = files[0]!.path.split("/")[0]!;
  return files.every(({ path }) => path.startsWith(`${first}/`)) ? first : "";
}

const inflate = promisify(inflateRaw);

interface ZipLimits {
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

/** Rows of a CSV text by the names in its first line, in lower case; quotes as in RFC 4180. Empty fields are left out. */
function parseCsv(text: string): Record<string, string>[] {
  const plain = text.replace(/^\uFEFF/, "");
  const [head = [], ...rows] = splitRows(plain, separatorOf(plain));
  return rows
    .filter((row) => row.length > 1 || row[0] !== "")
    .map((row) =>
      Object.fromEntries(
        head.flatMap((name, at) => {
          const value = row[at];
          return value === undefined || value === "" || value === "NULL" || value === "\\N"
            ? []
            : [[name.trim().toLowerCase(), value]];
        }),
      ),
    );
}

/** Spreadsheets of many countries write semicolons. */
function separatorOf(text: string): string {
  const head = text.split("\n", 1)[0] ?? "";
  return head.includes(",") ? "," : (/[;\t]/.exec(head)?.[0] ?? ",");
}

function splitRows(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let isQuoted = false;
  const endRow = () => {
    rows.push([...row, field]);
    row = [];
    field = "";
  };
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]!;
    if (isQuoted) {
      if (sign !== '"') field += sign;
      else if (text[at + 1] === '"') field += text[++at]!;
      else isQuoted = false;
    } else if (sign === '"' && field === "") isQuoted = true;
    else if (sign === separator) {
      row.push(field);
      field = "";
    } else if (sign === "\n") endRow();
    else if (sign !== "\r" || text[at + 1] !== "\n") field += sign;
  }
  if (isQuoted) throw new Error("The CSV has a quote that is not closed.");
  if (field !== "" || row.length > 0) endRow();
  return rows;
}

import { randomUUID } from "node:crypto";
import { existsSync, lstatSync, statSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { reasonOf } from "../../helpers/index.ts";
import type { Sandbox } from "../../sandbox/index.ts";
import type { SkillBundle, SkillFile } from "../../store/index.ts";
import {
  findSkillFolders,
  otherFiles,
  readSkillFiles,
  readSkillFolder,
  readSkillText,
  writeSkillFiles,
} from "../folder.ts";
import { isSafePath, SkillInputError } from "../skill.ts";
import type { InstallPackages } from "../skill-packages.ts";
import { fromTables, type ImportedTables, type ImportFailure, importedTables } from "./imported-tables.ts";
import { parseSqlDump } from "./sql-dump.ts";

export interface ImportOptions {
  readonly sandbox: () => Promise<Sandbox>;
  /** Installs the packages without which a skill cannot say which tools it has. Default: none are installed. */
  readonly install?: InstallPackages;
  /** Whether the imported skills are the operator's own. */
  readonly trusted: boolean;
}

type Tables = Map<string, Record<string, unknown>[]>;

/**
 * Reads skills and experts to import. A path may be a folder with a `SKILL.md`, a folder of such folders, an
 * SQL dump, a CSV file named like its table, or a folder of dumps and CSV files. Throws for any other path.
 */
export async function readImport(paths: readonly string[], options: ImportOptions): Promise<ImportedTables> {
  const bundles: SkillBundle[] = [];
  const failed: ImportFailure[] = [];
  const warnings: string[] = [];
  const tables: Tables = new Map();
  const readSkill = async (folder: string) => {
    try {
      const { skill, tools, warnings: own } = await readSkillFolder(folder, options);
      bundles.push({ skill, tools, files: otherFiles(await readSkillFiles(folder)) });
      warnings.push(...own.map((warning) => `${basename(folder)}: ${warning}`));
    } catch (thrown) {
      failed.push({ name: basename(folder), reason: reasonOf(thrown) });
    }
  };
  for (const path of paths) {
    if (!existsSync(path)) throw new Error(`There is no ${path}.`);
    if (!statSync(path).isDirectory()) {
      await readTable(path, tables);
      continue;
    }
    const folders = existsSync(join(path, "SKILL.md")) ? [path] : await foldersBelow(path);
    for (const folder of folders) await readSkill(folder);
    if (folders.length > 0) continue;
    const entries = await readdir(path, { withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile() && isTableFile(entry.name));
    for (const { name } of files) await readTable(join(path, name), tables);
    if (files.length === 0) {
      throw new Error(
        `${path} has neither a SKILL.md, nor folders with one, nor ${importedTables.join(".csv, ")}.csv.`,
      );
    }
  }
  const found = fromTables(tables, options.trusted);
  bundles.push(...found.bundles);
  failed.push(...found.failed);
  if (bundles.length + found.experts.length + failed.length === 0) {
    throw new Error(`There is no skill and no expert in ${paths.join(", ")}.`);
  }
  return { bundles, failed, experts: found.experts, warnings: [...warnings, ...found.warnings] };
}

/** Leaves out links: their targets are not part of the import. */
async function foldersBelow(path: string): Promise<string[]> {
  return (await findSkillFolders([path])).filter((folder) => lstatSync(folder).isDirectory());
}

async function readTable(path: string, tables: Tables): Promise<void> {
  const text = await readFile(path, "utf8");
  if (path.toLowerCase().endsWith(".sql")) {
    const rows = parseSqlDump(text, importedTables);
    if (rows.size === 0) throw new Error(`${path} has no rows of ${importedTables.join(", ")}.`);
    for (const [table, found] of rows) tables.set(table, [...(tables.get(table) ?? []), ...found]);
    return;
  }
  const table = tableOf(path);
  if (table === undefined) {
    throw new Error(`${path} is neither a .sql dump nor one of ${importedTables.join(".csv, ")}.csv.`);
  }
  tables.set(table, [...(tables.get(table) ?? []), ...(await parseCsv(text))]);
}

function isTableFile(name: string): boolean {
  return name.toLowerCase().endsWith(".sql") || tableOf(name) !== undefined;
}

function tableOf(path: string): string | undefined {
  const name = basename(path).toLowerCase();
  return importedTables.find((table) => name === `${table}.csv`);
}

/**
 * Writes uploaded files to a temporary folder below `parent` and reads them from there. Messages do not show
 * the temporary path. Throws `SkillInputError`.
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
  const withoutFolder = (text: string) =>
    text.replaceAll(`${folder}/`, "").replaceAll(folder, "What was sent");
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
      failed: found.failed.map(({ name, reason }) => ({ name, reason: withoutFolder(reason) })),
      warnings: found.warnings.map(withoutFolder),
    };
  } catch (thrown) {
    throw SkillInputError.of("files", withoutFolder(reasonOf(thrown)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const nameless =
  "It has no name, and its folder, which could have given it one, was not sent with it. Begin it with front matter that says `name: my-skill` between two lines of three dashes, or send the folder.";

/**
 * Puts a skill that was sent without its folder into a folder of the skill's name, as the format requires.
 * Undefined when the skill has no name.
 */
async function inFolder(files: readonly SkillFile[]): Promise<readonly SkillFile[] | undefined> {
  const text = files.find(({ path }) => path === "SKILL.md")?.content.toString("utf8");
  if (text === undefined) return files;
  // Errors in the text are reported later, when the skill is read.
  const name = await readSkillText(text).then(
    ({ frontMatter }) => frontMatter.name ?? "",
    () => undefined,
  );
  if (typeof name === "string" && name.trim() === "") return undefined;
  const folder = typeof name === "string" && /^[a-z0-9-]{1,64}$/.test(name) ? name : "skill";
  return files.map((file) => ({ ...file, path: `${folder}/${file.path}` }));
}

/** The name of the folder that holds all files; empty when no single folder does. */
function commonFolder(files: readonly SkillFile[]): string {
  const first = files[0]!.path.split("/")[0]!;
  return files.every(({ path }) => path.startsWith(`${first}/`)) ? first : "";
}

/** Parses CSV (RFC 4180) into rows by the names in the first line, in lower case. Leaves out empty fields. */
async function parseCsv(text: string): Promise<Record<string, string>[]> {
  const { parse } = await import("csv-parse");
  const head = text.split("\n", 1)[0] ?? "";
  // Spreadsheets in many countries use semicolons.
  const delimiter = head.includes(",") ? "," : (/[;\t]/.exec(head)?.[0] ?? ",");
  const parser = parse({
    bom: true,
    delimiter,
    columns: (names: string[]) => names.map((name) => name.trim().toLowerCase()),
    skip_empty_lines: true,
    relax_column_count: true,
    relax_quotes: true,
    on_record: (row: Record<string, string>) =>
      Object.fromEntries(Object.entries(row).filter(([, value]) => !["", "NULL", "\\N"].includes(value))),
  });
  const rows: Record<string, string>[] = [];
  for await (const row of Readable.from(piecesOf(text)).pipe(parser)) rows.push(row);
  return rows;
}

/** Others are served between two pieces: there may be tens of thousands of rows. */
async function* piecesOf(text: string): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 65_536) {
    yield bytes.subarray(at, at + 65_536);
    await nextTurn();
  }
}

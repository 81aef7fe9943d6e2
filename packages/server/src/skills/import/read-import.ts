import { existsSync, lstatSync, statSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Sandbox } from "../../runners/sandbox/types.ts";
import { readSkillFiles } from "../../sources/skills/skill-files.ts";
import { findSkillFolders, readSkillFolder } from "../../sources/skills/skill-folder.ts";
import type { SkillBundle } from "../../store/skills/skill-store.ts";
import { otherFiles } from "../export-skill.ts";
import { fromTables, type ImportedTables, type ImportFailure, importedColumns } from "./from-tables.ts";
import { parseCsv } from "./parse-csv.ts";
import { parseSqlDump } from "./parse-sql-dump.ts";

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

import { existsSync, statSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Sandbox } from "../../runners/sandbox/types.ts";
import { readSkillFiles } from "../../sources/skills/skill-files.ts";
import { findSkillFolders, readSkillFolder } from "../../sources/skills/skill-folder.ts";
import type { SkillBundle } from "../../store/skills/skill-store.ts";
import { otherFiles } from "../export-skill.ts";
import { fromTables, type ImportedTables, importedTables } from "./from-tables.ts";
import { parseCsv } from "./parse-csv.ts";
import { parseSqlDump } from "./parse-sql-dump.ts";

export interface ImportOptions {
  readonly sandbox: () => Promise<Sandbox>;
  /** Whether what is imported is the operator's own. */
  readonly trusted: boolean;
}

/**
 * Reads what is to be imported: folders with a `SKILL.md`, folders of such folders, SQL dumps, CSV files named like
 * their tables, and folders of those. Throws for a path that is none of these.
 */
export async function readImport(paths: readonly string[], options: ImportOptions): Promise<ImportedTables> {
  const bundles: SkillBundle[] = [];
  const warnings: string[] = [];
  const tables = new Map<string, Record<string, unknown>[]>();
  for (const path of paths) {
    if (!existsSync(path)) throw new Error(`There is no ${path}.`);
    if (statSync(path).isDirectory()) await readFolder(path, options, bundles, warnings, tables);
    else await readTable(path, tables);
  }
  const found = fromTables(tables, options.trusted);
  return {
    bundles: [...bundles, ...found.bundles],
    experts: found.experts,
    warnings: [...warnings, ...found.warnings],
  };
}

async function readFolder(
  path: string,
  options: ImportOptions,
  bundles: SkillBundle[],
  warnings: string[],
  tables: Map<string, Record<string, unknown>[]>,
): Promise<void> {
  const folders = existsSync(join(path, "SKILL.md")) ? [path] : await findSkillFolders([path]);
  for (const folder of folders) {
    const { skill, tools, warnings: own } = await readSkillFolder(folder, options);
    bundles.push({ skill, tools, files: otherFiles(await readSkillFiles(folder)) });
    warnings.push(...own.map((warning) => `${basename(folder)}: ${warning}`));
  }
  const names = folders.length > 0 ? [] : (await readdir(path)).filter((name) => isTableFile(name));
  for (const name of names) await readTable(join(path, name), tables);
  if (folders.length === 0 && names.length === 0) {
    throw new Error(
      `${path} has neither a SKILL.md, nor folders with one, nor ${[...importedTables].join(".csv, ")}.csv.`,
    );
  }
}

async function readTable(path: string, tables: Map<string, Record<string, unknown>[]>): Promise<void> {
  const text = await readFile(path, "utf8");
  if (path.toLowerCase().endsWith(".sql")) {
    const rows = parseSqlDump(text, importedTables);
    if (rows.size === 0) throw new Error(`${path} has no rows of ${[...importedTables].join(", ")}.`);
    for (const [table, found] of rows) tables.set(table, [...(tables.get(table) ?? []), ...found]);
    return;
  }
  const table = tableOf(path);
  if (table === undefined) {
    throw new Error(`${path} is neither a .sql dump nor one of ${[...importedTables].join(".csv, ")}.csv.`);
  }
  tables.set(table, [...(tables.get(table) ?? []), ...parseCsv(text)]);
}

function isTableFile(name: string): boolean {
  return name.toLowerCase().endsWith(".sql") || tableOf(name) !== undefined;
}

function tableOf(path: string): string | undefined {
  const name = basename(path).toLowerCase();
  return [...importedTables].find((table) => name === `${table}.csv`);
}

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { entryAt } from "../../file/support/entry-at.ts";
import { type Formatter, formatters } from "./formatters.ts";

export interface FoundFormatter {
  readonly formatter: Formatter;
  /** The program to run. */
  readonly program: string;
  /** Where it is configured; the program runs here. */
  readonly folder: string;
}

interface Choice {
  readonly formatter: Formatter;
  readonly folder: string;
  /** What says so: a file's name. */
  readonly because: string;
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, unknown>>;
  readonly devDependencies?: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

/**
 * The formatter that the project chose: by the nearest configuration above `start`, or else by the nearest
 * package.json that depends on one. Looks no further up than `root`. Rejects with what to install when there is none.
 */
export async function findFormatter(start: string, root: string): Promise<FoundFormatter> {
  const folders = foldersUpTo(start, root);
  const choice = (await firstChoice(folders, configuredIn)) ?? (await firstChoice(folders, dependedOnIn));
  if (choice === undefined) {
    const names = formatters.map(({ label, configFiles }) => `${label} (${configFiles[0]})`).join(", ");
    throw new Error(
      `This project has no formatter. Install one and configure it, such as npm install --save-dev @biomejs/biome with a biome.json. Known here: ${names}.`,
    );
  }
  const { formatter, folder, because } = choice;
  for (const at of foldersUpTo(folder, root)) {
    const program = join(at, "node_modules", ".bin", formatter.name);
    if ((await entryAt(program)) !== undefined) return { formatter, program, folder };
  }
  throw new Error(
    `${because} asks for ${formatter.label}, but node_modules/.bin/${formatter.name} is not there. Run npm install, or npm install --save-dev ${formatter.package}.`,
  );
}

async function firstChoice(
  folders: readonly string[],
  look: (folder: string, formatter: Formatter) => Promise<string | undefined>,
): Promise<Choice | undefined> {
  for (const folder of folders) {
    for (const formatter of formatters) {
      const because = await look(folder, formatter);
      if (because !== undefined) return { formatter, folder, because };
    }
  }
  return undefined;
}

async function configuredIn(folder: string, formatter: Formatter): Promise<string | undefined> {
  for (const name of formatter.configFiles) {
    if ((await entryAt(join(folder, name))) !== undefined) return name;
  }
  if (formatter.packageKey === undefined) return undefined;
  return (await manifestOf(folder))[formatter.packageKey] === undefined ? undefined : "package.json";
}

async function dependedOnIn(folder: string, formatter: Formatter): Promise<string | undefined> {
  const { dependencies = {}, devDependencies = {} } = await manifestOf(folder);
  return formatter.package in { ...dependencies, ...devDependencies } ? "package.json" : undefined;
}

async function manifestOf(folder: string): Promise<Manifest> {
  try {
    const manifest: unknown = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    return typeof manifest === "object" && manifest !== null ? (manifest as Manifest) : {};
  } catch {
    return {};
  }
}

function foldersUpTo(start: string, root: string): string[] {
  const folders = [start];
  for (let at = start; at !== root && at !== dirname(at); ) {
    at = dirname(at);
    folders.push(at);
  }
  return folders;
}

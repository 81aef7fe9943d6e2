import { readFile, stat } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { parseJson } from "../../../access/index.ts";
import { asRecord } from "../../../helpers/index.ts";
import { walk } from "../../file/support/walk.ts";
import { type Confinement, type ExistingPlace, entryAt, foldersUpTo } from "../../paths.ts";
import { childEnvironment, runCommand } from "../../shell-command.ts";

/**
 * Finds the formatter of the project: the one with the nearest config file in `start` or above, or else the
 * one on which the nearest package.json depends. Looks no higher than `root`. In the result, `folder` is the
 * folder with that file, in which the program must run. Rejects with what to install when there is no
 * formatter.
 */
export async function findFormatter(start: string, root: string) {
  const choice =
    (await firstChoice(start, root, configuredIn)) ?? (await firstChoice(start, root, dependedOnIn));
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

/**
 * The formatter of the nearest folder in which `look` finds a file that chooses one. `look` returns that
 * file's name.
 */
async function firstChoice(
  start: string,
  root: string,
  look: (folder: string, formatter: Formatter) => Promise<string | undefined>,
) {
  for (const folder of foldersUpTo(start, root)) {
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
  const { packageKey } = formatter;
  return packageKey && packageKey in (await manifestOf(folder)) ? "package.json" : undefined;
}

async function dependedOnIn(folder: string, formatter: Formatter): Promise<string | undefined> {
  const { dependencies, devDependencies } = await manifestOf(folder);
  const packages = { ...asRecord(dependencies), ...asRecord(devDependencies) };
  return formatter.package in packages ? "package.json" : undefined;
}

async function manifestOf(folder: string): Promise<Record<string, unknown>> {
  return asRecord(parseJson(await readFile(join(folder, "package.json"), "utf8").catch(() => "")));
}

interface Formatter {
  /** Also the name of its program in `node_modules/.bin`. */
  readonly name: string;
  readonly label: string;
  readonly package: string;
  readonly configFiles: readonly string[];
  /** A key of package.json that configures the formatter. */
  readonly packageKey?: string;
  readonly write: (path: string) => string[];
  readonly check: (path: string) => string[];
  /** The files that a check reports; `undefined` when it failed for another reason. */
  readonly unformatted: (result: ProgramResult) => readonly string[] | undefined;
}

/** The first one counts when a folder configures several. */
const formatters: readonly Formatter[] = [
  {
    name: "biome",
    label: "Biome",
    package: "@biomejs/biome",
    configFiles: ["biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc"],
    write: (path) => ["format", "--write", "--colors=off", path],
    check: (path) => ["format", "--colors=off", "--max-diagnostics=1000", "--reporter=json", path],
    unformatted: fromBiome,
  },
  {
    name: "dprint",
    label: "dprint",
    package: "dprint",
    configFiles: ["dprint.json", "dprint.jsonc", ".dprint.json", ".dprint.jsonc"],
    write: (path) => ["fmt", path],
    check: (path) => ["check", "--list-different", path],
    unformatted: ({ code, stdout }) => (code === 0 || code === 20 ? lines(stdout) : undefined),
  },
  {
    name: "prettier",
    label: "Prettier",
    package: "prettier",
    packageKey: "prettier",
    configFiles: [
      ".prettierrc",
      ...["json", "json5", "yaml", "yml", "toml", "js", "cjs", "mjs", "ts", "cts", "mts"].map(
        (end) => `.prettierrc.${end}`,
      ),
      ...["js", "cjs", "mjs", "ts", "cts", "mts"].map((end) => `prettier.config.${end}`),
    ],
    write: (path) => ["--write", "--log-level=warn", path],
    check: (path) => ["--list-different", path],
    unformatted: ({ code, stdout }) => (code === 0 || code === 1 ? lines(stdout) : undefined),
  },
];

/** Biome exits with 1 for unformatted and for broken files; only its report distinguishes them. */
function fromBiome({ code, stdout }: ProgramResult): readonly string[] | undefined {
  if (code === 0) return [];
  const { diagnostics } = asRecord(parseJson(stdout));
  const files = new Set<string>();
  for (const { category, location, message, description } of Array.isArray(diagnostics) ? diagnostics : []) {
    const path: unknown = location?.path?.file ?? location?.path;
    const isDifference = category === "format" && !/abort/i.test(message ?? description ?? "");
    if (!isDifference || typeof path !== "string") return undefined;
    files.add(path);
  }
  return files.size === 0 ? undefined : [...files];
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** Maps a file, or every unignored file below a folder, to a stamp that changes with each write to it. */
export async function fileStamps(
  workspace: Confinement,
  { real, stats }: ExistingPlace,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const stamps = new Map<string, string>();
  const add = async (file: string) => {
    const found = await stat(file, { bigint: true }).catch(() => undefined);
    if (found !== undefined) stamps.set(file, `${found.mtimeNs} ${found.size} ${found.ino}`);
  };
  if (!stats.isDirectory()) await add(real);
  else
    for await (const { type, path } of walk(workspace, real, { signal }))
      if (type === "file") await add(path);
  return stamps;
}

export interface ProgramResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const MOST_OUTPUT = 2 * 1024 * 1024;

/** Runs a program of the workspace without the server's own environment. */
export async function runProgram(
  program: string,
  args: readonly string[],
  { folder, signal, timeout }: { folder: string; signal: AbortSignal; timeout: number },
): Promise<ProgramResult> {
  const path = [dirname(process.execPath), process.env.PATH ?? ""].join(delimiter);
  const { exitCode, stdout, stderr, ended } = await runCommand({
    command: program,
    args,
    cwd: folder,
    env: childEnvironment({ PATH: path, NO_COLOR: "1" }),
    timeout,
    maxOutput: MOST_OUTPUT,
    signal,
  });
  signal.throwIfAborted();
  if (ended === "timeout")
    throw new Error(`${program} did not end within ${timeout / 1000} seconds and was stopped.`);
  return { code: exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
}

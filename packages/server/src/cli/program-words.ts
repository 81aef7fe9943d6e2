import { existsSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { shellQuote } from "../helpers/values.ts";

export interface Standpoint {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly program: readonly string[];
}

/**
 * What a person types to start this program from where they stand. `npx toolrack` alone only where npx finds it in a
 * folder: anywhere else npx would fetch whatever package has that name. `own` is a folder that belongs to this program.
 */
export function programWords({ cwd, env, program }: Standpoint, own = import.meta.dirname): string {
  const isUnderNpm = env.npm_lifecycle_event !== undefined;
  // Scripts of npm run elsewhere than the person stands, and the folders that npm puts into PATH are gone when it ends.
  const directory = isUnderNpm ? (env.INIT_CWD ?? cwd) : cwd;
  const isOnPath = (env.PATH ?? env.Path ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "" && !(isUnderNpm && /node_modules[\\/]\.bin[\\/]?$/.test(folder)))
    .some(holdsProgram);
  if (isOnPath) return "toolrack";
  if (nearestInstall(directory) !== undefined) return "npx toolrack";
  const install = nearestInstall(own);
  return install === undefined
    ? program.map(shellQuote).join(" ")
    : `npx --prefix ${shellQuote(install)} toolrack`;
}

/**
 * The words that start this program again, from any folder and without a shell: the same Node, the options it was given,
 * and the file that it runs. What only a debugger asked for is left out, for two programs cannot share its port.
 */
export function ownProgram(): string[] {
  const options = process.execArgv.filter(
    (option) => !/^--(inspect|debug|watch|cpu-prof|heap-prof)/.test(option),
  );
  return [process.execPath, ...options, resolve(process.argv[1] ?? "")];
}

/** The folder, from this one upwards, whose packages have the program. */
function nearestInstall(from: string): string | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    if (holdsProgram(join(folder, "node_modules", ".bin"))) return folder;
    if (folder === dirname(folder)) return undefined;
  }
}

function holdsProgram(folder: string): boolean {
  return ["toolrack", "toolrack.cmd"].some((name) => existsSync(join(folder, name)));
}

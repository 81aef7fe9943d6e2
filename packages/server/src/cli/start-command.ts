import { existsSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { shellQuote } from "../helpers/values.ts";

export interface Standpoint {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly program: readonly string[];
}

/**
 * What a person types to start this program in the current folder. `npx toolrack` is offered only where npx finds an
 * installed package: elsewhere npx would fetch whatever package has that name. `own` is a folder of this program.
 */
export function programWords({ cwd, env, program }: Standpoint, own = import.meta.dirname): string {
  const isUnderNpm = env.npm_lifecycle_event !== undefined;
  // npm runs scripts in the package's folder, and the PATH that it sets for a script ends with the script.
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
 * The command that starts this program from any folder, without a shell: the same Node, its options, and the
 * file that it runs. Debugger options are left out, because two programs cannot share the debugger's port.
 */
export function ownProgram(): string[] {
  const options = process.execArgv.filter(
    (option) => !/^--(inspect|debug|watch|cpu-prof|heap-prof)/.test(option),
  );
  return [process.execPath, ...options, resolve(process.argv[1] ?? "")];
}

/** The nearest folder upwards in which the program is installed as a package. */
function nearestInstall(from: string): string | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    if (holdsProgram(join(folder, "node_modules", ".bin"))) return folder;
    if (folder === dirname(folder)) return undefined;
  }
}

function holdsProgram(folder: string): boolean {
  return ["toolrack", "toolrack.cmd"].some((name) => existsSync(join(folder, name)));
}

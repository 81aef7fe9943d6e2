import { existsSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { shellQuote } from "../helpers/values.ts";
import { ownProgram } from "./serve/own-program.ts";

export interface Standpoint {
  readonly directory: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** A folder that belongs to this program. */
  readonly own: string;
}

/**
 * What a person types to start this program from where they stand. `npx toolrack` alone only where npx finds it in a folder:
 * anywhere else npx would fetch whatever package has that name.
 */
export function programWords(standpoint: Standpoint = here()): string {
  const { directory, environment, own } = standpoint;
  const isOnPath = pathOf(environment).some(holdsProgram);
  if (isOnPath) return "toolrack";
  if (nearestInstall(directory) !== undefined) return "npx toolrack";
  const install = nearestInstall(own);
  return install === undefined
    ? ownProgram().map(shellQuote).join(" ")
    : `npx --prefix ${shellQuote(install)} toolrack`;
}

function here(): Standpoint {
  const { env } = process;
  // Scripts of npm run elsewhere than the person stands.
  const directory = isUnderNpm(env) ? (env.INIT_CWD ?? process.cwd()) : process.cwd();
  return { directory, environment: env, own: import.meta.dirname };
}

/** The folders of the person's own PATH: those that npm puts before it are gone when it ends. */
function pathOf(environment: Standpoint["environment"]): string[] {
  const folders = (environment.PATH ?? environment.Path ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "");
  return isUnderNpm(environment)
    ? folders.filter((folder) => !/node_modules[\\/]\.bin[\\/]?$/.test(folder))
    : folders;
}

function isUnderNpm(environment: Standpoint["environment"]): boolean {
  return environment.npm_lifecycle_event !== undefined;
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

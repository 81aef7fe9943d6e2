import { existsSync, lstatSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { asRecord, reasonOf } from "../helpers/index.ts";

/**
 * Installs packages and returns the folder whose `node_modules` holds them. Throws for `dependencies` that are not such
 * as `{"lodash": "^4.17.21"}`.
 */
export type InstallPackages = (
  dependencies: Readonly<Record<string, unknown>>,
  label: string,
  signal?: AbortSignal,
) => Promise<string>;

const LARGEST_MANIFEST = 1024 * 1024;

/**
 * The folder whose `node_modules` the scripts of a skill may use: the skill's own folder when it has `node_modules`,
 * otherwise one with the `dependencies` of its `package.json`, which are installed like those of a single-file tool.
 * Undefined when the skill has neither, or nothing may be installed. Throws an error that names the package or the file.
 */
export async function packagesOf(
  directory: string | undefined,
  label: string,
  install: InstallPackages | undefined,
  signal?: AbortSignal,
): Promise<string | undefined> {
  if (directory === undefined || existsSync(join(directory, "node_modules"))) return directory;
  const path = join(directory, "package.json");
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (install === undefined || found === undefined) return undefined;
  // A link could lead to a file that nobody meant to show.
  if (!found.isFile() || found.size > LARGEST_MANIFEST)
    throw new Error(`The package.json of ${label} must be a regular file of at most 1 MiB.`);
  let declared: unknown;
  try {
    declared = asRecord(JSON.parse(await readFile(path, "utf8"))).dependencies;
  } catch (thrown) {
    throw new Error(`The package.json of ${label} cannot be read: ${reasonOf(thrown)}`);
  }
  const dependencies = asRecord(declared);
  return Object.keys(dependencies).length === 0 ? undefined : install(dependencies, label, signal);
}

/** What to do about a package that a script of a skill could not load; empty when it failed for another reason. */
export function packageHint(message: string, language: "node" | "python", label: string): string {
  const skill = label.slice(0, label.lastIndexOf("/"));
  const [, python] = /No module named '([^']+)'/.exec(message) ?? [];
  if (language === "python") {
    return python === undefined
      ? ""
      : ` Put the package beside index.py, with: pip install --target . ${python.split(".")[0]}`;
  }
  if (/\.node'|bindings file|ERR_DLOPEN|compiled against a different/i.test(message)) {
    return ` The package has a native part, which is not built when Toolrack installs packages. Run npm install in the folder of the skill "${skill}": its node_modules are used as they are.`;
  }
  const [, name] = /Cannot find (?:module|package) '((?:@[^'/]+\/)?[^'./][^'/]*)/.exec(message) ?? [];
  if (name === undefined) return "";
  return ` Add "${name}" to the dependencies of package.json in the folder of the skill "${skill}", and it is installed, or run npm install there.`;
}

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { DependencyStore } from "../../../dependencies/dependency-store.ts";
import { packageSpec } from "../config/package-spec.ts";
import { ConfigurationError } from "../failure-state.ts";

/**
 * The file that Node runs for the program of `name@version`, which is installed first where it is not there yet.
 * `program` names one of the package's programs where it has several. Throws a `ConfigurationError` that says what to do
 * where only another entry can help.
 */
export async function installedProgram(
  packages: Pick<DependencyStore, "install">,
  spec: string,
  label: string,
  program?: string,
  signal?: AbortSignal,
): Promise<string> {
  const { name, version } = packageSpec(spec);
  const folder = await packages.install({ [name]: version }, label, signal);
  return entryOf(join(folder, "node_modules", name), name, program);
}

async function entryOf(folder: string, name: string, program: string | undefined): Promise<string> {
  const { bin } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as { bin?: unknown };
  const last = name.split("/").at(-1) ?? name;
  const programs: Record<string, string> =
    typeof bin === "string" ? { [last]: bin } : typeof bin === "object" && bin !== null ? { ...bin } : {};
  const names = Object.keys(programs);
  const chosen = program ?? (names.length === 1 ? names[0] : last);
  const file = chosen === undefined ? undefined : programs[chosen];
  if (file !== undefined) return join(folder, file);
  if (names.length === 0)
    throw new ConfigurationError(`The package ${name} has no program to run. Is it an MCP server?`);
  throw new ConfigurationError(
    `The package ${name} has several programs: ${names.join(", ")}. Say which as "command".`,
  );
}

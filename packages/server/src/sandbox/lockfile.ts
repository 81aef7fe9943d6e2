import { parse } from "yaml";
import { DependencyError } from "../helpers/index.ts";

/**
 * Refuses what pnpm has found when any of it does not come from a registry. What a tool declares is checked before;
 * but its packages have dependencies of their own, and one that is a folder would be copied from this machine to
 * where the tool can read it. Throws `DependencyError`.
 */
export function checkLock(text: string): void {
  const { packages, snapshots } = asRecord(parse(text));
  for (const [owner, snapshot] of Object.entries(asRecord(snapshots))) {
    const { dependencies, optionalDependencies } = asRecord(snapshot);
    for (const found of [dependencies, optionalDependencies]) {
      for (const [name, version] of Object.entries(asRecord(found))) {
        if (isPlace(String(version))) throw refused(nameOf(owner), `${name}@${version}`);
      }
    }
  }
  for (const [key, entry] of Object.entries(asRecord(packages))) {
    if (!isFromRegistry(asRecord(asRecord(entry).resolution))) throw refused(nameOf(key), key);
  }
}

/** A version, or one of another package under this name; whatever has a scheme is a place. */
function isPlace(version: string): boolean {
  return /^(?:link|file|git|https?|workspace|portal):|^git\+|@(?:link|file):/.test(version);
}

/** The registry says what its archives must hash to. Folders, repositories and runtimes are of a type of their own. */
function isFromRegistry({ integrity, tarball, type, ...others }: Record<string, unknown>): boolean {
  const isElsewhere = "directory" in others || "repo" in others || "commit" in others || "path" in others;
  const isArchive = tarball === undefined || /^https?:\/\//.test(String(tarball));
  return typeof integrity === "string" && type === undefined && isArchive && !isElsewhere;
}

function refused(packageName: string, what: string): DependencyError {
  return new DependencyError(
    `The package "${packageName}" was not installed: ${what} does not come from a registry.`,
    "Use a version of it, or another package, that depends on packages of a registry only.",
    { packageName },
  );
}

/** `@scope/name@1.0.0(peer@2.0.0)` without what follows the name. */
function nameOf(key: string): string {
  return /^(?:@[^/]+\/)?[^@]+/.exec(key)?.[0] ?? key;
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

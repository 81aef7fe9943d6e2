import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "@toolrack/core";
import { DependencyError, defined } from "../helpers/index.ts";
import { checkLinks, checkLock, runPnpm } from "./pnpm.ts";

export interface DependencyStoreOptions {
  /** `.toolrack/deps` of the workspace. */
  readonly directory: string;
  /** The path of the workspace's `.npmrc`, which tools never see. Default: that of the server's user. */
  readonly npmrc?: string;
  readonly logger: Logger;
}

const HOUR_MS = 60 * 60_000;
const PROGRESS_MS = 2_000;

/**
 * Installed packages, one folder for each set that a tool declares. A folder appears complete in one step and never
 * changes. So a killed install leaves nothing that anybody would use, and two processes may install the same set at
 * once.
 */
export class DependencyStore {
  readonly #options: DependencyStoreOptions;
  readonly #installing = new Map<string, Promise<string>>();

  constructor(options: DependencyStoreOptions) {
    this.#options = options;
  }

  /** Returns the folder whose `node_modules` holds the packages; installs them first where needed. */
  install(dependencies: DependencyMap, label: string, signal?: AbortSignal): Promise<string> {
    const key = dependencyKey(dependencies);
    const running = this.#installing.get(key);
    if (running !== undefined) return running;
    const installing = this.#install(key, dependencies, label, signal).finally(() =>
      this.#installing.delete(key),
    );
    this.#installing.set(key, installing);
    return installing;
  }

  /**
   * Deletes the folders of sets that were not used for `unusedFor` milliseconds, and remains of killed
   * installs that are older than an hour. Returns how many folders were deleted.
   */
  async prune(unusedFor: number): Promise<number> {
    const { directory } = this.#options;
    let removed = 0;
    for (const name of await readdir(directory).catch(() => [])) {
      const isRemains = name.startsWith("installing-");
      if (!isRemains && !/^[0-9a-f]{32}$/.test(name)) continue;
      const path = join(directory, name);
      const seen = await stat(path).catch(() => undefined);
      if (seen === undefined || Date.now() - seen.mtimeMs < (isRemains ? HOUR_MS : unusedFor)) continue;
      await rm(path, { recursive: true, force: true });
      removed++;
    }
    return removed;
  }

  async #install(
    key: string,
    dependencies: DependencyMap,
    label: string,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const { directory, logger } = this.#options;
    const finished = join(directory, key);
    if (existsSync(join(finished, "node_modules"))) {
      // `prune` takes this modification time as the time of the last use.
      const now = new Date();
      await utimes(finished, now, now).catch(() => {});
      return finished;
    }
    // Deletes only the remains of killed installs.
    await this.prune(Number.POSITIVE_INFINITY);
    await mkdir(join(directory, "locks"), { recursive: true });
    const names = Object.keys(dependencies).join(", ");
    logger.info(`[${label}] installing ${names}`);
    const started = performance.now();
    const temporary = await mkdtemp(join(directory, "installing-"));
    try {
      // Workers run as other users and must be able to read the folder.
      await chmod(temporary, 0o755);
      await this.#fill(temporary, key, dependencies, label, signal);
      await moveIntoPlace(temporary, finished);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    logger.info(`[${label}] installed ${names} (${Math.round(performance.now() - started)} ms)`);
    return finished;
  }

  async #fill(
    folder: string,
    key: string,
    dependencies: DependencyMap,
    label: string,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { directory, npmrc, logger } = this.#options;
    const manifest = { name: "toolrack-dependencies", private: true, dependencies };
    await writeFile(join(folder, "package.json"), JSON.stringify(manifest, null, 2));
    await writeFile(join(folder, "pnpm-workspace.yaml"), pnpmSettings(directory));
    // With the lock file of an earlier install, a deleted set is installed again with the same versions, even
    // offline.
    const lock = join(directory, "locks", `${key}.yaml`);
    const ownLock = join(folder, "pnpm-lock.yaml");
    const isLocked = existsSync(lock);
    if (isLocked) await copyFile(lock, ownLock);
    let lastTold = performance.now();
    const pnpm = (...args: readonly string[]) =>
      runPnpm({
        directory: folder,
        args: ["install", "--prod", "--ignore-scripts", "--prefer-offline", ...args],
        onProgress(resolved, added) {
          if (performance.now() - lastTold < PROGRESS_MS) return;
          lastTold = performance.now();
          logger.info(`[${label}] ${resolved} packages found, ${added} installed`);
        },
        ...defined({ npmrc: npmrc !== undefined && existsSync(npmrc) ? npmrc : undefined, signal }),
      });
    // First finds the versions without downloading them, so that `checkLock` can refuse packages that do not
    // come from a registry.
    if (!isLocked) await pnpm("--lockfile-only", "--no-frozen-lockfile");
    const found = await readFile(ownLock, "utf8").catch(() => undefined);
    if (found !== undefined) await checkLock(found);
    await pnpm(found === undefined ? "--no-frozen-lockfile" : "--frozen-lockfile");
    // pnpm makes no folder for an empty set.
    await mkdir(join(folder, "node_modules"), { recursive: true });
    await checkLinks(folder);
    if (!isLocked) await copyFile(ownLock, lock).catch(() => {});
    // These files tell where on the machine the workspace lies, which a tool must not learn.
    const telling = ["pnpm-workspace.yaml", "node_modules/.modules.yaml"];
    for (const name of [...telling, "node_modules/.pnpm-workspace-state-v1.json"])
      await rm(join(folder, name), { force: true });
  }
}

/** Keeps the folder of another process that has installed the same set in the meantime, if it is complete. */
async function moveIntoPlace(temporary: string, finished: string): Promise<void> {
  try {
    await rename(temporary, finished);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException; // The file system throws errors with a code.
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw thrown;
    if (existsSync(join(finished, "node_modules"))) return;
    await rm(finished, { recursive: true, force: true });
    await rename(temporary, finished);
  }
}

/**
 * The text of `pnpm-workspace.yaml` in an install folder. With it, pnpm ignores settings in parent folders
 * and shares no files outside the store's directory.
 */
function pnpmSettings(directory: string): string {
  return `packages: []
storeDir: ${JSON.stringify(join(directory, "store"))}
cacheDir: ${JSON.stringify(join(directory, "cache"))}
stateDir: ${JSON.stringify(join(directory, "cache"))}
ignoreScripts: true
fetchRetries: 1
fetchRetryMintimeout: 500
enableGlobalVirtualStore: false
nodeLinker: isolated
verifyDepsBeforeRun: false
`;
}

/** The accepted versions of each package, by the package's name: `{ lodash: "^4.17.21" }`. */
export type DependencyMap = Readonly<Record<string, string>>;

const packageName = /^(?:@[a-z0-9~_-][a-z0-9._~-]*\/)?[a-z0-9~_-][a-z0-9._~-]*$/i;
/** Matches versions, ranges and tags, but no URLs, paths or repositories, which would bypass the registry. */
const range = /^[\w\s.^~<>=|*+-]{1,100}$/;
const MOST_PACKAGES = 100;

/** Parses declared packages: an object or a list such as `["lodash@^4.17.21"]`. Throws `DependencyError`. */
export function parseDependencies(declared: unknown): DependencyMap {
  const entries = entriesOf(declared);
  if (entries.length > MOST_PACKAGES) {
    throw new DependencyError(
      `${entries.length} packages are declared; ${MOST_PACKAGES} are allowed.`,
      "Declare only the packages that the tool requires itself.",
    );
  }
  for (const [name, versions] of entries) check(name, versions);
  entries.sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries);
}

/**
 * The folder name of a set: a hash of the packages, the platform, the processor and Node's major version,
 * which together decide what files are installed.
 */
export function dependencyKey(dependencies: DependencyMap): string {
  const [major] = process.versions.node.split(".");
  return createHash("sha256")
    .update(JSON.stringify([Object.entries(dependencies), process.platform, process.arch, major]))
    .digest("hex")
    .slice(0, 32);
}

function entriesOf(declared: unknown): [string, string][] {
  if (declared === undefined || declared === null) return [];
  if (Array.isArray(declared)) return declared.map(fromText);
  if (typeof declared === "object") return Object.entries(declared);
  throw new DependencyError(
    `The dependencies are ${typeof declared === "string" ? "a text" : `a ${typeof declared}`}.`,
    'Declare them as an object such as { "lodash": "^4.17.21" }.',
  );
}

function fromText(text: unknown): [string, string] {
  if (typeof text !== "string") {
    throw new DependencyError(
      `The list of dependencies holds ${JSON.stringify(text)}, which is not a text.`,
      'Write each as a text such as "lodash@^4.17.21".',
    );
  }
  const at = text.indexOf("@", 1);
  return at === -1 ? [text, "*"] : [text.slice(0, at), text.slice(at + 1)];
}

function check(name: string, versions: unknown): void {
  if (!packageName.test(name) || name.length > 214) {
    throw new DependencyError(
      `"${name}" is not the name of a package.`,
      'Use the name from the registry, such as "lodash" or "@scope/name".',
    );
  }
  if (name in Object.prototype) {
    throw new DependencyError(
      `"${name}" cannot be installed: every object of JavaScript has a member of this name, which pnpm takes for the package.`,
      "Use another package.",
      { packageName: name },
    );
  }
  if (typeof versions !== "string" || !range.test(versions)) {
    throw new DependencyError(
      `The version of "${name}" is ${JSON.stringify(versions)}, which is no version, range or tag.`,
      'Use a range such as "^4.17.21". Addresses, paths and repositories are not installed.',
      { packageName: name },
    );
  }
}

import { createHash } from "node:crypto";
import { existsSync, readlinkSync } from "node:fs";
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
import { hostname } from "node:os";
import { join } from "node:path";
import type { Logger } from "@toolrack/core";
import { DependencyError, defined, processStat } from "../helpers/index.ts";
import { checkLinks, checkLock, type PnpmProgress, runPnpm } from "./pnpm.ts";

export interface DependencyStoreOptions {
  /** `.toolrack/deps` of the workspace. */
  readonly directory: string;
  /** The workspace's `.npmrc`. Default: the user's own. Tools never see it. */
  readonly npmrc?: string;
  readonly logger: Logger;
}

const HOUR_MS = 60 * 60_000;
const PROGRESS_MS = 2_000;

/** The prefix of the temporary folders of all processes that can see each other: same machine, same PID namespace. */
const PREFIX = `installing-${shortHash(`${hostname()} ${pidNamespace()}`)}-`;
/** When this process started. In a container, every start may have the same process id. */
const STARTED_AT = processStat(process.pid)?.startedAt ?? String(Math.round(performance.timeOrigin));

/**
 * Installed packages, one folder for each set that a tool declares. A folder appears complete in one step and never
 * changes. So a killed install leaves nothing that anybody would use, and two processes may install the same set at
 * once.
 */
export class DependencyStore {
  readonly #directory: string;
  readonly #npmrc: string | undefined;
  readonly #logger: Logger;
  readonly #installing = new Map<string, Promise<string>>();
  #sweeping: Promise<void> | undefined;

  constructor({ directory, npmrc, logger }: DependencyStoreOptions) {
    this.#directory = directory;
    this.#npmrc = npmrc;
    this.#logger = logger;
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

  /** Deletes sets that were unused for so many milliseconds, and the remains of killed installs. Returns how many. */
  async prune(unusedFor: number): Promise<number> {
    return this.#removeWhere(async (name, path) => {
      if (name.startsWith("installing-")) return isOlder(path, HOUR_MS);
      return /^[0-9a-f]{32}$/.test(name) && isOlder(path, unusedFor);
    });
  }

  /** Deletes the remains of killed installs; those of other machines or containers by their age. */
  async #sweep(): Promise<void> {
    await this.#removeWhere(async (name, path) => {
      const [id = "", started = ""] = name.slice(PREFIX.length).split("-");
      if (name.startsWith(PREFIX)) return !isRunning(Number(id), started);
      return name.startsWith("installing-") && isOlder(path, HOUR_MS);
    });
  }

  async #removeWhere(isObsolete: (name: string, path: string) => Promise<boolean>): Promise<number> {
    let removed = 0;
    for (const name of await readdir(this.#directory).catch(() => [])) {
      const path = join(this.#directory, name);
      if (!(await isObsolete(name, path))) continue;
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
    this.#sweeping ??= this.#sweep().catch(() => {});
    await this.#sweeping;
    const finished = join(this.#directory, key);
    if (existsSync(join(finished, "node_modules"))) {
      await touch(finished);
      return finished;
    }
    await mkdir(join(this.#directory, "locks"), { recursive: true });
    const names = Object.keys(dependencies).join(", ");
    this.#logger.info(`[${label}] installing ${names}`);
    const started = performance.now();
    const temporary = await mkdtemp(join(this.#directory, `${PREFIX}${process.pid}-${STARTED_AT}-`));
    try {
      // Workers run as other users and must be able to read it.
      await chmod(temporary, 0o755);
      await this.#fill(temporary, key, dependencies, label, signal);
      await this.#moveIntoPlace(temporary, finished);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    this.#logger.info(`[${label}] installed ${names} (${Math.round(performance.now() - started)} ms)`);
    return finished;
  }

  async #fill(
    folder: string,
    key: string,
    dependencies: DependencyMap,
    label: string,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const manifest = { name: "toolrack-dependencies", private: true, dependencies };
    await writeFile(join(folder, "package.json"), JSON.stringify(manifest, null, 2));
    await writeFile(join(folder, "pnpm-workspace.yaml"), this.#settings());
    // With the old lock file, a deleted set comes back as it was, even offline.
    const lock = join(this.#directory, "locks", `${key}.yaml`);
    const isLocked = await copyFile(lock, join(folder, "pnpm-lock.yaml")).then(
      () => true,
      () => false,
    );
    const onProgress = this.#progress(label);
    const pnpm = (...args: readonly string[]) =>
      runPnpm({
        directory: folder,
        args: ["install", "--prod", "--ignore-scripts", "--prefer-offline", ...args],
        onProgress,
        ...defined({
          npmrc: this.#npmrc !== undefined && existsSync(this.#npmrc) ? this.#npmrc : undefined,
          signal,
        }),
      });
    // Resolves first, so that nothing is downloaded that does not come from a registry.
    if (!isLocked) await pnpm("--lockfile-only", "--no-frozen-lockfile");
    const found = await readFile(join(folder, "pnpm-lock.yaml"), "utf8").catch(() => undefined);
    if (found !== undefined) await checkLock(found);
    await pnpm(found === undefined ? "--no-frozen-lockfile" : "--frozen-lockfile");
    // pnpm makes no folder for an empty set.
    await mkdir(join(folder, "node_modules"), { recursive: true });
    await checkLinks(folder);
    if (!isLocked) await copyFile(join(folder, "pnpm-lock.yaml"), lock).catch(() => {});
    // These files tell where on the machine the workspace lies, which a tool must not learn.
    await rm(join(folder, "pnpm-workspace.yaml"), { force: true });
    for (const name of [".modules.yaml", ".pnpm-workspace-state-v1.json"]) {
      await rm(join(folder, "node_modules", name), { force: true });
    }
  }

  /** Another process may have been faster; its folder is as good. */
  async #moveIntoPlace(temporary: string, finished: string): Promise<void> {
    try {
      await rename(temporary, finished);
    } catch (thrown) {
      const { code } = thrown as NodeJS.ErrnoException; // As the file system throws.
      if (code !== "ENOTEMPTY" && code !== "EEXIST") throw thrown;
      if (existsSync(join(finished, "node_modules"))) return;
      await rm(finished, { recursive: true, force: true });
      await rename(temporary, finished);
    }
  }

  /** In the folder itself, so that no settings from above apply and nothing is shared outside the store. */
  #settings(): string {
    return [
      "packages: []",
      `storeDir: ${JSON.stringify(join(this.#directory, "store"))}`,
      `cacheDir: ${JSON.stringify(join(this.#directory, "cache"))}`,
      `stateDir: ${JSON.stringify(join(this.#directory, "cache"))}`,
      "ignoreScripts: true",
      "fetchRetries: 1",
      "fetchRetryMintimeout: 500",
      "enableGlobalVirtualStore: false",
      "nodeLinker: isolated",
      "verifyDepsBeforeRun: false",
      "",
    ].join("\n");
  }

  #progress(label: string): (progress: PnpmProgress) => void {
    let lastTold = performance.now();
    return ({ resolved, added }) => {
      if (performance.now() - lastTold < PROGRESS_MS) return;
      lastTold = performance.now();
      this.#logger.info(`[${label}] ${resolved} packages found, ${added} installed`);
    };
  }
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

/** The PID namespace, where the system has one: containers on one machine have different ones. */
function pidNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "";
  }
}

/** Whether that very process runs. A signal that is refused means that another user's process runs. */
function isRunning(id: number, started: string): boolean {
  if (id === process.pid) return started === STARTED_AT;
  const seen = processStat(id);
  if (seen !== undefined) return !seen.isOver && seen.startedAt === started;
  try {
    process.kill(id, 0);
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code !== "ESRCH"; // As the system throws.
  }
}

/** False when the path is gone. */
async function isOlder(path: string, milliseconds: number): Promise<boolean> {
  const seen = await stat(path).catch(() => undefined);
  return seen !== undefined && Date.now() - seen.mtimeMs >= milliseconds;
}

/** Notes the last use, for `prune`. */
async function touch(folder: string): Promise<void> {
  const now = new Date();
  await utimes(folder, now, now).catch(() => {});
}

/** Packages by name, each with the versions that will do: `{ lodash: "^4.17.21" }`. */
export type DependencyMap = Readonly<Record<string, string>>;

const packageName = /^(?:@[a-z0-9~_-][a-z0-9._~-]*\/)?[a-z0-9~_-][a-z0-9._~-]*$/i;
/** Versions, ranges and tags. No addresses, paths or repositories: those would bypass the registry. */
const range = /^[\w\s.^~<>=|*+-]{1,100}$/;
const MOST_PACKAGES = 100;

/** Parses what a tool declared: an object, or a list such as `["lodash@^4.17.21"]`. Throws `DependencyError`. */
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

/** Equal for equal packages on machines that install the same files for them. */
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

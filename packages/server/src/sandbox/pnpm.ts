import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readlink, realpath } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve, sep } from "node:path";
import { createInterface } from "node:readline";
import { asRecord, DependencyError, defined, isRecord } from "../helpers/index.ts";

interface PnpmRun {
  readonly directory: string;
  readonly args: readonly string[];
  /** The path of the `.npmrc` with the operator's registries and keys. Default: that of the server's user. */
  readonly npmrc?: string;
  readonly signal?: AbortSignal;
  readonly onProgress: (resolved: number, added: number) => void;
}

/** The fields that are read from one line of pnpm's ndjson report. */
interface ReportLine {
  readonly name?: string;
  readonly level?: string;
  readonly status?: string;
  readonly code?: string;
  readonly hint?: string;
  readonly pkgName?: string;
  readonly package?: { readonly name?: string };
  readonly err?: { readonly message?: string };
}

/** Runs pnpm. When it fails, rejects with a `DependencyError` that names the package, if that is known. */
export async function runPnpm({ directory, args, npmrc, signal, onProgress }: PnpmRun): Promise<void> {
  const child = spawn(process.execPath, ["--disable-sigusr1", pnpmPath(), ...args, "--reporter=ndjson"], {
    cwd: directory,
    env: environment(npmrc),
    stdio: ["ignore", "pipe", "pipe"],
    ...(signal === undefined ? {} : { signal, killSignal: "SIGKILL" }),
  });
  const ended = once(child, "close");
  // `ended` is awaited below; until then its failure must not count as unhandled.
  ended.catch(() => {});
  let failure: ReportLine | undefined;
  let resolved = 0;
  let added = 0;
  const otherLines: string[] = [];
  createInterface(child.stderr).on("line", (line) => otherLines.push(line));
  for await (const line of createInterface(child.stdout)) {
    const report = parseReport(line);
    if (report === undefined) otherLines.push(line);
    else if (report.level === "error") failure ??= report;
    else if (report.name === "pnpm:progress") {
      if (report.status === "resolved") resolved++;
      if (report.status === "imported") added++;
      onProgress(resolved, added);
    }
  }
  const [code] = await ended;
  if (code !== 0) throw toError(failure, otherLines);
}

function pnpmPath(): string {
  // The package `pnpm` exports only its manifest, so the path of the program is built from the manifest's
  // folder.
  return join(dirname(createRequire(import.meta.url).resolve("pnpm")), "bin", "pnpm.mjs");
}

/** The server's environment, with its registries and proxies, without variables that change how Node runs. */
function environment(npmrc: string | undefined): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _options, NODE_PATH: _path, ...rest } = process.env;
  const { npm_config_registry: registry } = rest;
  return {
    // pnpm ignores `npm_config_registry`.
    ...(registry === undefined ? {} : { pnpm_config_registry: registry }),
    ...rest,
    ...(npmrc === undefined ? {} : { npm_config_userconfig: npmrc }),
    CI: "1",
  };
}

function parseReport(line: string): ReportLine | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const network =
  /FETCH_(?!404)|ENOTFOUND|ECONN|ETIMEDOUT|EAI_AGAIN|SOCKET|NO_OFFLINE|META_FETCH_FAIL|ENETUNREACH/;

function toError(failure: ReportLine | undefined, otherLines: readonly string[]): DependencyError {
  const { code = "", hint, pkgName, package: wanted, err } = failure ?? {};
  const message = err?.message ?? (otherLines.slice(-5).join("\n") || "pnpm ended without saying why.");
  const packageName =
    pkgName ??
    wanted?.name ??
    /No matching version found for\s+((?:@[^/@\s]+\/)?[^/@\s:]+)/.exec(message)?.[1] ??
    nameInAddress(message);
  const which = packageName === undefined ? "The packages" : `The package "${packageName}"`;
  const isTemporary = network.test(code) || network.test(message);
  return new DependencyError(
    `${which} could not be installed: ${message}`,
    remedyFor(code, isTemporary, hint),
    { isTemporary, ...defined({ packageName }) },
  );
}

/**
 * Finds the name of a package in the first URL of a message, which is that of the package or of its archive:
 * `…/@scope%2fname`, `…/name/-/name-1.0.0.tgz`.
 */
function nameInAddress(message: string): string | undefined {
  const [address] = /https?:\/\/[^\s"']+/.exec(message) ?? [];
  if (address === undefined || !URL.canParse(address)) return undefined;
  const path = new URL(address).pathname.replace(/%2f/gi, "/").replace(/%40/g, "@").split("/-/")[0]!;
  return /((?:@[^/]+\/)?[^/:]+):?$/.exec(path)?.[1];
}

function remedyFor(code: string, isTemporary: boolean, hint: string | undefined): string {
  if (code === "ERR_PNPM_FETCH_404") return "Check its name, and that the registry has it.";
  if (code === "ERR_PNPM_NO_MATCHING_VERSION") return "Ask for a version that the registry has.";
  if (isTemporary) return "Check that the registry can be reached from here, then reload.";
  return hint?.split("\n")[0] || "Correct getDependencies(), then reload.";
}

/** Throws `DependencyError` for a folder with a link that leads out of it, which a tool could follow. */
export async function checkLinks(folder: string): Promise<void> {
  const root = await realpath(folder);
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    // A broken link is judged by the path that it names, because a file may appear there later.
    const target = await realpath(path).catch(async () => resolve(dirname(path), await readlink(path)));
    if (target === root || target.startsWith(root + sep)) continue;
    const name = path.slice(root.length + 1);
    throw new DependencyError(
      `The packages were not installed: ${name} is a link to a place outside of them.`,
      "Find the package that brings it, and use another version of it.",
    );
  }
}

/**
 * Throws `DependencyError` when any package in the lock file does not come from a registry. The tool's own declaration
 * is checked before, but a package may depend on a folder, which would be copied from this machine to where the tool
 * can read it.
 */
export async function checkLock(text: string): Promise<void> {
  // Imported late: most starts of the program install nothing.
  const { parse } = await import("yaml");
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

/** Whether a version is a place (a URL, path or repository) instead of a version or an alias of another package. */
function isPlace(version: string): boolean {
  return /^(?:link|file|git|https?|workspace|portal):|^git\+|@(?:link|file):/.test(version);
}

/**
 * Whether an entry of the lock file comes from a registry: it then has an integrity hash. Entries for
 * folders, repositories and runtimes have a `type`.
 */
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

/** The name of a package in a key of the lock file: `@scope/name` for `@scope/name@1.0.0(peer@2.0.0)`. */
function nameOf(key: string): string {
  return /^(?:@[^/]+\/)?[^@]+/.exec(key)?.[0] ?? key;
}

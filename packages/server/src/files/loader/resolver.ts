import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { builtinModules } from "node:module";
import { basename, dirname, isAbsolute, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { createPathsMatcher, getTsconfig, type TsConfigResult } from "get-tsconfig";
import { isRecord, parseJsonc } from "../../helpers/index.ts";

export type Resolution =
  /** A file of the workspace, which Toolrack loads and reloads with its importers. */
  | { readonly kind: "file"; readonly path: string }
  /** A module that Toolrack itself provides. */
  | { readonly kind: "virtual"; readonly id: string }
  /** A Node built-in or an npm package, left to Node. */
  | { readonly kind: "external"; readonly specifier: string };

/** A module that Toolrack provides to tool files under the names that they import. */
export interface VirtualModule {
  readonly id: string;
  readonly pattern: RegExp;
  /** Replaces even a file that exists. */
  readonly always?: boolean;
}

const extensions = ["", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json"];
/** The endings that an import may mean: `./x.js` may mean `./x.ts`. */
const sourceEndings: Record<string, readonly string[]> = {
  ".js": [".ts", ".tsx", ".jsx"],
  ".mjs": [".mts"],
  ".cjs": [".cts"],
  ".jsx": [".tsx"],
};
const builtins = new Set(builtinModules);

interface Tsconfig {
  readonly text: string;
  readonly match: (specifier: string) => string[];
  readonly extended: readonly string[];
}

/** Resolves imports as TypeScript, Node and the toolbox contract do. */
export class Resolver {
  readonly #virtual: readonly VirtualModule[];
  readonly #tsconfigs = new Map<string, Tsconfig>();

  constructor(virtual: readonly VirtualModule[]) {
    this.#virtual = virtual;
  }

  resolve(specifier: string, from: string): Resolution {
    if (specifier.startsWith("node:") || builtins.has(specifier)) return { kind: "external", specifier };
    if (specifier.startsWith("file:")) return this.#resolveFile(fileURLToPath(specifier), specifier);
    if (specifier.startsWith(".") || isAbsolute(specifier))
      return this.#resolveFile(resolve(dirname(from), specifier), specifier);
    for (const candidate of this.#tsconfigFor(from).match(specifier)) {
      const path = findFile(candidate);
      if (path !== undefined) return { kind: "file", path };
    }
    return this.#provided(specifier) ?? { kind: "external", specifier };
  }

  /**
   * Every path at which a file would become the target of the import, whether it exists or not: an earlier match of a
   * tsconfig.json's `paths`, or a file that would replace a package or a provided module.
   */
  placesOf(specifier: string, from: string): string[] {
    if (specifier.startsWith("node:") || builtins.has(specifier)) return [];
    if (specifier.startsWith("file:")) return [fileURLToPath(specifier)];
    if (!specifier.startsWith(".") && !isAbsolute(specifier)) return this.#tsconfigFor(from).match(specifier);
    const path = resolve(dirname(from), specifier);
    // An imported folder may be the workspace itself, so only its index counts.
    return /(^|\/)\.{0,2}$/.test(specifier) ? [join(path, "index")] : [path];
  }

  /**
   * Those options of the nearest tsconfig.json that esbuild uses, as JSON text; no options when there is
   * none.
   */
  tsconfig(path: string): string {
    return this.#tsconfigFor(path).text;
  }

  /** The files that the nearest tsconfig.json extends: they affect imports as well. */
  extendedConfigs(path: string): readonly string[] {
    return this.#tsconfigFor(path).extended;
  }

  /** Forgets the tsconfig files, so that a changed one is read again. */
  refresh(): void {
    this.#tsconfigs.clear();
  }

  /**
   * A provided module with `always` comes first, then an existing file; other provided modules only replace a
   * missing file.
   */
  #resolveFile(path: string, specifier: string): Resolution {
    const always = this.#virtual.find((module) => module.always === true && module.pattern.test(specifier));
    if (always !== undefined) return { kind: "virtual", id: always.id };
    const found = findFile(path);
    return found === undefined
      ? (this.#provided(specifier) ?? { kind: "file", path })
      : { kind: "file", path: found };
  }

  #provided(specifier: string): Resolution | undefined {
    const provided = this.#virtual.find(({ pattern }) => pattern.test(specifier));
    return provided === undefined ? undefined : { kind: "virtual", id: provided.id };
  }

  #tsconfigFor(path: string): Tsconfig {
    const folder = dirname(path);
    const known = this.#tsconfigs.get(folder);
    if (known !== undefined) return known;
    const config = readTsconfig(path);
    const match = config === null ? null : createPathsMatcher(config);
    const extended = config === null ? [] : extendedBy(config.path);
    const read = { text: esbuildOptions(config), match: match ?? (() => []), extended };
    this.#tsconfigs.set(folder, read);
    return read;
  }
}

function readTsconfig(path: string): TsConfigResult | null {
  try {
    return getTsconfig(path);
  } catch {
    return null; // The tool files may load without it.
  }
}

/** All files that a config extends, directly or not, except those in packages. */
function extendedBy(path: string, seen = new Set<string>()): string[] {
  let given: unknown;
  try {
    given = parseJsonc(readFileSync(path, "utf8"));
  } catch {
    return [];
  }
  const named = isRecord(given) ? [given.extends].flat() : [];
  for (const name of named) {
    if (typeof name !== "string" || !(name.startsWith(".") || isAbsolute(name))) continue;
    const file = resolve(dirname(path), name.endsWith(".json") ? name : `${name}.json`);
    if (seen.has(file)) continue;
    seen.add(file);
    extendedBy(file, seen);
  }
  return [...seen];
}

function esbuildOptions(config: TsConfigResult | null): string {
  const {
    experimentalDecorators,
    useDefineForClassFields,
    jsx,
    jsxFactory,
    jsxFragmentFactory,
    jsxImportSource,
    target,
  } = config?.config.compilerOptions ?? {};
  return JSON.stringify({
    compilerOptions: {
      experimentalDecorators,
      useDefineForClassFields,
      jsx,
      jsxFactory,
      jsxFragmentFactory,
      jsxImportSource,
      ...(experimentalDecorators ? { target } : {}),
    },
  });
}

function findFile(path: string): string | undefined {
  for (const extension of extensions) {
    if (isFile(path + extension)) return path + extension;
  }
  for (const [ending, replacements] of Object.entries(sourceEndings)) {
    if (!path.endsWith(ending)) continue;
    const stem = path.slice(0, -ending.length);
    for (const replacement of replacements) if (isFile(stem + replacement)) return stem + replacement;
  }
  for (const extension of extensions.slice(1)) {
    const index = join(path, `index${extension}`);
    if (isFile(index)) return index;
  }
  return undefined;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

export interface ScannedFile {
  /** Absolute. */
  readonly path: string;
  /** Changes whenever the content does. */
  readonly signature: string;
}

export interface UnreadableFile {
  readonly path: string;
  readonly reason: string;
}

interface Scan {
  readonly files: readonly string[];
  readonly unreadable: readonly UnreadableFile[];
}

const sources = /\.(?:ts|mts|cts|tsx|js|mjs|cjs|jsx)$/;
/** Type declarations, tests, configs, and index files, which only re-export other files. */
const nonTools =
  /^index\.[mc]?[jt]sx?$|\.d\.[mc]?ts$|\.(?:test|spec|test-d)\.[mc]?[jt]sx?$|\.config\.[mc]?[jt]s$/;

/**
 * Every source file below the folder, in the same order on every machine. A missing folder is empty; instead of a
 * folder, a single source file may be given.
 */
export async function scanFiles(folder: string): Promise<Scan> {
  const files: string[] = [];
  const unreadable: UnreadableFile[] = [];
  await walk(folder, files, unreadable);
  // Slashes make the order independent of the system.
  const slashed = (path: string) => path.split(sep).join("/");
  files.sort((one, other) => (slashed(one) < slashed(other) ? -1 : 1));
  return { files, unreadable };
}

/**
 * Computes the signatures of files, by path. A file with the same time and size as in `before` counts as
 * unchanged. An unreadable file gets a signature too, and fails when it is loaded.
 */
export async function signFiles(
  paths: readonly string[],
  before?: ReadonlyMap<string, ScannedFile>,
): Promise<Map<string, ScannedFile>> {
  const signed = await Promise.all(paths.map((path) => sign(path, before?.get(path))));
  return new Map(signed.map((file) => [file.path, file]));
}

async function walk(folder: string, found: string[], unreadable: UnreadableFile[]): Promise<void> {
  let entries: import("node:fs").Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException; // `readdir` throws nothing else.
    if (code === "ENOTDIR" && isSource(basename(folder)) && (await isToolFile(folder))) found.push(folder);
    else if (code !== "ENOENT" && code !== "ENOTDIR") unreadable.push({ path: folder, reason: message });
    return;
  }
  await Promise.all(
    entries.map(async (entry) => {
      if (entry.name.startsWith(".") || entry.name === "node_modules") return;
      const path = join(folder, entry.name);
      if (entry.isDirectory()) await walk(path, found, unreadable);
      else if (isSource(entry.name) && (entry.isFile() || (await isToolFile(path)))) found.push(path);
    }),
  );
}

function isSource(name: string): boolean {
  return sources.test(name) && !nonTools.test(name);
}

/** Whether the path is a file, or a link to one. */
async function isToolFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

async function sign(path: string, before: ScannedFile | undefined): Promise<ScannedFile> {
  try {
    const { mtimeMs, size, ino } = await stat(path);
    const stamp = `${mtimeMs}:${size}:${ino}`;
    if (before?.signature.startsWith(`${stamp} `)) return before;
    const digest = createHash("sha256")
      .update(await readFile(path))
      .digest("base64");
    // A rewritten file with the same content gets a new stamp, but the same digest.
    return { path, signature: `${stamp} ${digest}` };
  } catch (thrown) {
    return { path, signature: `? ${(thrown as NodeJS.ErrnoException).code ?? "unreadable"}` };
  }
}

/** Whether two scans saw the same content. */
export function sameContent(one: ScannedFile | undefined, other: ScannedFile | undefined): boolean {
  return one?.signature.split(" ")[1] === other?.signature.split(" ")[1];
}

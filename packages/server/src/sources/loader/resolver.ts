import { statSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { createPathsMatcher, getTsconfig, type TsConfigResult } from "get-tsconfig";

export type Resolution =
  /** A file of the workspace, loaded by us and reloaded with its importers. */
  | { readonly kind: "file"; readonly path: string }
  /** A module that Toolrack itself provides. */
  | { readonly kind: "virtual"; readonly id: string }
  /** A Node built-in or an npm package, left to Node. */
  | { readonly kind: "external"; readonly specifier: string };

/** A module that Toolrack provides to tool files under the names that they import. */
export interface VirtualModule {
  readonly id: string;
  readonly pattern: RegExp;
  /** Also instead of a file that is there. */
  readonly always?: boolean;
}

const extensions = ["", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json"];
/** What TypeScript writes for what is there: `./x.js` may mean `./x.ts`. */
const written: Record<string, readonly string[]> = {
  ".js": [".ts", ".tsx", ".jsx"],
  ".mjs": [".mts"],
  ".cjs": [".cts"],
  ".jsx": [".tsx"],
};
const builtins = new Set(builtinModules);

/** Finds what an import means, the way TypeScript, Node and the toolbox contract would. */
export class Resolver {
  readonly #virtual: readonly VirtualModule[];
  readonly #tsconfigs = new Map<string, { text: string; match: (specifier: string) => string[] }>();

  constructor(virtual: readonly VirtualModule[]) {
    this.#virtual = virtual;
  }

  resolve(specifier: string, from: string): Resolution {
    if (specifier.startsWith("node:") || builtins.has(specifier)) return { kind: "external", specifier };
    if (specifier.startsWith("file:")) return this.#file(fileURLToPath(specifier), specifier);
    if (specifier.startsWith(".") || isAbsolute(specifier))
      return this.#file(resolve(dirname(from), specifier), specifier);
    for (const candidate of this.#tsconfigFor(from).match(specifier)) {
      const path = existing(candidate);
      if (path !== undefined) return { kind: "file", path };
    }
    return this.#provided(specifier) ?? { kind: "external", specifier };
  }

  /** The part of the nearest tsconfig.json that esbuild heeds, as JSON text; `{}` when there is none. */
  tsconfig(path: string): string {
    return this.#tsconfigFor(path).text;
  }

  /** Forgets the tsconfig files, so that a changed one is read again. */
  refresh(): void {
    this.#tsconfigs.clear();
  }

  /** What is really there comes first; what Toolrack provides stands in for what is missing. */
  #file(path: string, specifier: string): Resolution {
    const always = this.#virtual.find((module) => module.always === true && module.pattern.test(specifier));
    if (always !== undefined) return { kind: "virtual", id: always.id };
    const found = existing(path);
    return found === undefined
      ? (this.#provided(specifier) ?? { kind: "file", path })
      : { kind: "file", path: found };
  }

  #provided(specifier: string): Resolution | undefined {
    const provided = this.#virtual.find(({ pattern }) => pattern.test(specifier));
    return provided === undefined ? undefined : { kind: "virtual", id: provided.id };
  }

  #tsconfigFor(path: string) {
    const folder = dirname(path);
    const known = this.#tsconfigs.get(folder);
    if (known !== undefined) return known;
    const config = readTsconfig(path);
    const match = config === null ? null : createPathsMatcher(config);
    const read = { text: relevant(config), match: match ?? (() => []) };
    this.#tsconfigs.set(folder, read);
    return read;
  }
}

function readTsconfig(path: string): TsConfigResult | null {
  try {
    return getTsconfig(path);
  } catch {
    return null; // A broken tsconfig.json is the editor's business; the files may load all the same.
  }
}

function relevant(config: TsConfigResult | null): string {
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

function existing(path: string): string | undefined {
  for (const extension of extensions) {
    if (isFile(path + extension)) return path + extension;
  }
  for (const [ending, replacements] of Object.entries(written)) {
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

import { createHash } from "node:crypto";
import { extname } from "node:path";
import {
  type Loader,
  type Location,
  type Message,
  type TransformOptions,
  transform,
  transformSync,
  version,
} from "esbuild";
import { CompileCache } from "./compile-cache.ts";
import { LoadError } from "./load-failure.ts";

/** A file as CommonJS that `vm.compileFunction` takes. */
export interface CompiledFile {
  readonly code: string;
  /** The source map, as JSON text. */
  readonly map: string;
}

const loaders: Record<string, Loader> = {
  ".ts": "ts",
  ".mts": "ts",
  ".cts": "ts",
  ".tsx": "tsx",
  ".jsx": "jsx",
};

/** Raised whenever the options below change what comes out, so that old cache entries are not used. */
const FORMAT = 1;

/** The names under which the wrapper hands over what CommonJS does not have. */
export const importMeta = {
  url: "__toolrack_import_meta_url",
  filename: "__filename",
  dirname: "__dirname",
} as const;

/** Compiles tool files with esbuild, and remembers the outcome by content. */
export class Compiler {
  readonly #cache: CompileCache | undefined;

  constructor(cacheFile?: string) {
    this.#cache = cacheFile === undefined ? undefined : new CompileCache(cacheFile);
  }

  /** Throws `LoadError` with the line for a file that does not compile. */
  async compile(path: string, source: string, tsconfig: string): Promise<CompiledFile> {
    const key = keyOf(path, source, tsconfig);
    const cached = await this.#cache?.get(key);
    if (cached !== undefined) return cached;
    try {
      const { code, map } = await transform(source, optionsFor(path, tsconfig));
      this.#cache?.add(key, { code, map });
      return { code, map };
    } catch (thrown) {
      throw toLoadError(thrown, path);
    }
  }

  /** The same for a file that turns up in the middle of an evaluation, where nothing can be awaited. */
  compileNow(path: string, source: string, tsconfig: string): CompiledFile {
    try {
      const { code, map } = transformSync(source, optionsFor(path, tsconfig));
      return { code, map };
    } catch (thrown) {
      throw toLoadError(thrown, path);
    }
  }

  /** Waits for what is still being written to the cache. */
  async settle(): Promise<void> {
    await this.#cache?.settle();
  }
}

/** The path is part of the key because it stands in the source map. */
function keyOf(path: string, source: string, tsconfig: string): string {
  return createHash("sha256")
    .update([FORMAT, version, path, tsconfig, source].join("\0"))
    .digest("base64url");
}

function optionsFor(path: string, tsconfig: string): TransformOptions & { sourcemap: "external" } {
  return {
    loader: loaders[extname(path)] ?? "js",
    format: "cjs",
    platform: "node",
    target: "node24",
    sourcefile: path,
    sourcemap: "external",
    sourcesContent: false,
    tsconfigRaw: tsconfig,
    // A dynamic import becomes a require, so that it stays inside the version that it belongs to.
    supported: { "dynamic-import": false },
    define: {
      "import.meta.url": importMeta.url,
      "import.meta.filename": importMeta.filename,
      "import.meta.dirname": importMeta.dirname,
    },
    logLevel: "silent",
  };
}

function toLoadError(thrown: unknown, path: string): LoadError {
  const [first] = (thrown as { errors?: Message[] }).errors ?? [];
  if (first === undefined) {
    return new LoadError(
      String(thrown),
      "Check that the file is text and that esbuild runs on this machine.",
      { path },
    );
  }
  const remedy = /top-level await/i.test(first.text)
    ? "Move the await into the tool's function, or into a promise that the function awaits."
    : "Correct the syntax at this line.";
  return new LoadError(first.text, remedy, {
    path,
    ...(first.location ? placeOf(first.location) : {}),
  });
}

/** esbuild counts columns in bytes. */
function placeOf({ line, column, lineText }: Location): { line: number; column: number } {
  return { line, column: Buffer.from(lineText).subarray(0, column).toString().length };
}

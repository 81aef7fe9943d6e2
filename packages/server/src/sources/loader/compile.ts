import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { type Loader, type Message, type TransformOptions, transform, transformSync, version } from "esbuild";
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

/** Compiles tool files with esbuild, and remembers the outcome on disk by content. */
export class Compiler {
  readonly #cacheDirectory: string | undefined;

  constructor(cacheDirectory?: string) {
    this.#cacheDirectory = cacheDirectory;
  }

  /** Throws `LoadError` with the line for a file that does not compile. */
  async compile(path: string, source: string, tsconfig: string): Promise<CompiledFile> {
    const entry = this.#entryFor(path, source, tsconfig);
    const cached = entry === undefined ? undefined : await read(entry);
    if (cached !== undefined) return cached;
    try {
      const { code, map } = await transform(source, optionsFor(path, tsconfig));
      const compiled = { code, map };
      if (entry !== undefined) await write(entry, compiled);
      return compiled;
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

  #entryFor(path: string, source: string, tsconfig: string): string | undefined {
    if (this.#cacheDirectory === undefined) return undefined;
    // The path is part of the key because it stands in the source map.
    const key = createHash("sha256")
      .update([FORMAT, version, path, tsconfig, source].join("\0"))
      .digest("hex");
    return join(this.#cacheDirectory, key.slice(0, 2), `${key.slice(2)}.json`);
  }
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
    ...(first.location ? { line: first.location.line } : {}),
  });
}

async function read(entry: string): Promise<CompiledFile | undefined> {
  try {
    const { code, map } = JSON.parse(await readFile(entry, "utf8"));
    return typeof code === "string" && typeof map === "string" ? { code, map } : undefined;
  } catch {
    return undefined;
  }
}

/** A cache that cannot be written is only slower. */
async function write(entry: string, compiled: CompiledFile): Promise<void> {
  const temporary = `${entry}.${randomUUID()}`;
  try {
    await mkdir(dirname(entry), { recursive: true });
    await writeFile(temporary, JSON.stringify(compiled));
    await rename(temporary, entry);
  } catch {}
}

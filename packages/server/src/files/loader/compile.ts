import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { extname } from "node:path";
import timers from "node:timers";
import timerPromises from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import vm from "node:vm";
import type { Loader, Location, Message, TransformOptions } from "esbuild";
import { LoadError } from "../../helpers/index.ts";
import { CompileCache, type CompiledFile } from "./compile-cache.ts";

const loaders: Record<string, Loader> = {
  ".ts": "ts",
  ".mts": "ts",
  ".cts": "ts",
  ".tsx": "tsx",
  ".jsx": "jsx",
};

/** Must be raised whenever the options below change the output, so that old cache entries are not used. */
const FORMAT = 2;

/** The parameter names that replace parts of `import.meta`, which CommonJS lacks. */
export const importMeta = {
  url: "__toolrack_import_meta_url",
  filename: "__filename",
  dirname: "__dirname",
} as const;

const require = createRequire(import.meta.url);
/** Loaded when a file is compiled: a start with all files in the cache needs none. */
const esbuild = (): typeof import("esbuild") => require("esbuild");
let esbuildVersion: string | undefined;

/** Compiles tool files with esbuild. Results are cached by content. */
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
      const { code, map } = await esbuild().transform(source, optionsFor(path, source, tsconfig));
      this.#cache?.add(key, { code, map });
      return { code, map };
    } catch (thrown) {
      throw toLoadError(thrown, path);
    }
  }

  /** Like `compile`, for a file that is first imported during an evaluation, where nothing can be awaited. */
  compileNow(path: string, source: string, tsconfig: string): CompiledFile {
    try {
      const { code, map } = esbuild().transformSync(source, optionsFor(path, source, tsconfig));
      return { code, map };
    } catch (thrown) {
      throw toLoadError(thrown, path);
    }
  }

  /** Frees what is only needed while many files are compiled. */
  rest(): void {
    this.#cache?.forget();
  }

  async settle(): Promise<void> {
    await this.#cache?.settle();
  }
}

/** The path is part of the key because the source map contains it. */
function keyOf(path: string, source: string, tsconfig: string): string {
  esbuildVersion ??= String(require("esbuild/package.json").version);
  return createHash("sha256")
    .update([FORMAT, esbuildVersion, path, tsconfig, source].join("\0"))
    .digest("base64url");
}

function optionsFor(
  path: string,
  source: string,
  tsconfig: string,
): TransformOptions & { sourcemap: "external" } {
  return {
    loader: loaders[extname(path)] ?? "js",
    format: "cjs",
    platform: "node",
    target: "node24",
    sourcefile: path,
    sourcemap: "external",
    sourcesContent: false,
    tsconfigRaw: tsconfig,
    supported: {
      // A dynamic import becomes a require, so that it stays within the file's version.
      "dynamic-import": false,
      // Without template texts no text goes over several lines, as `noteCatches` needs it.
      ...(returnsErrors(source) ? { "template-literal": false } : {}),
    },
    define: {
      "import.meta.url": importMeta.url,
      "import.meta.filename": importMeta.filename,
      "import.meta.dirname": importMeta.dirname,
    },
    logLevel: "silent",
  };
}

/** Whether a file may return an error that it has caught, as a text without its stack. */
function returnsErrors(text: string): boolean {
  return text.includes("isError") && text.includes("catch");
}

/**
 * Lets every `catch` of a compiled file note its error by a call of the function with this name, so that the log has the
 * stack of an error that the file returns as a text. A line that ends with the head of a `catch` is one, unless it is
 * part of a template text: files with such texts are left as they are.
 */
export function noteCatches(code: string, functionName: string): string {
  if (!returnsErrors(code) || code.includes("`")) return code;
  return code.replace(/\bcatch \(([A-Za-z_$][\w$]*)\) \{$/gm, `$& ${functionName}($1);`);
}

function toLoadError(thrown: unknown, path: string): LoadError {
  const [first] = (thrown as { errors?: Message[] }).errors ?? []; // esbuild throws errors of this shape.
  if (first === undefined) {
    return new LoadError(
      String(thrown),
      "Check that the file is text and that esbuild runs on this machine.",
      { path },
    );
  }
  const isAwait = /top-level await/i.test(first.text);
  const remedy = isAwait
    ? "Move the await into the tool's function, or into a promise that the function awaits."
    : "Correct the syntax at this line.";
  return new LoadError(first.text, remedy, {
    path,
    ...(isAwait ? {} : { code: "syntax" as const }),
    ...(first.location ? placeOf(first.location) : {}),
  });
}

/** esbuild counts columns in bytes. */
function placeOf({ line, column, lineText }: Location): { line: number; column: number } {
  return { line, column: Buffer.from(lineText).subarray(0, column).toString().length };
}

/** Lines shown before and after the faulty one. */
const AROUND = 2;
const LONGEST_LINE = 160;

/**
 * The lines around a place in a source text, with the place marked:
 *
 *       3 | const a = 1;
 *     > 4 | const b = ;
 *         |           ^
 *
 * `line` counts from 1, `column` from 0. Undefined when the text has no such line.
 */
export function codeFrame(source: string, line: number, column?: number): string | undefined {
  const lines = source.split(/\r\n|[\n\r\u2028\u2029]/);
  if (lines[line - 1] === undefined) return undefined;
  const first = Math.max(1, line - AROUND);
  const last = Math.min(lines.length, line + AROUND);
  const width = String(last).length;
  const rows: string[] = [];
  for (let number = first; number <= last; number++) {
    const text = lines[number - 1]!;
    const mark = number === line ? ">" : " ";
    rows.push(`${mark} ${String(number).padStart(width)} | ${clip(text)}`.trimEnd());
    if (number !== line || column === undefined || column > Math.min(text.length, LONGEST_LINE)) continue;
    // Tabs stay tabs, so that the caret stands below its character whatever their width.
    rows.push(`${" ".repeat(width + 3)}| ${text.slice(0, column).replace(/[^\t]/g, " ")}^`);
  }
  return rows.join("\n");
}

function clip(line: string): string {
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}

/**
 * V8 caches the text of every compiled script. A reloaded file never has the same text again, so each old version would
 * stay in memory for long.
 */
export function forgetCompiledSources(): void {
  setFlagsFromString("--no-compilation-cache");
}

const evaluate = Symbol.for("toolrack.evaluate");
const trampoline = new vm.Script('globalThis[Symbol.for("toolrack.evaluate")]()', {
  filename: "toolrack:evaluate",
});

/** The globals of the script. Test runners such as Jest give other ones to the code that they run. */
const globals: Record<symbol, unknown> = vm.runInThisContext("globalThis");

/** Runs the call with a time limit. Node can interrupt only code that a script starts, so a tiny script starts it. */
export function withinTime(call: () => void, limit: number): void {
  const { exit } = process;
  globals[evaluate] = call;
  process.exit = refuseExit;
  try {
    trampoline.runInThisContext({ timeout: limit, displayErrors: false });
  } finally {
    process.exit = exit;
    delete globals[evaluate];
  }
}

function refuseExit(): never {
  throw new Error("process.exit() is not available to tool files.");
}

/** Returns a function that puts the former members back. */
function replaceMembers(object: object, members: object): () => void {
  const former = Object.fromEntries(Object.keys(members).map((key) => [key, Reflect.get(object, key)]));
  Object.assign(object, members);
  return () => Object.assign(object, former);
}

/** The real one, also while `withoutTimers` replaces it. */
const startTimer = setTimeout;

/**
 * Intervals made by one version of a file. They are stopped when the version is dropped; otherwise a forgotten interval
 * would keep it in memory for ever.
 */
export class TrackedTimers {
  readonly #running = new Set<NodeJS.Timeout>();
  /** Put back what `withoutTimers` has replaced. */
  #restores: (() => void)[] = [];
  /** The timer functions that the file has called although it may start no timer. */
  readonly refused = new Set<string>();

  /**
   * The timer functions for a file that is only checked: what they start never runs. What they return can be used as
   * usual.
   */
  get refusing() {
    return {
      setInterval: () => this.#refuse("setInterval"),
      setTimeout: () => this.#refuse("setTimeout"),
      setImmediate: () => this.#refuse("setImmediate"),
      clearInterval,
      clearTimeout,
      clearImmediate,
    };
  }

  /** Like `refusing`, for `node:timers/promises`: the promises never settle. */
  get refusingPromises() {
    return {
      setTimeout: () => this.#refusePromise("setTimeout"),
      setImmediate: () => this.#refusePromise("setImmediate"),
      setInterval: () => ({
        [Symbol.asyncIterator]: () => ({ next: () => this.#refusePromise("setInterval") }),
      }),
      scheduler: {
        wait: () => this.#refusePromise("scheduler.wait"),
        yield: () => this.#refusePromise("scheduler.yield"),
      },
    };
  }

  /** Runs a function with all timers refused, however the file reaches them: as `globalThis.setTimeout`, for example. */
  withoutTimers(run: () => void): void {
    const { setInterval, setTimeout, setImmediate } = this.refusing;
    const timeout = () => {
      this.refused.add("AbortSignal.timeout");
      return new AbortController().signal;
    };
    this.#restores = [
      replaceMembers(globalThis, { setInterval, setTimeout, setImmediate }),
      replaceMembers(timers, { setInterval, setTimeout, setImmediate }),
      replaceMembers(timerPromises, this.refusingPromises),
      replaceMembers(AbortSignal, { timeout }),
    ];
    try {
      run();
    } finally {
      this.#restore();
    }
  }

  #restore(): void {
    for (const restore of this.#restores.splice(0)) restore();
  }

  #refuse(name: string): NodeJS.Timeout {
    this.refused.add(name);
    const timer = startTimer(() => {}, 0);
    clearTimeout(timer);
    return timer;
  }

  #refusePromise(name: string): Promise<never> {
    this.refused.add(name);
    return new Promise(() => {});
  }

  readonly setInterval = (...args: Parameters<typeof setInterval>): NodeJS.Timeout => {
    const timer = setInterval(...args);
    this.#running.add(timer);
    return timer;
  };

  readonly clearInterval = (timer: NodeJS.Timeout | undefined): void => {
    if (timer !== undefined) this.#running.delete(timer);
    clearInterval(timer);
  };

  /** Also for a version whose evaluation was ended by its time limit, which skips every `finally`. */
  stop(): void {
    this.#restore();
    for (const timer of this.#running) clearInterval(timer);
    this.#running.clear();
  }
}

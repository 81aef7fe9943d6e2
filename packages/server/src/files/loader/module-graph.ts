import { existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";
import { noteCaught } from "../../helpers/current-call.ts";
import { LoadError, reasonOf, type StackMapper } from "../../helpers/index.ts";
import { type Compiler, importMeta, noteCatches, TrackedTimers, withinTime } from "./compile.ts";
import type { CompiledFile } from "./compile-cache.ts";
import type { Resolution, Resolver } from "./resolver.ts";

/** One evaluated version of one file. */
export interface LoadedModule {
  readonly path: string;
  /** The same as `path`, under the name that CommonJS code expects; so is `id`. */
  readonly filename: string;
  readonly id: string;
  exports: unknown;
  /** The files of the workspace that the module imports. */
  readonly dependencies: Set<string>;
  /** Paths at which a new file would become an import of the module. */
  readonly places: Set<string>;
  readonly timers: TrackedTimers;
}

export interface ModuleGraphParts {
  readonly compiler: Compiler;
  readonly resolver: Resolver;
  readonly stacks: StackMapper;
  /** Makes a module that Toolrack provides, for the file that imports it. */
  readonly provide: (id: string, importer: string) => unknown;
  /** How long evaluating one file may take, in milliseconds. */
  readonly evaluationLimit: number;
  /** The files are only checked, so no timer that they start may run. */
  readonly isCheck?: boolean;
}

/** What compiling a file found out about its imports. */
interface FileImports {
  /** The files of the workspace that the file imports, missing ones included. */
  readonly imports: ReadonlySet<string>;
  /** As in `LoadedModule`. */
  readonly places: ReadonlySet<string>;
}

/**
 * Thrown when a package can only be imported asynchronously: `load` imports it and evaluates the file again.
 */
class NeedsImport extends Error {
  readonly url: string;
  constructor(url: string) {
    super(`${url} must be imported asynchronously`);
    this.url = url;
  }
}

/**
 * The workspace's own files as modules that can be dropped. Node keeps every ES module for ever, so files are compiled
 * to functions instead. A reload evaluates only the changed files and their importers; all others are shared with the
 * previous graph.
 */
export class ModuleGraph {
  readonly #parts: ModuleGraphParts;
  readonly #modules: ReadonlyMap<string, LoadedModule>;
  readonly #fresh = new Map<string, LoadedModule>();
  /** Until the file is evaluated: V8 keeps the code that it runs, so that this would be a second copy. */
  readonly #compiled = new Map<string, CompiledFile>();
  readonly #imports = new Map<string, FileImports>();
  readonly #imported: Map<string, unknown>;
  /** What evaluating a file ahead of its `load` threw. */
  readonly #thrown = new Map<string, unknown>();
  /** The modules that are being evaluated: a file, what it imports, what that imports, and so on. */
  #evaluating: LoadedModule[] = [];

  private constructor(
    parts: ModuleGraphParts,
    kept: ReadonlyMap<string, LoadedModule>,
    imported: Map<string, unknown>,
  ) {
    this.#parts = parts;
    this.#modules = kept;
    this.#imported = imported;
  }

  static empty(parts: ModuleGraphParts): ModuleGraph {
    return new ModuleGraph(parts, new Map(), new Map());
  }

  /** A new graph without the changed files and all their importers. */
  without(changed: Iterable<string>): ModuleGraph {
    const stale = this.importersOf(changed);
    const kept = new Map([...this.#all()].filter(([path]) => !stale.has(path)));
    return new ModuleGraph(this.#parts, kept, this.#imported);
  }

  /** The files themselves and every file that imports one of them, directly or not. */
  importersOf(files: Iterable<string>): Set<string> {
    const reached = new Set(files);
    const modules = [...this.#all().values()];
    for (let before = -1; before !== reached.size; ) {
      before = reached.size;
      for (const { path, dependencies } of modules) {
        if (!reached.has(path) && [...dependencies].some((file) => reached.has(file))) reached.add(path);
      }
    }
    return reached;
  }

  get(path: string): LoadedModule | undefined {
    return this.#fresh.get(path) ?? this.#modules.get(path);
  }

  /** Every evaluated file, and every file that one of them imports or may import later. */
  paths(): string[] {
    const modules = this.#all();
    return [
      ...new Set([...modules.keys(), ...[...modules.values()].flatMap((module) => [...module.dependencies])]),
    ];
  }

  /** Every path at which a new file would become an import of these files. Default: of all files. */
  places(files: Iterable<string> = [...this.#all().keys(), ...this.#imports.keys()]): string[] {
    const places = [...files].flatMap((path) => [
      ...(this.#imports.get(path)?.places ?? []),
      ...(this.get(path)?.places ?? []),
    ]);
    return [...new Set(places)];
  }

  modules(): Iterable<LoadedModule> {
    return this.#all().values();
  }

  /** The files that loading this file looked at, as far as it got: itself and its imports, missing ones included. */
  attempted(path: string, seen = new Set<string>()): Set<string> {
    if (seen.has(path)) return seen;
    seen.add(path);
    const dependencies = this.#imports.get(path)?.imports ?? this.get(path)?.dependencies ?? [];
    for (const dependency of dependencies) this.attempted(dependency, seen);
    return seen;
  }

  /** Drops a module that was evaluated here but must not be used. */
  discard(path: string): void {
    this.#fresh.get(path)?.timers.stop();
    this.#fresh.delete(path);
  }

  restore(module: LoadedModule): void {
    this.#fresh.set(module.path, module);
  }

  /** Compiles many files at once and evaluates them. `load` reports their errors. */
  async prepare(paths: readonly string[]): Promise<void> {
    const waiting = [...paths];
    const worker = async () => {
      for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
        await this.#compileTree(path).catch(() => {});
      }
    };
    await Promise.all(Array.from({ length: MOST_COMPILING }, worker));
    const ready = paths.filter((path) => this.#compiled.has(path)).reverse();
    while (ready.length > 0) {
      this.#evaluateSome(ready);
      // Others have their turn: a reload of thousands of files must not hold up calls.
      await new Promise(setImmediate);
    }
  }

  /** Compiles the file and what it imports, then evaluates it. Throws `LoadError`. */
  async load(path: string): Promise<LoadedModule> {
    const known = this.get(path);
    if (known !== undefined) return known;
    await this.#compileTree(path);
    for (;;) {
      try {
        return this.#evaluated(path);
      } catch (thrown) {
        if (!(thrown instanceof NeedsImport)) throw thrown;
        this.#imported.set(thrown.url, await import(thrown.url));
      }
    }
  }

  #all(): Map<string, LoadedModule> {
    return new Map([...this.#modules, ...this.#fresh]);
  }

  async #compileTree(path: string): Promise<void> {
    if (this.#compiled.has(path) || this.get(path) !== undefined || extname(path) === ".json") return;
    const { compiler, resolver } = this.#parts;
    const source = await readFile(path, "utf8").catch((thrown) => {
      throw unreadable(path, thrown);
    });
    const compiled = await compiler.compile(path, source, resolver.tsconfig(path));
    const specifiers = [...compiled.code.matchAll(/\brequire\(\s*(["'])([^"'\n]+)\1\s*\)/g)].map(
      (match) => match[2]!,
    );
    const imports = new Set<string>();
    const places = new Set(resolver.extendedConfigs(path));
    for (const specifier of new Set(specifiers)) {
      for (const place of resolver.placesOf(specifier, path)) places.add(place);
      const resolution = resolver.resolve(specifier, path);
      if (resolution.kind === "file") imports.add(resolution.path);
    }
    this.#compiled.set(path, compiled);
    this.#imports.set(path, { imports, places });
    // A missing file is reported only when it is required: it may be optional.
    for (const file of imports) await this.#compileTree(file).catch(() => {});
  }

  /**
   * Takes files off the end of the list and evaluates them, for about `SLICE` milliseconds, all under one time limit: Node
   * starts a thread for each limit, which takes 0.15 ms, nearly half of what a small file takes. Keeps in `#thrown` what they throw.
   */
  #evaluateSome(waiting: string[]): void {
    const end = performance.now() + SLICE;
    const evaluateAll = () => {
      do {
        const path = waiting.pop()!;
        try {
          this.#evaluate(path);
        } catch (thrown) {
          this.#thrown.set(path, thrown);
        }
      } while (waiting.length > 0 && performance.now() < end);
    };
    try {
      // However late in the slice a file begins, it has its whole time.
      withinTime(evaluateAll, this.#parts.evaluationLimit + SLICE);
    } catch (thrown) {
      // The limit ends all code at once, without its `catch` and `finally`. The outermost file is the one to blame.
      const stopped = this.#evaluating;
      this.#evaluating = [];
      for (const module of stopped.toReversed()) this.discard(module.path);
      const [first] = stopped;
      if (first === undefined) throw thrown;
      this.#thrown.set(first.path, this.#evaluationError(first.path, thrown));
    }
  }

  /** Evaluates a file by itself, unless that was done before; throws what it threw then. */
  #evaluated(path: string): LoadedModule {
    if (this.get(path) === undefined && !this.#thrown.has(path)) this.#evaluateSome([path]);
    const module = this.get(path);
    if (module !== undefined) return module;
    const thrown = this.#thrown.get(path);
    this.#thrown.delete(path);
    throw thrown;
  }

  #evaluate(path: string): LoadedModule {
    const known = this.get(path);
    if (known !== undefined) return known;
    const prepared = this.#imports.get(path);
    const dependencies = new Set([...(prepared?.imports ?? [])].filter((file) => existsSync(file)));
    // `dependencies` has imports inside functions from the start, too, although they are not evaluated yet.
    const module: LoadedModule = {
      path,
      filename: path,
      id: path,
      exports: {},
      dependencies,
      places: new Set(prepared?.places),
      timers: new TrackedTimers(),
    };
    this.#fresh.set(path, module);
    this.#evaluating.push(module);
    try {
      if (extname(path) === ".json") module.exports = readJson(path);
      else this.#run(module);
      this.#compiled.delete(path);
      return module;
    } catch (thrown) {
      this.discard(path);
      throw thrown instanceof NeedsImport || thrown instanceof LoadError
        ? thrown
        : this.#evaluationError(path, thrown);
    } finally {
      this.#evaluating.pop();
    }
  }

  #run(module: LoadedModule): void {
    const { path, timers } = module;
    const { code, map } = this.#compiled.get(path) ?? this.#compileNow(path);
    this.#parts.stacks.add(path, map);
    const { setInterval, clearInterval } = timers;
    const values = {
      exports: module.exports,
      require: this.#requireFor(module),
      module,
      __filename: path,
      __dirname: dirname(path),
      [importMeta.url]: pathToFileURL(path).href,
      setInterval,
      clearInterval,
      [NOTE_CAUGHT]: noteCaught,
      ...(this.#parts.isCheck === true ? timers.refusing : {}),
    };
    // The extra function lets a file declare names such as __filename itself.
    const body = `return (function () {${noteCatches(code, NOTE_CAUGHT)}\n}).call(this);`;
    const run = vm.compileFunction(body, Object.keys(values), {
      filename: path,
      importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    const start = () => run.apply(module.exports, Object.values(values));
    if (this.#parts.isCheck === true) timers.withoutTimers(start);
    else start();
  }

  #compileNow(path: string): CompiledFile {
    const { compiler, resolver } = this.#parts;
    let source: string;
    try {
      source = readFileSync(path, "utf8");
    } catch (thrown) {
      throw unreadable(path, thrown);
    }
    const compiled = compiler.compileNow(path, source, resolver.tsconfig(path));
    this.#compiled.set(path, compiled);
    return compiled;
  }

  #requireFor(module: LoadedModule): (specifier: string) => unknown {
    const { resolver, provide, isCheck } = this.#parts;
    // Cached, so that a running version finds what it has loaded even when the file is gone.
    const resolved = new Map<string, Resolution>();
    const require = (specifier: string): unknown => {
      const resolution = resolved.get(specifier) ?? resolver.resolve(specifier, module.path);
      resolved.set(specifier, resolution);
      for (const place of resolver.placesOf(specifier, module.path)) module.places.add(place);
      if (resolution.kind === "virtual") return provide(resolution.id, module.path);
      if (isCheck === true && /^(?:node:)?timers$/.test(specifier)) return module.timers.refusing;
      if (isCheck === true && /^(?:node:)?timers\/promises$/.test(specifier))
        return module.timers.refusingPromises;
      if (resolution.kind === "external") return this.#external(specifier, module.path);
      module.dependencies.add(resolution.path);
      // Within an evaluation its imports share its time limit. One that a running tool makes has its own.
      const evaluate = this.#evaluating.length > 0 ? this.#evaluate : this.#evaluated;
      return evaluate.call(this, resolution.path).exports;
    };
    return Object.assign(require, {
      resolve: (specifier: string) => nodeRequire(module.path).resolve(specifier),
      cache: {},
    });
  }

  #external(specifier: string, importer: string): unknown {
    const node = nodeRequire(importer);
    const imported = this.#imported.get(urlOf(node, specifier));
    if (imported !== undefined) return imported;
    try {
      return node(specifier);
    } catch (thrown) {
      const code = codeOf(thrown);
      if (code === "ERR_REQUIRE_ASYNC_MODULE") throw new NeedsImport(urlOf(node, specifier));
      if (code === "MODULE_NOT_FOUND" && reasonOf(thrown).includes(`'${specifier}'`)) {
        throw new LoadError(
          `It imports "${specifier}", which is not installed.`,
          `Install it in the workspace: npm install ${packageOf(specifier)}`,
          { path: importer, cause: thrown, retry: true, code: "not_installed" },
        );
      }
      throw thrown;
    }
  }

  #evaluationError(path: string, thrown: unknown): LoadError {
    const { stacks } = this.#parts;
    if (codeOf(thrown) === "ERR_SCRIPT_EXECUTION_TIMEOUT") {
      const limit = this.#parts.evaluationLimit;
      return new LoadError(
        `Loading it took longer than ${limit} ms; the file seems to loop.`,
        "Do the work inside the tool's function, not while the file loads.",
        { path },
      );
    }
    const line = stacks.lineOf(thrown, path);
    const where = { path, ...(line === undefined ? {} : { line }), cause: thrown, code: "threw" as const };
    const remedy = "Correct what runs at the top level of the file.";
    return new LoadError(`It threw while loading: ${reasonOf(thrown)}`, remedy, where);
  }
}

const NOTE_CAUGHT = "__toolrack_caught";

/** More than there are cores: most of the time is spent waiting for files. */
const MOST_COMPILING = 32;

/** Milliseconds for which files are evaluated in one go. */
const SLICE = 50;

const requires = new Map<string, NodeJS.Require>();

/** One per folder, because Node never frees what `createRequire` makes. */
function nodeRequire(path: string): NodeJS.Require {
  const folder = dirname(path);
  const require = requires.get(folder) ?? createRequire(`${folder}/`);
  requires.set(folder, require);
  return require;
}

function urlOf(require: NodeJS.Require, specifier: string): string {
  try {
    const path = require.resolve(specifier);
    return path.startsWith("/") || /^[A-Za-z]:/.test(path) ? pathToFileURL(path).href : path;
  } catch {
    return specifier;
  }
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (thrown) {
    throw new LoadError(`It is not valid JSON: ${reasonOf(thrown)}`, "Correct the JSON.", { path });
  }
}

function unreadable(path: string, thrown: unknown): LoadError {
  if (codeOf(thrown) === "ENOENT") {
    // The file may appear with another ending.
    return new LoadError("It is imported but does not exist.", "Create it, or correct the import.", {
      path,
      retry: true,
    });
  }
  return new LoadError(`It cannot be read: ${reasonOf(thrown)}`, "Check the file's permissions.", { path });
}

function codeOf(thrown: unknown): string | undefined {
  return (thrown as { code?: string } | undefined)?.code; // Anything thrown may have a code.
}

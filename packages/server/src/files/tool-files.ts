import { realpath } from "node:fs/promises";
import { basename, extname, relative, resolve, sep } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger, ToolInfo, ToolRegistry } from "@toolrack/core";
import { LoadError } from "../helpers/index.ts";
import {
  adaptDefined,
  adaptInternal,
  adaptToolbox,
  type FilePlace,
  type InternalSurroundings,
  offeredBy,
} from "./contracts.ts";
import {
  describeLoad,
  FailedFiles,
  type FileReport,
  FileVersion,
  failureOf,
  type LoadEvent,
  type LoadListener,
  type LoadReport,
  namesOf,
  type RecognisedFile,
  reportOf,
  type ServingFile,
  unreadableReport,
} from "./load-report.ts";
import { TrackedTimers } from "./loader/compile.ts";
import { type LoadedModule, ModuleGraph, type ModuleGraphParts } from "./loader/module-graph.ts";
import {
  type ScannedFile,
  sameContent,
  scanFiles,
  signFiles,
  type UnreadableFile,
} from "./loader/resolver.ts";

import { isSandboxed, settleNames } from "./name-claims.ts";
import type { SingleFileTools } from "./single-file.ts";

export interface ToolFilesOptions {
  readonly registry: ToolRegistry;
  /** Absolute. */
  readonly workspace: string;
  /** Absolute folders; those that do not exist are empty. */
  readonly folders: readonly string[];
  readonly surroundings: InternalSurroundings;
  readonly modules: ModuleGraphParts;
  /** Created for the first single-file tool. Without it, such files are refused. */
  readonly singleFiles?: () => Promise<SingleFileTools>;
  /** Tools that are published unless a file takes their name. */
  readonly builtins?: readonly ToolInfo[];
  /** Called after each load with the prompts and resources of all files. */
  readonly onOffered?: (offered: Pick<Required<RecognisedFile>, "prompts" | "resources">) => void;
  readonly logger: Logger;
}

/** Milliseconds that `close` waits for calls and for `destroy`. */
const CLOSE_LIMIT_MS = 10_000;

/** Single-file tools (contract 5) are recognised by their file name, before any code runs. */
const singleFileName = /\.tool\.[mc]?[jt]s$/;

/**
 * Keeps the tool files of a workspace on the rack. A reload loads everything that changed, publishes it in one step,
 * and destroys replaced versions once their calls have ended. A file that fails keeps its last good version.
 */
export class ToolFiles {
  readonly #options: ToolFilesOptions;
  #graph: ModuleGraph;
  #scanned: ReadonlyMap<string, ScannedFile> = new Map();
  #imported: ReadonlyMap<string, ScannedFile> = new Map();
  #unreadable: UnreadableFile[] = [];
  readonly #serving = new Map<string, ServingFile>();
  readonly #failed = new FailedFiles();
  #pending: Promise<unknown> = Promise.resolve();
  readonly #retiring = new Set<Promise<unknown>>();
  readonly #listeners = new Set<LoadListener>();

  constructor(options: ToolFilesOptions) {
    this.#options = options;
    this.#graph = ModuleGraph.empty(options.modules);
  }

  /** Loads what changed since the last load. Loads run one after another. */
  load(): Promise<LoadReport> {
    const next = this.#pending.then(async () => {
      this.#notify({ type: "started" });
      try {
        const report = await this.#load();
        this.#options.onOffered?.(this.offered());
        this.#notify({ type: "finished", report });
        return report;
      } catch (error) {
        this.#notify({ type: "failed", error });
        throw error;
      }
    });
    this.#pending = next.catch(() => {});
    return next;
  }

  /** Calls the listener for every load. Returns a function that stops it. */
  subscribe(listener: LoadListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  report(): FileReport[] {
    const { workspace } = this.#options;
    const paths = new Set([...this.#scanned.keys(), ...this.#serving.keys(), ...this.#failed.paths()]);
    const helpers = new Set(
      [...this.#serving.values()].flatMap(({ module }) => [...this.#helpersOf(module)]),
    );
    const files = [...paths]
      .sort()
      .map((path) =>
        reportOf(
          relative(workspace, path),
          this.#serving.get(path),
          this.#failed.get(path),
          helpers.has(path),
        ),
      );
    return [...files, ...this.#unreadable.map((found) => unreadableReport(found, workspace))];
  }

  /** The prompts and resources of the files, in the order of their paths. */
  offered(): Pick<Required<RecognisedFile>, "prompts" | "resources"> {
    const files = [...this.#serving].sort(([one], [other]) => (one < other ? -1 : 1));
    return {
      prompts: files.flatMap(([, { recognised }]) => recognised.prompts ?? []),
      resources: files.flatMap(([, { recognised }]) => recognised.resources ?? []),
    };
  }

  async close(): Promise<void> {
    await this.#pending;
    this.#retire([...this.#serving.values()], [...this.#graph.modules()]);
    this.#serving.clear();
    await Promise.race([Promise.all(this.#retiring), wait(CLOSE_LIMIT_MS, undefined, { ref: false })]);
  }

  #notify(event: LoadEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (error) {
        this.#options.logger.warn("Somebody who was told of a load failed:", error);
      }
    }
  }

  async #load(): Promise<LoadReport> {
    const start = performance.now();
    const { registry, workspace, logger } = this.#options;
    this.#options.modules.resolver.refresh();
    const scanned = await this.#scan();
    const imported = await this.#scanImported(scanned);
    const retry = await this.#failed.toRetry();
    const changed = new Set([
      ...changesBetween(this.#scanned, scanned),
      ...changesBetween(this.#imported, imported),
      ...retry.changed,
    ]);
    const candidate = this.#graph.without(changed);
    const stale = this.#graph.importersOf(changed);
    const wanted = [...scanned.keys()].filter(
      (path) => stale.has(path) || retry.files.has(path) || !this.#isSettled(path),
    );
    for (const path of this.#failed.paths()) if (!scanned.has(path)) this.#failed.delete(path);
    this.#scanned = scanned;

    await candidate.prepare(wanted.filter((path) => !singleFileName.test(path)));
    const sandboxed = wanted.filter((path) => singleFileName.test(path));
    if (sandboxed.length > 0) await (await this.#options.singleFiles?.())?.prepare(sandboxed);
    const loaded = new Map<string, ServingFile>();
    for (const path of wanted) await this.#loadFile(path, candidate, loaded);

    const gone = [...this.#serving.keys()].filter((path) => !scanned.has(path));
    const before = [...gone, ...loaded.keys()]
      .flatMap((path) => this.#serving.get(path) ?? [])
      .flatMap(namesOf);
    const versionsBefore = new Map(before.map((name) => [name, registry.get(name)]));
    const replaced = await this.#publish(candidate, loaded, gone);
    const leaving = [...this.#graph.modules()].filter((module) => candidate.get(module.path) !== module);
    this.#graph = candidate;
    this.#imported = await this.#scanImported(scanned);
    this.#retire(replaced, leaving);

    const after = [...loaded.values()].flatMap(namesOf).filter((name) => registry.get(name) !== undefined);
    const report: LoadReport = {
      files: this.report(),
      compiled: wanted.map((path) => relative(workspace, path)),
      added: after.filter((name) => versionsBefore.get(name) === undefined),
      changed: after.filter((name) => versionsBefore.get(name) !== undefined),
      removed: before.filter((name) => registry.get(name) === undefined),
      duration: performance.now() - start,
    };
    const { info, warn } = describeLoad(report);
    for (const line of info) logger.info(line);
    for (const line of warn) logger.warn(line);
    return report;
  }

  /** Publishes the new versions in one step. Returns the versions that they replaced. */
  async #publish(
    candidate: ModuleGraph,
    loaded: Map<string, ServingFile>,
    gone: readonly string[],
  ): Promise<ServingFile[]> {
    const { registry, builtins = [] } = this.#options;
    const olds = new Map([...gone, ...loaded.keys()].map((path) => [path, this.#serving.get(path)]));
    const before = [...olds.values()].flatMap((old) => (old === undefined ? [] : namesOf(old)));
    const sandboxed = [...loaded.values()].some(isSandboxed)
      ? await this.#options.singleFiles?.()
      : undefined;
    const settled = settleNames({
      loaded,
      staying: new Map([...this.#serving].filter(([path]) => !olds.has(path))),
      versionOf: (path) => this.#serving.get(path),
      builtins,
      onRack: (name) => registry.get(name),
      owns: (name, origin) => sandboxed?.owns(name, origin) === true,
    });
    const { put } = settled;
    const refused = registry.apply({ remove: [...before, ...settled.remove], put });
    for (const path of gone) this.#serving.delete(path);
    for (const [path, file] of loaded) this.#serving.set(path, file);
    for (const { info, error } of [...settled.refused, ...refused]) {
      const path = [...loaded].find(([, file]) =>
        file.recognised.tools.some((tool) => tool.execute === info.execute),
      )?.[0];
      if (path !== undefined) await this.#refuse(path, error, olds.get(path), candidate, loaded);
      if (path !== undefined && this.#serving.get(path) === olds.get(path)) olds.delete(path);
    }
    await sandboxed?.claim([...loaded.values()].filter(isSandboxed).flatMap((file) => file.recognised.tools));
    return [...olds.values()].filter((old) => old !== undefined);
  }

  /** Handles a file with a taken name: its last good version is restored, or its other tools keep serving. */
  async #refuse(
    path: string,
    error: Error,
    old: ServingFile | undefined,
    candidate: ModuleGraph,
    loaded: Map<string, ServingFile>,
  ): Promise<void> {
    const { registry, workspace } = this.#options;
    const file = relative(workspace, path);
    const failure = { file, reason: error.message, remedy: "Give one of the two another name." };
    await this.#failed.add(path, failure, [], "name");
    const fresh = loaded.get(path);
    if (fresh === undefined) return;
    const published = fresh.recognised.tools.filter(
      (tool) => registry.get(tool.name)?.origin === tool.origin,
    );
    if (old === undefined && published.length > 0) {
      this.#serving.set(path, { ...fresh, recognised: { ...fresh.recognised, tools: published } });
      return;
    }
    loaded.delete(path);
    if (old === undefined) {
      this.#serving.delete(path);
      return;
    }
    registry.apply({ remove: published.map((tool) => tool.name), put: old.recognised.tools });
    candidate.discard(path);
    candidate.restore(old.module);
    this.#serving.set(path, old);
  }

  async #scan(): Promise<Map<string, ScannedFile>> {
    const all = new Map<string, ScannedFile>();
    this.#unreadable = [];
    for (const folder of this.#options.folders) {
      const { files, unreadable } = await scanFiles(folder, this.#scanned);
      for (const [path, file] of files) all.set(path, file);
      this.#unreadable.push(...unreadable);
    }
    return all;
  }

  /** Files outside the tool folders whose code runs: imports of tools, and targets of links in the folders. */
  async importedFiles(): Promise<string[]> {
    const failed = this.#failed.inputs();
    const imported = [...this.#graph.paths(), ...this.#graph.places()];
    const paths = [...new Set([...imported, ...this.#serving.keys(), ...failed])];
    const reals = await Promise.all(paths.map((path) => realpath(path).catch(() => path)));
    return [...new Set([...paths, ...reals])].filter((path) => !this.#isInFolders(path));
  }

  /** Signs the imported files outside the tool folders: a change of one reloads its importers. */
  #scanImported(scanned: ReadonlyMap<string, ScannedFile>): Promise<Map<string, ScannedFile>> {
    const outside = this.#graph.paths().filter((path) => !scanned.has(path) && !this.#isInFolders(path));
    return signFiles(outside, this.#imported);
  }

  #isSettled(path: string): boolean {
    return this.#serving.has(path) || this.#failed.has(path) || this.#graph.get(path) !== undefined;
  }

  async #loadFile(path: string, graph: ModuleGraph, loaded: Map<string, ServingFile>): Promise<void> {
    this.#failed.delete(path);
    try {
      const version = new FileVersion(path, this.#options.modules.stacks);
      if (singleFileName.test(path)) {
        loaded.set(path, await this.#loadSingleFile(path, version));
        return;
      }
      const module = await graph.load(path);
      const recognised = await this.#recognise(module, version);
      if (recognised !== undefined) loaded.set(path, { version, module, recognised });
    } catch (thrown) {
      const when = thrown instanceof LoadError && thrown.retry ? "always" : "changed";
      const { workspace, modules } = this.#options;
      const failure = await failureOf(path, thrown, workspace, modules.stacks);
      const attempted = graph.attempted(path);
      await this.#failed.add(path, failure, [...attempted, ...graph.places(attempted)], when);
      this.#keepLastGood(path, graph);
    }
  }

  async #loadSingleFile(path: string, version: FileVersion): Promise<ServingFile> {
    const tools = await this.#options.singleFiles?.();
    if (tools === undefined) throw noSandbox();
    const { recognised, retire } = await tools.load(path, this.#placeOf(path), version);
    return { version, module: sandboxedModule(path, retire), recognised };
  }

  async #recognise(module: LoadedModule, version: FileVersion): Promise<RecognisedFile | undefined> {
    const exports = toRecord(module.exports);
    const place = this.#placeOf(module.path);
    const { surroundings } = this.#options;
    const recognised =
      adaptInternal(exports.default, place, version, surroundings) ??
      adaptInternal(module.exports, place, version, surroundings) ??
      (await adaptDefined(exports, place, version)) ??
      adaptToolbox(exports, place, version);
    const { prompts, resources } = offeredBy(exports);
    if (prompts.length + resources.length === 0) return recognised;
    return { contract: "define", tools: [], warnings: [], ...recognised, prompts, resources };
  }

  #keepLastGood(path: string, candidate: ModuleGraph): void {
    const old = this.#serving.get(path);
    candidate.discard(path);
    if (old !== undefined) candidate.restore(old.module);
  }

  /** Retires versions once their calls have ended, then stops the timers of their modules. */
  #retire(files: readonly ServingFile[], leaving: readonly LoadedModule[]): void {
    const { workspace, logger } = this.#options;
    const retired = files.map(async ({ version, module }) => {
      const problem = await version.retire(toRecord(module.exports).destroy);
      if (problem !== undefined) logger.warn(`${relative(workspace, version.path)}: ${problem}`);
    });
    const done = Promise.all(retired).then(() => {
      for (const module of leaving) module.timers.stop();
      this.#retiring.delete(done);
    });
    this.#retiring.add(done);
  }

  #placeOf(path: string): FilePlace {
    const folder =
      this.#options.folders.find((candidate) => path.startsWith(candidate + sep)) ?? resolve(path, "..");
    const parts = relative(folder, path).split(sep);
    const file = parts.pop()!;
    return {
      folders: parts,
      stem: basename(file, extname(file)),
      origin: relative(this.#options.workspace, path),
    };
  }

  #isInFolders(path: string): boolean {
    return this.#options.folders.some((folder) => path.startsWith(folder + sep));
  }

  #helpersOf(module: LoadedModule, seen = new Set<string>()): Set<string> {
    for (const path of module.dependencies) {
      if (seen.has(path)) continue;
      seen.add(path);
      const dependency = this.#graph.get(path);
      if (dependency !== undefined) this.#helpersOf(dependency, seen);
    }
    return seen;
  }
}

function changesBetween(
  before: ReadonlyMap<string, ScannedFile>,
  now: ReadonlyMap<string, ScannedFile>,
): string[] {
  const changed = [...now.values()].filter((file) => {
    const old = before.get(file.path);
    return old === undefined || !sameContent(old, file);
  });
  const gone = [...before.keys()].filter((path) => !now.has(path));
  return [...changed.map((file) => file.path), ...gone];
}

function noSandbox(): LoadError {
  return new LoadError(
    "Single-file tools (*.tool.*) run in a sandbox, which this host does not have.",
    "Open the workspace with the toolrack program, or write the tool in another contract.",
  );
}

/** Represents a file that is evaluated in the sandbox: it imports nothing here, and `destroy` ends its workers. */
function sandboxedModule(path: string, destroy: () => Promise<void>): LoadedModule {
  const timers = new TrackedTimers();
  return {
    path,
    filename: path,
    id: path,
    exports: { destroy },
    dependencies: new Set(),
    places: new Set(),
    timers,
  };
}

/** The named exports of a module. For CommonJS, `module.exports` itself is the default. */
function toRecord(exports: unknown): Record<string, unknown> {
  if (typeof exports === "function") return { ...exports, default: exports };
  if (typeof exports !== "object" || exports === null) return { default: exports };
  return "__esModule" in exports || "default" in exports ? { ...exports } : { ...exports, default: exports };
}

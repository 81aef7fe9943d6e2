import { createHash } from "node:crypto";
import { readFile, realpath } from "node:fs/promises";
import { basename, extname, relative, resolve, sep } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { DefinitionError, Logger, ToolInfo, ToolRegistry } from "@toolrack/core";
import { toolMatcher } from "../config/index.ts";
import { isRecord, LoadError } from "../helpers/index.ts";
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
  type FailedFile,
  type FileReport,
  FileVersion,
  failedReport,
  failureOf,
  type LoadEvent,
  type LoadListener,
  type LoadOptions,
  type LoadReport,
  namesOf,
  type RecognisedFile,
  reportOf,
  type ServingFile,
} from "./load-report.ts";
import { type LoadedModule, ModuleGraph, type ModuleGraphParts } from "./loader/module-graph.ts";
import {
  type ScannedFile,
  sameContent,
  scanFiles,
  signFiles,
  type UnreadableFile,
} from "./loader/resolver.ts";
import { isSandboxed, settleNames, withConsent } from "./name-claims.ts";
import type { SingleFileTools } from "./single-file.ts";

export interface ToolFilesOptions {
  readonly registry: ToolRegistry;
  /** Absolute. */
  readonly workspace: string;
  /** Absolute folders; a folder that does not exist counts as empty. */
  readonly folders: readonly string[];
  readonly surroundings: InternalSurroundings;
  readonly modules: ModuleGraphParts;
  /** Created for the first single-file tool. Without it, such files are refused. */
  readonly singleFiles?: () => Promise<SingleFileTools>;
  /** Tools that are published unless a file takes their name. */
  readonly builtins?: readonly ToolInfo[];
  /** Patterns of tools that run unasked although they replace a built-in tool that asks. */
  readonly unguarded?: readonly string[];
  /** Called after each load with the prompts and resources of all files. */
  readonly onOffered?: (offered: Pick<Required<RecognisedFile>, "prompts" | "resources">) => void;
  /** Whether tools get a version by the content of their files, which only workers need. */
  readonly isVersioned?: boolean;
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
  /** The tool files that the last load found. */
  #found: ReadonlySet<string> = new Set();
  /** Every file that the last load looked at, as it was then. */
  #seen: ReadonlyMap<string, ScannedFile> = new Map();
  #unreadable: UnreadableFile[] = [];
  readonly #serving = new Map<string, ServingFile>();
  readonly #failed = new Map<string, FailedFile>();
  #pending: Promise<unknown> = Promise.resolve();
  readonly #retiring = new Set<Promise<unknown>>();
  readonly #listeners = new Set<LoadListener>();

  constructor(options: ToolFilesOptions) {
    this.#options = options;
    this.#graph = ModuleGraph.empty(options.modules);
  }

  /** Loads what changed since the last load. Loads run one after another. */
  load(options: LoadOptions = {}): Promise<LoadReport> {
    const next = this.#pending.then(async () => {
      this.#notify({ type: "started" });
      try {
        const report = await this.#load(options);
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
    const paths = new Set([...this.#found, ...this.#serving.keys(), ...this.#failed.keys()]);
    const helpers = new Set<string>();
    for (const { module } of this.#serving.values()) if (module) this.#addImports(module, helpers);
    const files = [...paths].sort().map((path) => {
      const failure = this.#failed.get(path)?.failure;
      const { exports } = this.#graph.get(path) ?? {};
      return reportOf(
        relative(workspace, path),
        this.#serving.get(path),
        failure,
        helpers.has(path),
        exports,
      );
    });
    const remedy = "Let the user that Toolrack runs as read it.";
    const unreadable = this.#unreadable.map(({ path, reason }) =>
      failedReport({ file: relative(workspace, path), reason, remedy }),
    );
    return [...files, ...unreadable];
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

  async #load({ force = false }: LoadOptions): Promise<LoadReport> {
    const start = performance.now();
    const { registry, workspace, logger } = this.#options;
    this.#options.modules.resolver.refresh();
    const found = await this.#scan();
    const seen = await signFiles([...new Set([...found, ...this.#importedOutside(found)])], this.#seen);
    const changed = changesBetween(this.#seen, seen);
    if (force) for (const path of seen.keys()) changed.add(path);
    const retried = this.#retried(changed);
    const candidate = this.#graph.without(changed);
    const stale = this.#graph.importersOf(changed);
    const wanted = [...found].filter(
      (path) => stale.has(path) || retried.has(path) || !this.#isSettled(path),
    );
    for (const path of this.#failed.keys()) if (!found.has(path)) this.#failed.delete(path);
    this.#found = found;

    await candidate.prepare(wanted.filter((path) => !singleFileName.test(path)));
    const sandboxed = wanted.filter((path) => singleFileName.test(path));
    if (sandboxed.length > 0) await (await this.#options.singleFiles?.())?.prepare(sandboxed);
    const loaded = new Map<string, ServingFile>();
    for (const path of wanted) await this.#loadFile(path, candidate, loaded);
    this.#options.modules.compiler.rest();

    const gone = [...this.#serving.keys()].filter((path) => !found.has(path));
    const before = [...gone, ...loaded.keys()]
      .flatMap((path) => this.#serving.get(path) ?? [])
      .flatMap(namesOf);
    const versionsBefore = new Map(before.map((name) => [name, registry.get(name)]));
    const replaced = await this.#publish(candidate, loaded, gone);
    const leaving = [...this.#graph.modules()].filter((module) => candidate.get(module.path) !== module);
    this.#graph = candidate;
    // A file that was signed before the load keeps that signature, because it may have changed since it was
    // read.
    const looked = new Set([...found, ...this.#importedOutside(found)]);
    const fresh = await signFiles([...looked].filter((path) => !seen.has(path)));
    this.#seen = new Map([...seen, ...fresh].filter(([path]) => looked.has(path)));
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

  /** Handles a file with a tool that the registry refuses, mostly for its name: its last good version is restored, or its other tools keep serving. */
  async #refuse(
    path: string,
    error: DefinitionError,
    old: ServingFile | undefined,
    candidate: ModuleGraph,
    loaded: Map<string, ServingFile>,
  ): Promise<void> {
    const { registry, workspace } = this.#options;
    const file = relative(workspace, path);
    const remedy =
      error.field === "name" ? "Give one of the two another name." : "Correct the definition of the tool.";
    const failure = { file, reason: error.message, remedy };
    this.#failed.set(path, { failure, inputs: [], retry: "name" });
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
    this.#keepLastGood(path, old, candidate);
    this.#serving.set(path, old);
  }

  async #scan(): Promise<Set<string>> {
    const scans = await Promise.all(this.#options.folders.map(scanFiles));
    this.#unreadable = scans.flatMap(({ unreadable }) => unreadable);
    return new Set(scans.flatMap(({ files }) => files));
  }

  /** The files to try again. Those of them that must be evaluated anew are added to `changed`. */
  #retried(changed: Set<string>): Set<string> {
    const retried = new Set<string>();
    for (const [path, { inputs, retry }] of this.#failed) {
      if (retry === "changed" && !inputs.some((input) => changed.has(input))) continue;
      retried.add(path);
      if (retry !== "name") changed.add(path);
    }
    return retried;
  }

  /** Files outside the tool folders whose code runs: imports of tools, and targets of links in the folders. */
  async importedFiles(): Promise<string[]> {
    const imported = [...this.#graph.paths(), ...this.#graph.places(), ...this.#failedInputs()];
    const paths = [...new Set([...imported, ...this.#serving.keys()])];
    const reals = await Promise.all(paths.map((path) => realpath(path).catch(() => path)));
    return [...new Set([...paths, ...reals])].filter((path) => !this.#isInFolders(path));
  }

  /**
   * The files that tool files import and that are no tool files themselves. A change of such a file reloads
   * its importers.
   */
  #importedOutside(found: ReadonlySet<string>): string[] {
    const outside = this.#graph.paths().filter((path) => !found.has(path) && !this.#isInFolders(path));
    return [...outside, ...this.#failedInputs()];
  }

  #failedInputs(): string[] {
    return [...this.#failed.values()].flatMap(({ inputs }) => inputs);
  }

  #isSettled(path: string): boolean {
    return this.#serving.has(path) || this.#failed.has(path) || this.#graph.get(path) !== undefined;
  }

  async #loadFile(path: string, graph: ModuleGraph, loaded: Map<string, ServingFile>): Promise<void> {
    this.#failed.delete(path);
    const { workspace, modules } = this.#options;
    try {
      const version = new FileVersion(path, modules.stacks);
      if (singleFileName.test(path)) {
        loaded.set(path, await this.#loadSingleFile(path, version));
        return;
      }
      const module = await graph.load(path);
      const recognised = await this.#recognise(module, version);
      const { destroy } = toRecord(module.exports);
      if (recognised === undefined) return;
      const { builtins = [], unguarded } = this.#options;
      const guarded = withConsent(recognised, builtins, toolMatcher(unguarded));
      const code = this.#options.isVersioned ? await hashFiles(graph.attempted(path), workspace) : undefined;
      const tools = guarded.tools.map((tool) => ({ ...tool, ...(code && { version: code }) }));
      loaded.set(path, { version, module, destroy, recognised: { ...guarded, tools } });
    } catch (thrown) {
      const failure = await failureOf(path, thrown, workspace, modules.stacks);
      const attempted = [...graph.attempted(path)];
      this.#failed.set(path, {
        failure,
        inputs: [...attempted, ...graph.places(attempted)],
        retry: thrown instanceof LoadError && thrown.retry ? "always" : "changed",
      });
      this.#keepLastGood(path, this.#serving.get(path), graph);
    }
  }

  async #loadSingleFile(path: string, version: FileVersion): Promise<ServingFile> {
    const tools = await this.#options.singleFiles?.();
    if (tools === undefined) {
      throw new LoadError(
        "Single-file tools (*.tool.*) run in a sandbox, which this host does not have.",
        "Open the workspace with the toolrack program, or write the tool in another contract.",
      );
    }
    const { recognised, retire } = await tools.load(path, this.#placeOf(path), version);
    return { version, destroy: retire, recognised };
  }

  async #recognise(module: LoadedModule, version: FileVersion): Promise<RecognisedFile | undefined> {
    const exports = toRecord(module.exports);
    const place = this.#placeOf(module.path);
    const { surroundings } = this.#options;
    const defined =
      adaptInternal(exports.default, place, version, surroundings) ??
      adaptInternal(module.exports, place, version, surroundings) ??
      (await this.#withinLimit(adaptDefined(exports, place, version)));
    if (defined === undefined) refuseStray(exports, place);
    const found = defined ?? adaptToolbox(exports, place, version);
    const { refused } = module.timers;
    const recognised =
      found === undefined || refused.size === 0
        ? found
        : { ...found, warnings: [...found.warnings, timersRefused(refused)] };
    const { prompts, resources } = offeredBy(exports);
    if (prompts.length + resources.length === 0) return recognised;
    return { contract: "define", tools: [], warnings: [], ...recognised, prompts, resources };
  }

  /** A file may export a promise of a tool. One that never settles must not hold up the other files. */
  async #withinLimit<Value>(awaited: Promise<Value>): Promise<Value> {
    const limit = this.#options.modules.evaluationLimit;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(neverSettled(limit)), limit);
    });
    return Promise.race([awaited, late]).finally(() => clearTimeout(timer));
  }

  #keepLastGood(path: string, old: ServingFile | undefined, candidate: ModuleGraph): void {
    candidate.discard(path);
    if (old?.module !== undefined) candidate.restore(old.module);
  }

  /** Retires versions once their calls have ended, then stops the timers of their modules. */
  #retire(files: readonly ServingFile[], leaving: readonly LoadedModule[]): void {
    const { workspace, logger } = this.#options;
    const retired = files.map(async ({ version, destroy }) => {
      const problem = await version.retire(destroy);
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

  #addImports({ dependencies }: LoadedModule, helpers: Set<string>): void {
    for (const path of dependencies) {
      if (helpers.has(path)) continue;
      helpers.add(path);
      const module = this.#graph.get(path);
      if (module !== undefined) this.#addImports(module, helpers);
    }
  }
}

function neverSettled(limit: number): LoadError {
  return new LoadError(
    `A promise that it exports did not settle within ${limit} ms.`,
    "Export the tool itself, and do the waiting inside its function.",
  );
}

function timersRefused(names: ReadonlySet<string>): string {
  return (
    `It starts a timer while it loads (${[...names].join(", ")}), which did not run in this check. ` +
    "When the tool is served it runs: stop it in destroy."
  );
}

/** Throws `LoadError` for a tool of another contract that lies under the wrong name or in the wrong folder. */
function refuseStray(exports: Record<string, unknown>, { stem, origin }: FilePlace): void {
  const main = exports.default;
  const owners = [exports, main, typeof main === "function" ? main.prototype : undefined].filter(isRecord);
  const has = (name: string) => owners.some((owner) => typeof owner[name] === "function");
  if (!has("execute")) return;
  if (has("getMetadata") || has("getSchema")) {
    throw new LoadError(
      "It is a single-file tool, which runs in the sandbox and is recognised by its file name.",
      `Rename it to ${stem}.tool${extname(origin)}`,
    );
  }
  if (has("getTools")) {
    throw new LoadError(
      "It is the module of a skill, which runs in the sandbox.",
      "Move its folder, with a SKILL.md in it, into the folder skills of the workspace.",
    );
  }
}

/** The files that are new, gone, or have other content. */
function changesBetween(
  before: ReadonlyMap<string, ScannedFile>,
  now: ReadonlyMap<string, ScannedFile>,
): Set<string> {
  const paths = new Set([...before.keys(), ...now.keys()]);
  return new Set([...paths].filter((path) => !sameContent(before.get(path), now.get(path))));
}

/** A hash of the files' contents and of their places in the workspace, the same on every machine. */
async function hashFiles(paths: Iterable<string>, workspace: string): Promise<string> {
  const hash = createHash("sha256");
  for (const path of [...paths].sort()) {
    const content = await readFile(path).catch(() => "");
    hash.update(`${relative(workspace, path).split(sep).join("/")}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex").slice(0, 16);
}

/** The named exports of a module. For CommonJS, `module.exports` itself is the default. */
function toRecord(exports: unknown): Record<string, unknown> {
  if (typeof exports === "function") return { ...exports, default: exports };
  if (typeof exports !== "object" || exports === null) return { default: exports };
  return "__esModule" in exports || "default" in exports ? { ...exports } : { ...exports, default: exports };
}

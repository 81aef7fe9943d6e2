import { basename, extname, relative, resolve, sep } from "node:path";
import type { Logger, ToolInfo, ToolRegistry } from "@toolrack/core";
import { adaptDefined } from "./define/adapt-defined.ts";
import { describeLoad } from "./describe-load.ts";
import { FileVersion } from "./file-version.ts";
import { adaptInternal, type FilePlace, type InternalSurroundings } from "./internal/adapt-internal.ts";
import type { FileReport, LoadReport } from "./load-report.ts";
import { LoadError, type LoadFailure } from "./loader/load-failure.ts";
import { type LoadedModule, ModuleGraph, type ModuleGraphParts } from "./loader/module-graph.ts";
import {
  type ScannedFile,
  sameContent,
  scanFiles,
  signFiles,
  type UnreadableFile,
} from "./loader/scan-files.ts";
import type { RecognisedFile } from "./recognised.ts";
import { adaptToolbox } from "./toolbox/adapt-toolbox.ts";

/** A file that serves tools, and the version of it that does. */
interface ServingFile {
  readonly version: FileVersion;
  readonly module: LoadedModule;
  readonly recognised: RecognisedFile;
}

export interface ToolFilesOptions {
  readonly registry: ToolRegistry;
  /** Absolute. */
  readonly workspace: string;
  /** Absolute folders; those that do not exist are empty. */
  readonly folders: readonly string[];
  readonly surroundings: InternalSurroundings;
  readonly modules: ModuleGraphParts;
  /** Tools that are on the rack wherever no file has taken their name. */
  readonly builtins?: readonly ToolInfo[];
  /** Is told what was found, loaded and refused, and when a version that was replaced could not clean up. */
  readonly logger: Logger;
}

/** How long closing waits for calls and for destroy. */
const CLOSE_LIMIT = 10_000;

/** The single-file tools of contract 5 are recognised by name, before any of them is evaluated. */
const singleFile = /\.tool\.[mc]?[jt]s$/;

/**
 * The tool files of a workspace on the rack. A reload builds a candidate of everything that changed, hangs it up
 * in one step, and destroys what it replaced once its calls have ended. What fails keeps its last good version.
 */
export class ToolFiles {
  readonly #options: ToolFilesOptions;
  #graph: ModuleGraph;
  #scanned: ReadonlyMap<string, ScannedFile> = new Map();
  #imported: ReadonlyMap<string, ScannedFile> = new Map();
  #unreadable: UnreadableFile[] = [];
  readonly #serving = new Map<string, ServingFile>();
  #failed = new Map<string, LoadFailure>();
  /** Files that were fine but whose name was taken; it may be free the next time. */
  #refused = new Set<string>();
  #pending: Promise<unknown> = Promise.resolve();
  readonly #retiring = new Set<Promise<void>>();

  constructor(options: ToolFilesOptions) {
    this.#options = options;
    this.#graph = ModuleGraph.empty(options.modules);
  }

  /** Brings the rack in step with the files. Loads one after another; a second request waits for the first. */
  load(): Promise<LoadReport> {
    const next = this.#pending.then(() => this.#load());
    this.#pending = next.catch(() => {});
    return next;
  }

  /** The files as they stand. */
  report(): FileReport[] {
    const { workspace } = this.#options;
    const paths = new Set([...this.#scanned.keys(), ...this.#serving.keys(), ...this.#failed.keys()]);
    const helpers = new Set(
      [...this.#serving.values()].flatMap(({ module }) => [...this.#helpersOf(module)]),
    );
    const files = [...paths].sort().map((path) => this.#reportOf(path, relative(workspace, path), helpers));
    return [...files, ...this.#unreadable.map((found) => unreadableReport(found, workspace))];
  }

  /** Lets every file clean up. */
  async close(): Promise<void> {
    await this.#pending;
    for (const file of this.#serving.values()) this.#retire(file);
    this.#serving.clear();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, CLOSE_LIMIT);
    });
    await Promise.race([Promise.all(this.#retiring), late]);
    clearTimeout(timer);
  }

  async #load(): Promise<LoadReport> {
    const start = performance.now();
    const { registry, workspace } = this.#options;
    this.#options.modules.resolver.refresh();
    const scanned = await this.#scan();
    const imported = await this.#scanImported(scanned);
    const changed = new Set([
      ...changesBetween(this.#scanned, scanned),
      ...changesBetween(this.#imported, imported),
    ]);
    const candidate = this.#graph.without(changed);
    const stale = this.#graph.importersOf(changed);

    const loaded = new Map<string, ServingFile>();
    const failed = new Map<string, LoadFailure>();
    const wanted = [...scanned.keys()].filter((path) => stale.has(path) || !this.#isSettled(path));
    await candidate.prepare(wanted.filter((path) => !singleFile.test(path)));
    for (const path of wanted) await this.#loadFile(path, candidate, loaded, failed);
    for (const path of scanned.keys()) {
      const earlier = this.#failed.get(path);
      if (earlier !== undefined && !wanted.includes(path)) failed.set(path, earlier);
    }
    this.#scanned = scanned;
    this.#keepLastGood(candidate, failed);

    const gone = [...this.#serving.keys()].filter((path) => !scanned.has(path));
    const replaced = [...gone, ...loaded.keys()].flatMap((path) => this.#serving.get(path) ?? []);
    const before = replaced.flatMap(namesOf);
    const put = [...loaded.values()].flatMap(({ recognised }) => recognised.tools);
    const versionsBefore = new Map(before.map((name) => [name, registry.get(name)]));
    const builtins = this.#builtinsBeside(gone, loaded);
    const refused = registry.apply({
      remove: [...before, ...builtins.remove],
      put: [...put, ...builtins.put],
    });
    for (const path of gone) this.#serving.delete(path);
    for (const [path, file] of loaded) this.#serving.set(path, file);
    this.#refused = new Set();
    for (const { info, error } of refused) this.#refuse(info, error, failed, loaded);
    this.#failed = failed;
    this.#graph = candidate;
    this.#imported = await this.#scanImported(scanned);
    for (const file of replaced) this.#retire(file);

    const after = [...loaded.values()].flatMap(namesOf).filter((name) => registry.get(name) !== undefined);
    const report = {
      files: this.report(),
      compiled: wanted.map((path) => relative(workspace, path)),
      added: after.filter((name) => versionsBefore.get(name) === undefined),
      changed: after.filter((name) => versionsBefore.get(name) !== undefined),
      removed: before.filter((name) => registry.get(name) === undefined),
      duration: performance.now() - start,
    };
    const { info, warn } = describeLoad(report);
    for (const line of info) this.#options.logger.info(line);
    for (const line of warn) this.#options.logger.warn(line);
    return report;
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

  /** Files outside the tool folders that tools import: a change of one reloads its importers. */
  #scanImported(scanned: ReadonlyMap<string, ScannedFile>): Promise<Map<string, ScannedFile>> {
    const outside = this.#graph.paths().filter((path) => !scanned.has(path) && !this.#isInFolders(path));
    return signFiles(outside, this.#imported);
  }

  #isSettled(path: string): boolean {
    if (this.#refused.has(path)) return false;
    return this.#serving.has(path) || this.#failed.has(path) || this.#graph.get(path) !== undefined;
  }

  async #loadFile(
    path: string,
    graph: ModuleGraph,
    loaded: Map<string, ServingFile>,
    failed: Map<string, LoadFailure>,
  ): Promise<void> {
    try {
      if (singleFile.test(path)) throw noSandbox();
      const module = await graph.load(path);
      const version = new FileVersion(path, this.#options.modules.stacks);
      const recognised = await this.#recognise(module, version);
      if (recognised !== undefined) loaded.set(path, { version, module, recognised });
    } catch (thrown) {
      failed.set(path, this.#failureOf(path, thrown));
    }
  }

  async #recognise(module: LoadedModule, version: FileVersion): Promise<RecognisedFile | undefined> {
    const exports = toRecord(module.exports);
    const place = this.#placeOf(module.path);
    const { surroundings } = this.#options;
    return (
      adaptInternal(exports.default, place, version, surroundings) ??
      adaptInternal(module.exports, place, version, surroundings) ??
      (await adaptDefined(exports, place, version)) ??
      adaptToolbox(exports, place, version)
    );
  }

  /** A file may take the place of a built-in tool by taking its name; when it goes, the built-in is back. */
  #builtinsBeside(
    gone: readonly string[],
    loaded: ReadonlyMap<string, ServingFile>,
  ): { remove: string[]; put: ToolInfo[] } {
    const { registry, builtins = [] } = this.#options;
    const serving = [...this.#serving].filter(([path]) => !gone.includes(path) && !loaded.has(path));
    const files = [...serving.map(([, file]) => file), ...loaded.values()];
    const names = files.flatMap(({ recognised }) =>
      recognised.tools.flatMap((info) => [info.name, ...(info.aliases ?? [])]),
    );
    const taken = new Set(names.map((name) => name.toLowerCase()));
    const isHung = ({ name, origin }: ToolInfo) => registry.get(name)?.origin === origin;
    return {
      remove: builtins.filter((info) => taken.has(info.name) && isHung(info)).map((info) => info.name),
      put: builtins.filter((info) => !taken.has(info.name) && !isHung(info)),
    };
  }

  /** A file whose new version failed goes on with the old one, helpers and all. */
  #keepLastGood(candidate: ModuleGraph, failed: ReadonlyMap<string, LoadFailure>): void {
    for (const path of failed.keys()) {
      const old = this.#serving.get(path);
      if (old !== undefined && candidate.get(path) === undefined) candidate.restore(old.module);
    }
  }

  #refuse(
    info: ToolInfo,
    error: Error,
    failed: Map<string, LoadFailure>,
    loaded: ReadonlyMap<string, ServingFile>,
  ): void {
    for (const [path, { recognised }] of loaded) {
      if (!recognised.tools.includes(info) && !recognised.tools.some((tool) => tool.origin === info.origin))
        continue;
      const file = relative(this.#options.workspace, path);
      failed.set(path, { file, reason: error.message, remedy: "Give one of the two another name." });
      this.#refused.add(path);
      const rest = recognised.tools.filter((tool) => tool.execute !== info.execute);
      const serving = this.#serving.get(path)!;
      if (rest.length === 0) this.#serving.delete(path);
      else this.#serving.set(path, { ...serving, recognised: { ...recognised, tools: rest } });
      return;
    }
  }

  #retire({ version, module }: ServingFile): void {
    const { workspace, logger } = this.#options;
    const retiring = version.retire(toRecord(module.exports).destroy).then((problem) => {
      module.timers.stop();
      if (problem !== undefined) logger.warn(`${relative(workspace, version.path)}: ${problem}`);
      this.#retiring.delete(retiring);
    });
    this.#retiring.add(retiring);
  }

  #failureOf(path: string, thrown: unknown): LoadFailure {
    const { workspace, modules } = this.#options;
    if (!(thrown instanceof LoadError)) {
      const line = modules.stacks.lineOf(thrown, path);
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      const remedy = "Correct the definition of the tool.";
      return { file: relative(workspace, path), ...(line === undefined ? {} : { line }), reason, remedy };
    }
    const { line, remedy } = thrown;
    const culprit = thrown.path !== undefined && thrown.path !== path ? thrown.path : undefined;
    const place = line === undefined ? "" : `:${line}`;
    const reason =
      culprit === undefined
        ? thrown.message
        : `${thrown.message} (in ${relative(workspace, culprit)}${place})`;
    return {
      file: relative(workspace, path),
      ...(line === undefined || culprit !== undefined ? {} : { line }),
      reason,
      remedy,
    };
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

  #reportOf(path: string, file: string, helpers: ReadonlySet<string>): FileReport {
    const serving = this.#serving.get(path);
    const failure = this.#failed.get(path);
    if (serving !== undefined) {
      const { contract, warnings } = serving.recognised;
      const status = failure !== undefined ? "stale" : warnings.length > 0 ? "adapted" : "loaded";
      const found = { file, status, contract, tools: namesOf(serving), warnings } as const;
      return failure === undefined ? found : { ...found, failure };
    }
    if (failure !== undefined) return { file, status: "failed", tools: [], warnings: [], failure };
    if (helpers.has(path)) return { file, status: "helper", tools: [], warnings: [] };
    return { file, status: "failed", tools: [], warnings: [], failure: { file, ...noTool } };
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

const noTool = {
  reason: "It exports no tool, and no tool imports it.",
  remedy:
    "Export an object with a handler, a schema with a default function, or a value made by Tool.define.",
};

function unreadableReport({ path, reason }: UnreadableFile, workspace: string): FileReport {
  const file = relative(workspace, path);
  const remedy = "Let the user that Toolrack runs as read it.";
  return { file, status: "failed", tools: [], warnings: [], failure: { file, reason, remedy } };
}

function noSandbox(): LoadError {
  return new LoadError(
    "Single-file tools (*.tool.*) run in a sandbox, which this version does not have.",
    "Write it in another contract, or wait for the version that has the sandbox.",
  );
}

function namesOf({ recognised }: ServingFile): string[] {
  return recognised.tools.map((info) => info.name);
}

/** The named exports of a module; `module.exports` itself is the default of one that was not an ES module. */
function toRecord(exports: unknown): Record<string, unknown> {
  if (typeof exports === "function") return { ...exports, default: exports };
  if (typeof exports !== "object" || exports === null) return { default: exports };
  return "__esModule" in exports || "default" in exports ? { ...exports } : { ...exports, default: exports };
}

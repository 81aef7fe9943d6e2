import { join, resolve } from "node:path";
import { type ApprovalPolicy, type Logger, redact, ToolRegistry } from "@toolrack/core";
import type { Config } from "./config/config.ts";
import { loadEnvironment } from "./config/load-environment.ts";
import { readConfig } from "./config/read-config.ts";
import type { Workspace } from "./config/workspace.ts";
import { forgetCompiledSources } from "./host/forget-compiled-sources.ts";
import { CallLog } from "./log/call-log.ts";
import { knownSecrets } from "./log/known-secrets.ts";
import type { InternalSurroundings } from "./sources/internal/adapt-internal.ts";
import { loadBuiltins } from "./sources/internal/load-builtins.ts";
import type { LoadReport } from "./sources/load-report.ts";
import { Compiler } from "./sources/loader/compile.ts";
import { ModuleGraph, type ModuleGraphParts } from "./sources/loader/module-graph.ts";
import { Resolver } from "./sources/loader/resolver.ts";
import { StackMapper } from "./sources/loader/stack-mapper.ts";
import { type ProvidedParts, providedModules, provideModule } from "./sources/provided-modules.ts";
import { ToolFiles } from "./sources/tool-files.ts";
import { buildReloadTool } from "./sources/toolbox/build-reload-tool.ts";
import { makeCallToolHandler } from "./sources/toolbox/handler.ts";
import { logTool } from "./sources/toolbox/log-tool.ts";
import { watchFiles } from "./sources/watch-files.ts";

export interface OpenOptions {
  readonly approval?: ApprovalPolicy;
  /** Where tools and the loader talk to people. */
  readonly logger: Logger;
  /** Secret values that no record may show. */
  readonly secrets?: () => Iterable<string>;
  /** `false` leaves the built-in tools out, whatever the config says. */
  readonly builtins?: boolean;
  /** Folders of tool files instead of those that the config names; absolute. */
  readonly folders?: readonly string[];
  /** `false` keeps compiled files in memory only, so that opening the workspace writes nothing into it. */
  readonly cache?: boolean;
}

/** A workspace that has been opened: its tools on a rack, and what is behind them. */
export interface App {
  readonly workspace: Workspace;
  readonly config: Config;
  readonly registry: ToolRegistry;
  readonly files: ToolFiles;
  readonly log: CallLog;
  /** What opening it found. */
  readonly report: LoadReport;
  /** Reloads whenever a tool file changes, until it is closed. */
  watch(onReload: (report: LoadReport) => void): void;
  close(): Promise<void>;
}

/** How long a file may take to load. */
const EVALUATION_LIMIT = 10_000;

/** The composition root: the only place that knows all parts. Throws `LoadError` for a config that is not valid. */
export async function openWorkspace(directory: string, options: OpenOptions): Promise<App> {
  forgetCompiledSources();
  const { logger } = options;
  const root = resolve(directory);
  const stacks = new StackMapper();
  // Filled in below: the config itself may import what is provided, before the rest exists.
  let provided: ProvidedParts | undefined;
  const modules: ModuleGraphParts = {
    compiler: new Compiler(
      options.cache === false ? undefined : join(root, ".toolrack", "cache", "compiled"),
    ),
    resolver: new Resolver(providedModules),
    stacks,
    provide: (id, importer) => provideModule(id, importer, provided ?? unavailable(id)),
    evaluationLimit: EVALUATION_LIMIT,
  };
  const unloadEnvironment = await loadEnvironment(root, logger);
  const config = await readConfig(root, ModuleGraph.empty(modules));
  const folders = options.folders ?? (config.tools ?? ["tools"]).map((folder) => resolve(root, folder));
  const workspace = toWorkspace(root, config, folders);
  const known = knownSecrets(workspace.databases, process.env);
  const secrets = () => [...known, ...(options.secrets?.() ?? [])];

  const registry = new ToolRegistry({
    logger,
    directory: root,
    permissions: config.permissions ?? ["*"],
    ...(config.timeout === undefined ? {} : { timeout: config.timeout }),
    secrets,
    ...(options.approval === undefined ? {} : { approval: options.approval }),
  });
  const log = new CallLog({ ...config.log, file: logFileOf(root, config) });
  registry.subscribe(log.listen);

  const surroundings: InternalSurroundings = {
    ...config.context,
    // An application may have said what its services are; then only its own config can have them all.
    service: (config.services ?? {}) as InternalSurroundings["service"],
    model: (config.models ?? {}) as InternalSurroundings["model"],
    workspace,
  };
  const files = new ToolFiles({
    registry,
    workspace: root,
    folders,
    surroundings,
    modules,
    logger,
    builtins: [
      ...(config.builtins === false || options.builtins === false ? [] : loadBuiltins(surroundings)),
      { ...buildReloadTool(() => files.load()), origin: "built-in toolbox/buildReload_tool" },
      { ...logTool(log), origin: "built-in toolbox/log_tool" },
    ],
  });
  provided = {
    workspace: root,
    toolsFolder: folders[0] ?? join(root, "tools"),
    logFile: log.file,
    callToolHandler: makeCallToolHandler(registry),
    loadTools: () => files.load(),
    logLine: (entry) => {
      const plain = redact(entry, { values: secrets() });
      log.write(typeof plain === "object" && plain !== null ? { ...plain } : { message: plain });
    },
  };

  const report = await files.load();

  let watcher: ReturnType<typeof watchFiles> | undefined;
  return {
    workspace,
    config,
    registry,
    files,
    log,
    report,
    watch(onReload) {
      watcher ??= watchFiles(folders, async () => onReload(await files.load()));
    },
    async close() {
      await watcher?.close();
      await files.close();
      await modules.compiler.settle();
      log.close();
      unloadEnvironment();
    },
  };
}

function toWorkspace(directory: string, config: Config, toolFolders: readonly string[]): Workspace {
  return {
    directory,
    roots: [directory, ...(config.roots ?? []).map((root) => resolve(directory, root))],
    databases: config.databases ?? {},
    network: { allowPrivate: config.network?.allowPrivate ?? [] },
    toolFolders,
    logFile: logFileOf(directory, config),
  };
}

function logFileOf(directory: string, config: Config): string {
  return resolve(directory, config.log?.file ?? "log/ToolBox.log");
}

function unavailable(id: string): ProvidedParts {
  if (id === "core" || id === "toolrack" || id === "plugin") return {} as ProvidedParts; // These need none of it.
  throw new Error("The config cannot call tools: they are loaded after it.");
}

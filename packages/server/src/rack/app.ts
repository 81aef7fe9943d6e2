import { join, resolve } from "node:path";
import { type ApprovalPolicy, type Logger, type ToolInfo, ToolRegistry } from "@toolrack/core";
import { logLine, redact } from "@toolrack/core/internal";
import { MaskedValues, readMasterToken, type Secrets, ToolSecrets } from "../access/index.ts";
import { CallBook, CallLog, knownSecrets, Offerings } from "../calls/index.ts";
import type { Config, Workspace } from "../config/index.ts";
import { type ConfigOrigin, loadEnvironment, readConfig } from "../config/index.ts";
import type { InternalSurroundings, LoadReport, SingleFileTools } from "../files/index.ts";
import {
  buildReloadTool,
  Compiler,
  FileOfferings,
  forgetCompiledSources,
  logTool,
  ModuleGraph,
  type ModuleGraphParts,
  makeCallToolHandler,
  type ProvidedParts,
  providedModules,
  provideModule,
  Resolver,
  ToolFiles,
} from "../files/index.ts";
import { tellConsoleBy } from "../helpers/console-output.ts";
import { StackMapper, watchFiles } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { SkillLibrary } from "../skills/index.ts";
import { openSkills, skillFoldersOf } from "../skills/index.ts";
import type { Store } from "../store/index.ts";
import { loadBuiltins, openOnDemand } from "./on-demand.ts";

export interface OpenOptions {
  readonly approval?: ApprovalPolicy;
  /** Where tools and the loader talk to people. */
  readonly logger: Logger;
  /** Secret values that no record may show. Asked for again when the workspace's own secrets change. */
  readonly secrets?: () => Iterable<string>;
  /** Where sandboxed tools get theirs from; the workspace's store is opened for it when not given. */
  readonly toolSecrets?: Secrets;
  /** Where skills and experts are; that of the workspace is opened, when it has one, if none is given. */
  readonly store?: Store;
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
  /** Which keys of it are set, and by what. */
  readonly configOrigins: readonly ConfigOrigin[];
  readonly registry: ToolRegistry;
  readonly files: ToolFiles;
  /** Prompts, resources and skills, from wherever they come. */
  readonly offerings: Offerings;
  /** Skills and experts, with their tools on the rack. */
  readonly skills: SkillLibrary;
  readonly log: CallLog;
  /** Who is behind a call. */
  readonly book: CallBook;
  /** Where unreviewed code runs. Opened by the first who asks, and closed with the workspace. */
  readonly sandbox: () => Promise<Sandbox>;
  /**
   * The workspace's store, for commands that keep what they do in it: opened by the first who asks, and closed with the
   * workspace, unless it was given. The secrets in it are masked from then on.
   */
  readonly store: () => Promise<Store>;
  /** What opening it found. */
  readonly report: LoadReport;
  /** Adds files that somebody else of the rack runs: they give power to whoever writes them. */
  addUsedFiles(usedFilesOf: () => readonly string[]): void;
  /** Reloads whenever a tool file changes, until it is closed. */
  watch(onReload: (report: LoadReport) => void): void;
  close(): Promise<void>;
}

/** How long a file may take to load. */
const EVALUATION_LIMIT = 10_000;

/** The composition root: the only place that knows all parts. Throws `LoadError` for a config that is not valid. */
export async function openWorkspace(directory: string, options: OpenOptions): Promise<App> {
  forgetCompiledSources();
  tellConsoleBy(logLine);
  const { logger } = options;
  const isTemporary = options.cache === false;
  const root = resolve(directory);
  const stacks = new StackMapper();
  // Filled in below: the config itself may import what is provided, before the rest exists.
  let provided: ProvidedParts | undefined;
  const modules: ModuleGraphParts = {
    compiler: new Compiler(isTemporary ? undefined : join(root, ".toolrack", "cache", "compiled")),
    resolver: new Resolver(providedModules),
    stacks,
    provide: (id, importer) => provideModule(id, importer, provided ?? unavailable(id)),
    evaluationLimit: EVALUATION_LIMIT,
  };
  const unloadEnvironment = await loadEnvironment(root, logger);
  const configGraph = ModuleGraph.empty(modules);
  const { config, origins: configOrigins } = await readConfig(root, configGraph, logger).catch(
    async (thrown) => {
      // Whoever is told of a bad config finds nothing at work in the folder.
      await modules.compiler.settle();
      unloadEnvironment();
      throw thrown;
    },
  );
  const folders = options.folders ?? (config.tools ?? ["tools"]).map((folder) => resolve(root, folder));
  const others: (() => readonly string[])[] = [];
  const usedFiles = async () => [
    ...configGraph.paths(),
    ...configGraph.places(),
    ...(await files.importedFiles()),
    ...skills.usedFiles(),
    ...others.flatMap((usedFilesOf) => usedFilesOf()),
  ];
  const workspace = { ...toWorkspace(root, config, folders), usedFiles };
  const onDemand = openOnDemand(root, config, logger, isTemporary);
  const token = await readMasterToken(root);
  const known = [
    ...knownSecrets(workspace.databases, process.env),
    ...providerKeys(config),
    ...(token === undefined ? [] : [token]),
  ];
  const opened: Secrets[] = [];
  const masked = new MaskedValues(
    () => known,
    () => options.secrets?.() ?? [],
    () => opened.flatMap((secrets) => [...secrets.values()]),
  );
  // Looked at several times in every call, so it is there before anybody looks.
  const ready = { list: masked.list() };
  const refreshSecrets = () => {
    ready.list = masked.list();
  };
  const maskAll = (secrets: Secrets | undefined) => {
    if (secrets === undefined || opened.includes(secrets)) return secrets;
    opened.push(secrets);
    secrets.onChange(refreshSecrets);
    refreshSecrets();
    return secrets;
  };
  let skillSecrets = maskAll(options.toolSecrets);
  const toolSecrets = new ToolSecrets(
    async (isWriting) => options.toolSecrets ?? maskAll(await onDemand.secrets(isWriting)),
  );

  const registry = new ToolRegistry({
    logger,
    directory: root,
    permissions: config.permissions ?? ["*"],
    ...(config.timeout === undefined ? {} : { timeout: config.timeout }),
    secrets: ready,
    ...(options.approval === undefined ? {} : { approval: options.approval }),
  });
  const book = new CallBook(registry);
  const log = new CallLog({ ...config.log, file: logFileOf(root, config) });
  registry.subscribe(log.listen, ["record"]);

  const surroundings: InternalSurroundings = {
    ...config.context,
    // An application may have said what its services are; then only its own config can have them all.
    service: (config.services ?? {}) as InternalSurroundings["service"],
    model: (config.models ?? {}) as InternalSurroundings["model"], // As above.
    workspace,
  };
  const offerings = new Offerings({ logger });
  const fileOfferings = new FileOfferings();
  offerings.add(fileOfferings);
  let singleFiles: Promise<SingleFileTools> | undefined;
  const files = new ToolFiles({
    singleFiles: () => {
      singleFiles ??= onDemand.singleFiles(modules, toolSecrets, masked.list);
      return singleFiles;
    },
    onOffered: (offered) => fileOfferings.replace(offered),
    registry,
    workspace: root,
    folders,
    surroundings,
    modules,
    logger,
    builtins: [
      ...(config.builtins === false || options.builtins === false
        ? []
        : loadBuiltins(surroundings, (callId) => book.isAdmin(callId)).map(withBuiltinName)),
      { ...buildReloadTool(() => files.load()), origin: "built-in toolbox/buildReload_tool" },
      { ...logTool(log, book), origin: "built-in toolbox/log_tool" },
    ],
  });
  provided = {
    workspace: root,
    toolsFolder: folders[0] ?? join(root, "tools"),
    logFile: log.file,
    callToolHandler: makeCallToolHandler(registry),
    loadTools: () => files.load(),
    logLine: (entry) => {
      const plain = redact(entry, { values: ready.list });
      log.write(typeof plain === "object" && plain !== null ? { ...plain } : { message: plain });
    },
  };

  const report = await files.load();
  // After the files: a skill's tool may stand for one of theirs.
  // Tools of files work without it; whoever needs the store itself is told why it is not there.
  const withoutStore = (error: Error) => {
    logger.warn(`Skills and experts that the store keeps are left out. ${error.message}`);
    return undefined;
  };
  const skills = await openSkills({
    registry,
    config,
    workspace,
    store: options.store ?? (isTemporary ? undefined : await onDemand.existingStore().catch(withoutStore)),
    sandbox: onDemand.sandbox,
    secrets: async () => {
      skillSecrets ??= maskAll(await onDemand.secrets(false));
      return skillSecrets;
    },
    offerings,
    logger,
  });

  const watchers: ReturnType<typeof watchFiles>[] = [];
  return {
    workspace,
    config,
    configOrigins,
    registry,
    files,
    offerings,
    skills,
    log,
    book,
    sandbox: onDemand.sandbox,
    async store() {
      const store = options.store ?? (await onDemand.store());
      await toolSecrets.load();
      return store;
    },
    report,
    addUsedFiles(usedFilesOf) {
      others.push(usedFilesOf);
    },
    watch(onReload) {
      if (watchers.length > 0) return;
      watchers.push(
        watchFiles(folders, async () => {
          onReload(await files.load());
          await skills.reload();
        }),
        watchFiles(skillFoldersOf(config, root), () => skills.reload()),
      );
    },
    async close() {
      await Promise.all(watchers.map((watcher) => watcher.close()));
      await skills.close();
      await files.close();
      offerings.close();
      (await singleFiles)?.close();
      await onDemand.close();
      await modules.compiler.settle();
      log.close();
      unloadEnvironment();
    },
  };
}

/** Built-in tools have no row in the tables of skills, where they go by this name. */
function withBuiltinName(info: ToolInfo): ToolInfo {
  return { ...info, aliases: [...(info.aliases ?? []), info.name.replace(/^internal_/, "builtin_")] };
}

function toWorkspace(directory: string, config: Config, toolFolders: readonly string[]): Workspace {
  return {
    directory,
    roots: [directory, ...(config.roots ?? []).map((root) => resolve(directory, root))],
    databases: config.databases ?? {},
    network: { allowPrivate: config.network?.allowPrivate ?? [] },
    toolFolders,
    skillFolders: skillFoldersOf(config, directory),
    mcpFile: mcpFileOf(directory, config),
    logFile: logFileOf(directory, config),
  };
}

/** Keys of model providers that stand in the config itself; one that it only names is known from where it is. */
function providerKeys({ providers = {} }: Config): string[] {
  return Object.values(providers).flatMap(({ apiKey = "" }) => (/^$|\$\{/.test(apiKey) ? [] : [apiKey]));
}

function mcpFileOf(directory: string, config: Config): string {
  return resolve(directory, config.mcp?.file ?? "mcp.json");
}

function logFileOf(directory: string, config: Config): string {
  return resolve(directory, config.log?.file ?? "log/ToolBox.log");
}

function unavailable(id: string): ProvidedParts {
  if (id === "core" || id === "toolrack" || id === "plugin") return {} as ProvidedParts; // These need none of it.
  throw new Error("The config cannot call tools: they are loaded after it.");
}

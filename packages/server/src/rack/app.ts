import { join, resolve } from "node:path";
import {
  type ApprovalPolicy,
  type CallMock,
  type Logger,
  type SearchSettings,
  ToolDisabledError,
  type ToolInfo,
  ToolRegistry,
} from "@toolrack/core";
import { logLine, redact } from "@toolrack/core/internal";
import {
  MaskedValues,
  powerCheck,
  type ToolValues,
  unsetEnvironment,
  writtenForms,
} from "../access/index.ts";
import { CallBook, CallLog, knownSecrets, Offerings } from "../calls/index.ts";
import type { Config, Workspace } from "../config/index.ts";
import { type ConfigOrigin, loadEnvironment, readConfig, usualFoldersIn } from "../config/index.ts";
import type { InternalSurroundings, LoadReport, SingleFileTools } from "../files/index.ts";
import {
  buildReloadTool,
  Compiler,
  FileOfferings,
  forgetCompiledSources,
  InternalToolsService,
  logTool,
  McpService,
  ModuleGraph,
  type ModuleGraphParts,
  makeCallToolHandler,
  type ProvidedParts,
  providedModules,
  provideModule,
  type RackContext,
  Resolver,
  ToolFiles,
} from "../files/index.ts";
import { setConsoleLog } from "../helpers/console-output.ts";
import { currentCall } from "../helpers/current-call.ts";
import { StackMapper, watchFiles } from "../helpers/index.ts";
import { readMasterToken } from "../helpers/server-address.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { SkillLibrary } from "../skills/index.ts";
import { openSkills, skillFoldersOf } from "../skills/index.ts";
import type { Store } from "../store/index.ts";
import { loadBuiltins, openParts, openWords, providerKeys } from "./workspace-parts.ts";

export interface OpenOptions {
  readonly approval?: ApprovalPolicy;
  readonly logger: Logger;
  /** Returns secret values that no record may show, beside the workspace's own. Called in every call. */
  readonly secrets?: () => Iterable<string>;
  /** The settings and secrets of tools. Default: those of the workspace's store. */
  readonly toolValues?: ToolValues;
  /** The store with skills and experts. Default: the workspace's store, if it has one. */
  readonly store?: Store;
  /** `false` leaves the built-in tools out, whatever the config says. */
  readonly builtins?: boolean;
  /** Absolute folders of tool files, instead of those of the config. */
  readonly folders?: readonly string[];
  /** `false` keeps compiled files in memory only, so that opening the workspace writes nothing into it. */
  readonly cache?: boolean;
  /** The tool files are only checked: no tool runs, and no timer that a file starts. */
  readonly isCheck?: boolean;
  /** `false` does not wait for very many tools of skills; see `SkillLibrary.open`. */
  readonly isPatient?: boolean;
  /** `false` keeps calls out of the log. */
  readonly log?: boolean;
  /** A recording that is served in place of the workspace's own tools. */
  readonly recording?: Recording;
}

/** Tools of a recording, and what answers their calls. */
export interface Recording {
  readonly tools: readonly ToolInfo[];
  readonly mock: CallMock;
}

export interface App {
  readonly workspace: Workspace;
  readonly config: Config;
  /** Which keys of the config are set, and by what. */
  readonly configOrigins: readonly ConfigOrigin[];
  readonly registry: ToolRegistry;
  /** How the registry searches, for registries that are to find the same. */
  readonly search: SearchSettings;
  readonly files: ToolFiles;
  /** Prompts, resources and skills of all sources. */
  readonly offerings: Offerings;
  /** Skills and experts, with their tools on the rack. */
  readonly skills: SkillLibrary;
  readonly log: CallLog;
  /** Knows the caller behind each call. */
  readonly book: CallBook;
  /** Where unreviewed code runs. Opened on first use and closed with the workspace. */
  readonly sandbox: () => Promise<Sandbox>;
  /**
   * The workspace's store, for commands that write to it. Opened on first use and closed with the workspace,
   * unless it was given in the options. From the first use on, the secrets in the store are masked.
   */
  readonly store: () => Promise<Store>;
  /** The store, if the workspace has one already: for commands that only read. */
  readonly existingStore: () => Promise<Store | undefined>;
  /** A secret of the workspace; undefined when there is none of this name. */
  readonly secretOf: (name: string) => Promise<string | undefined>;
  /** What was found when the tool files were loaded. */
  readonly report: LoadReport;
  /**
   * Adds files that other parts of the rack run. Tools must not write to them, since whoever writes them controls what
   * runs.
   */
  addUsedFiles(usedFilesOf: () => readonly string[]): void;
  /** Reloads tool files whenever they change, until the workspace is closed. */
  watch(onReload: (report: LoadReport) => void): void;
  close(): Promise<void>;
}

/** Milliseconds that a file may take to load. */
const EVALUATION_LIMIT = 10_000;

/** The composition root: the only place that knows all parts. Throws `LoadError` for a config that is not valid. */
export async function openWorkspace(directory: string, options: OpenOptions): Promise<App> {
  forgetCompiledSources();
  setConsoleLog(logLine);
  const { logger, isCheck = false } = options;
  const isTemporary = options.cache === false;
  const root = resolve(directory);
  const stacks = new StackMapper();
  // Set below. The config may import provided modules before the other parts exist.
  let provided: ProvidedParts | undefined;
  const modules: ModuleGraphParts = {
    compiler: new Compiler(isTemporary ? undefined : join(root, ".toolrack", "cache", "compiled")),
    resolver: new Resolver(providedModules),
    stacks,
    provide: (id, importer) => provideModule(id, importer, provided ?? unavailable(id)),
    evaluationLimit: EVALUATION_LIMIT,
    isCheck,
  };
  const unloadEnvironment = await loadEnvironment(root, logger);
  const configGraph = ModuleGraph.empty(modules);
  const { config, origins: configOrigins } = await readConfig(root, configGraph, logger).catch(
    async (thrown) => {
      // When the caller gets the error, nothing may still write into the folder.
      await modules.compiler.settle();
      unloadEnvironment();
      throw thrown;
    },
  );
  const folders = options.folders ?? (config.tools ?? ["tools"]).map((folder) => resolve(root, folder));
  const extraUsedFiles: (() => readonly string[])[] = [];
  const usedFiles = async () => {
    await skills.loading;
    return [
      ...configGraph.paths(),
      ...configGraph.places(),
      ...(await files.importedFiles()),
      ...skills.usedFiles(),
      ...extraUsedFiles.flatMap((usedFilesOf) => usedFilesOf()),
    ];
  };
  const workspace = { ...toWorkspace(root, config, folders), usedFiles };
  const token = await readMasterToken(root);
  const known = [
    ...knownSecrets(workspace.databases, process.env),
    ...providerKeys(config, process.env),
    ...(token === undefined ? [] : [token]),
  ];
  const masked = new MaskedValues(
    () => known,
    () => options.secrets?.() ?? [],
  );
  // The option `secrets` does not report when its values change, so they are read each time.
  const ready =
    options.secrets === undefined
      ? masked
      : {
          get list() {
            return masked.refresh();
          },
        };
  const parts = openParts(root, config, logger, isTemporary);
  let values = options.toolValues;
  const openValues = async (isWriting: boolean) => {
    values ??= await parts.values(isWriting);
    follow();
    return values;
  };
  const environmentOf = (info: ToolInfo) => {
    if (values !== undefined) return values.environmentOf(info);
    if (!parts.hasStore()) return unsetEnvironment(info);
    return openValues(false).then(
      (opened) => opened?.environmentOf(info) ?? unsetEnvironment(info) ?? {},
      (error) => {
        // A store that cannot be opened must not stop tools that need nothing of it.
        if (info.metadata.environment !== undefined) throw error;
        return {};
      },
    );
  };

  // As long as the settings and secrets have not been read, any tool may have some if there is a store.
  const environment = { tools: { has: (_: string) => parts.hasStore() }, of: environmentOf };
  const follow = () => {
    if (values === undefined) return;
    masked.follow(values.secrets);
    environment.tools = values.tools;
  };
  // At once, so that these secrets are masked from the first call on.
  follow();

  const search = {
    intents: config.search?.intents,
    words: config.search?.meaning === false ? undefined : () => openWords(logger),
  };
  const registry = new ToolRegistry({
    logger,
    directory: root,
    permissions: config.permissions ?? ["*"],
    timeout: config.timeout,
    secrets: ready,
    environment,
    approval: options.approval,
    search,
    mock: options.recording?.mock,
    secretForms: writtenForms,
  });
  for (const tool of options.recording?.tools ?? []) registry.register(tool);
  if (isCheck) refuseCalls(registry, logger);
  const book = new CallBook(registry, root);
  const log = new CallLog({ ...config.log, file: logFileOf(root, config) });
  if (options.log !== false) book.follow(log);

  const surroundings: InternalSurroundings = {
    ...config.context,
    // An application may declare the types of its services; only its own config can satisfy them.
    service: withRackServices(config.services ?? {}, registry) as InternalSurroundings["service"],
    model: (config.models ?? {}) as InternalSurroundings["model"], // As for `service`.
    workspace,
  };
  const offerings = new Offerings({ logger });
  const fileOfferings = new FileOfferings();
  offerings.add(fileOfferings);
  let isOpen = false;
  let singleFiles: Promise<SingleFileTools> | undefined;
  const files = new ToolFiles({
    singleFiles: () => {
      // The first load comes before the skills, so the files that they run are not known yet.
      const powers = () => powerCheck(isOpen ? workspace : toWorkspace(root, config, folders));
      singleFiles ??= parts.singleFiles(modules, openValues, () => masked.list, powers);
      return singleFiles;
    },
    onOffered: (offered) => fileOfferings.replace(offered),
    unguarded: config.approvals?.unguarded,
    isVersioned: (process.env.REDIS_URL ?? "") !== "",
    registry,
    workspace: root,
    folders,
    surroundings,
    modules,
    logger,
    builtins:
      options.recording !== undefined
        ? []
        : [
            ...(config.builtins === false || options.builtins === false
              ? []
              : (await loadBuiltins(surroundings, (callId) => book.isAdmin(callId))).map(withBuiltinName)),
            { ...buildReloadTool((wish) => files.load(wish)), origin: "built-in toolbox/buildReload_tool" },
            { ...logTool(log, book), origin: "built-in toolbox/log_tool" },
          ],
  });
  provided = {
    workspace: root,
    toolsFolder: folders[0] ?? join(root, "tools"),
    logFile: log.file,
    callToolHandler: makeCallToolHandler(registry),
    isCheck,
    loadTools: (force) => files.load({ force: force === true }),
    logLine: (entry) => {
      if (isCheck) return;
      const plain = redact(entry, { values: ready.list });
      log.write(typeof plain === "object" && plain !== null ? { ...plain } : { message: plain });
    },
  };

  const report = await files.load();
  if (options.folders === undefined) warnOfFolders(root, config, report, logger);
  // Skills are opened after the files, because a skill may name a tool that a file defines. Without a store,
  // tools of files work; commands that need the store are told why it is missing.
  const warnWithoutStore = (error: Error) => {
    logger.warn(`Skills and experts that the store keeps are left out. ${error.message}`);
    return undefined;
  };
  const skills = await openSkills({
    registry,
    config,
    workspace,
    store: options.store ?? (isTemporary ? undefined : await parts.existingStore().catch(warnWithoutStore)),
    sandbox: parts.sandbox,
    openData: parts.openData,
    install: parts.install,
    isTemporary,
    values: () => openValues(false),
    offerings,
    isPatient: options.isPatient ?? true,
    logger,
  });
  isOpen = true;

  const watchers: ReturnType<typeof watchFiles>[] = [];
  return {
    workspace,
    config,
    configOrigins,
    registry,
    search,
    files,
    offerings,
    skills,
    log,
    book,
    sandbox: parts.sandbox,
    async store() {
      const store = options.store ?? (await parts.store());
      await openValues(false);
      return store;
    },
    existingStore: async () => options.store ?? (await parts.existingStore()),
    async secretOf(name) {
      if (values === undefined && !parts.hasStore()) return undefined;
      return (await openValues(false))?.secrets.get(name);
    },
    report,
    addUsedFiles(usedFilesOf) {
      extraUsedFiles.push(usedFilesOf);
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
      await parts.close();
      await modules.compiler.settle();
      log.close();
      unloadEnvironment();
    },
  };
}

/** Tells of tool files in folders where projects usually have them, and where this workspace does not look. */
function warnOfFolders(root: string, { tools }: Config, { files }: LoadReport, logger: Logger): void {
  if (files.length > 0 || tools !== undefined) return;
  const unread = usualFoldersIn(root).filter((folder) => folder !== "tools");
  if (unread.length === 0) return;
  const names = JSON.stringify(unread);
  logger.warn(
    `No tool files were found in tools, and nobody looks into ${unread.join(" and ")}. To load them, write into toolrack.config.mjs: export default { tools: ${names} };`,
  );
}

/**
 * Adds `tools` and `mcp` as contract 1 knows them, unless the application has its own. An object of a class stays as it
 * is: its members may need it as `this`.
 */
function withRackServices(services: object, registry: ToolRegistry): object {
  const prototype = Object.getPrototypeOf(services);
  if (prototype !== null && prototype !== Object.prototype) return services;
  const context: RackContext = {
    get registry() {
      return currentCall.getStore()?.registry ?? registry;
    },
  };
  return { tools: new InternalToolsService(context), mcp: new McpService(context), ...services };
}

/** Lets no way lead to a run of a tool, whoever asks for it: a check runs the top level of files only. */
function refuseCalls(registry: ToolRegistry, logger: Logger): void {
  registry.execute = async (name) => {
    const problem = `A check runs no tool, so the call of "${name}" that a file makes while it loads was refused.`;
    logger.warn(problem);
    const error = new ToolDisabledError(problem, { toolName: name }).toResponse();
    return { content: problem, type: "error", error };
  };
}

/** Adds the name by which skills refer to a built-in tool. */
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
    mcpFile: resolve(directory, config.mcp?.file ?? "mcp.json"),
    logFile: logFileOf(directory, config),
  };
}

function logFileOf(directory: string, config: Config): string {
  return resolve(directory, config.log?.file ?? "log/ToolBox.log");
}

function unavailable(id: string): ProvidedParts {
  if (/^(?:core|toolrack|plugin|zod.*)$/.test(id)) return {} as ProvidedParts; // These modules need no parts.
  throw new Error("The config cannot call tools: they are loaded after it.");
}

import { existsSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Logger, ToolInfo, ToolRegistry, WordVectors } from "@toolrack/core";
import { isSecretName } from "@toolrack/core/internal";
import type { ToolValues } from "../access/index.ts";
import type { InternalTool } from "../calls/index.ts";
import type { Config, Workspace } from "../config/index.ts";
import type { InternalSurroundings, ModuleGraphParts, SingleFileOptions } from "../files/index.ts";
import { adaptInternal, FileVersion } from "../files/index.ts";
import { makeOwnFolder, StackMapper } from "../helpers/index.ts";
import type { SkillLibrary } from "../skills/index.ts";
import type { TestRunner } from "../tests/index.ts";

/** Milliseconds after which unused packages are deleted. */
const UNUSED_DEPENDENCIES = 30 * 24 * 60 * 60_000;

/**
 * Returns a function that opens a value on first use and gives the same value to all, and a function that closes it.
 */
function once<Value>(open: () => Promise<Value>) {
  let opened: Promise<Value> | undefined;
  const get = () => {
    opened ??= open();
    return opened;
  };
  /** Does nothing when the value was never opened or failed to open. */
  const close = async (end: (value: Value) => Promise<void> | void) => {
    const value = await opened?.catch(() => undefined);
    if (value !== undefined) await end(value);
  };
  return { get, close };
}

/**
 * The parts of a workspace that most commands never need: each is imported and opened on first use, and closed with the
 * workspace. `isTemporary`: nothing is written into the workspace for the sandbox.
 */
export function openParts(root: string, config: Config, logger: Logger, isTemporary: boolean) {
  const own = join(root, ".toolrack");
  let temporary: string | undefined;
  /** The folder of the sandbox and of tool packages, in the workspace or temporary. */
  const folder = () => {
    if (!isTemporary) return own;
    temporary ??= mkdtempSync(join(tmpdir(), "toolrack-sandbox-"));
    return temporary;
  };
  const url = () => process.env.DATABASE_URL ?? "";
  const hasStore = () => url() !== "" || existsSync(join(own, "toolrack.db"));
  let pruning: Promise<unknown> | undefined;

  const store = once(async () => {
    const { openStore } = await import("../store/index.ts");
    return openStore({ directory: own, url: url(), logger });
  });
  const sandbox = once(async () => {
    const { openSandbox } = await import("../sandbox/index.ts");
    const { require, allowForeign: allowForeignBelow3 } = config.sandbox ?? {};
    // The system users that sandboxed tools run as must be able to pass through this folder to their packages.
    makeOwnFolder(folder());
    const directory = join(folder(), "sandbox");
    // Each run of code takes a worker that waits already.
    const blankWorkers = config.code?.mode === "off" ? 1 : 2;
    const opened = await openSandbox({ directory, logger, require, allowForeignBelow3, blankWorkers });
    if (opened.reason !== undefined) logger.warn(`[sandbox] level ${opened.level}: ${opened.reason}`);
    return opened;
  });
  const values = once(async () => {
    const [opened, { openValues }] = await Promise.all([store.get(), import("../access/index.ts")]);
    return openValues({ directory: own, store: opened });
  });
  const dependencies = once(async () => {
    const { DependencyStore } = await import("../sandbox/index.ts");
    const npmrc = join(root, ".npmrc");
    const opened = new DependencyStore({ directory: join(folder(), "deps"), npmrc, logger });
    pruning ??= opened.prune(UNUSED_DEPENDENCIES).catch(() => {});
    return opened;
  });
  return {
    sandbox: sandbox.get,
    store: store.get,
    /** Installs packages, as a skill's `package.json` declares them, and returns the folder that has them. */
    async install(declared: unknown, label: string, signal?: AbortSignal) {
      const { parseDependencies } = await import("../sandbox/index.ts");
      return (await dependencies.get()).install(parseDependencies(declared), label, signal);
    },
    /** Opens the data folder of a tool or skill. */
    async openData(name: string) {
      const { DataFolders } = await import("../sandbox/index.ts");
      return new DataFolders(join(folder(), "data")).open(name);
    },
    /** Undefined when the workspace has no store yet. */
    existingStore: async () => (hasStore() ? store.get() : undefined),
    hasStore,
    /** Settings and secrets. Undefined when `isWriting` is false and the workspace has no store yet. */
    values: async (isWriting: boolean) => (isWriting || hasStore() ? values.get() : undefined),
    /** Opens the part that loads and runs the tools of contract 5. */
    async singleFiles(
      { compiler, stacks }: ModuleGraphParts,
      openValues: (isWriting: boolean) => Promise<ToolValues | undefined>,
      masked: () => Iterable<string>,
      powers: SingleFileOptions["powers"],
    ) {
      const [{ SingleFileTools }, { ToolLogs }] = await Promise.all([
        import("../files/index.ts"),
        import("../sandbox/index.ts"),
      ]);
      const { file = "log/ToolBox.log", ...rotation } = config.log ?? {};
      const logs = join(dirname(resolve(root, file)), "tools");
      return new SingleFileTools({
        workspace: root,
        compiler,
        stacks,
        sandbox: sandbox.get,
        dependencies: await dependencies.get(),
        variables: {
          get: async (...which) => (await openValues(false))?.get(...which),
          refresh: async () => (await openValues(false))?.refresh(),
          set: async (tool, name, value, isSecret) =>
            (await openValues(value !== undefined))?.set(tool, name, value, isSecret),
        },
        logs: new ToolLogs({ ...rotation, folder: logs, secrets: masked }),
        config: config.sandbox ?? {},
        powers,
        logger,
        isCached: !isTemporary,
      });
    },
    async close() {
      await pruning;
      await sandbox.close((opened) => opened.close());
      if (temporary !== undefined) await rm(temporary, { recursive: true, force: true });
      await store.close((opened) => opened.close());
    },
  };
}

/**
 * The built-in tools, adapted like any tool of contract 1. Only built-in tools are told whether the caller is
 * an admin, by `isAdmin` of their workspace.
 */
export async function loadBuiltins(
  surroundings: InternalSurroundings,
  isAdmin: (callId: string) => boolean,
): Promise<ToolInfo[]> {
  const { builtinTools } = await import("../builtin-tools/index.ts");
  const stacks = new StackMapper();
  return Object.entries(builtinTools).flatMap(([group, tools]) =>
    tools.flatMap((tool) => {
      const origin = `built-in ${group}/${tool.name}`;
      const place = { folders: [group], stem: tool.name, origin };
      return (
        adaptInternal(withAdminFlag(tool, isAdmin), place, new FileVersion(origin, stacks), surroundings)
          ?.tools ?? []
      );
    }),
  );
}

function withAdminFlag(tool: InternalTool, isAdmin: (callId: string) => boolean): InternalTool {
  return {
    ...tool,
    handler: (args, ctx) => {
      const workspace = { ...ctx.workspace, isAdmin: isAdmin(ctx.callId) };
      return tool.handler(args, Object.assign(Object.create(ctx), { workspace }));
    },
  };
}

/** The vectors by which search knows what words mean. Undefined, and said in the log, where they cannot be had. */
export async function openWords(logger: Logger): Promise<WordVectors | undefined> {
  try {
    return await (await import("@toolrack/words")).openWords();
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
    if (isMissing) logger.debug("Tools are found by their words alone: @toolrack/words is not installed.");
    else
      logger.warn(`Tools are found by their words alone: ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
}

/**
 * The keys of model providers that are written in the config, and the variables to which keys, and headers named like
 * secrets, refer. References to secrets of the workspace are masked anyway.
 */
export function providerKeys(
  { providers = {} }: Config,
  environment: Readonly<Record<string, string | undefined>>,
): string[] {
  return Object.values(providers).flatMap(({ apiKey = "", headers = {} }) => {
    const written = /^$|\$\{/.test(apiKey) ? [] : [apiKey];
    const secret = Object.entries(headers).flatMap(([name, value]) => (isSecretName(name) ? [value] : []));
    const names = [apiKey, ...secret].flatMap((text) => [...text.matchAll(/\$\{([\w.-]+)\}/g)]);
    return [...written, ...names.map(([, name = ""]) => environment[name] ?? "")].filter(Boolean);
  });
}

/** What runs the tests of an opened workspace. `startServers` is called once, when a tool of another server must run. */
export async function testRunnerOf(
  { registry, workspace, skills, secretOf }: TestedWorkspace,
  startServers: () => Promise<void>,
): Promise<TestRunner> {
  const { TestRunner } = await import("../tests/index.ts");
  return new TestRunner({
    registry,
    directory: workspace.directory,
    expertAllows: (name) => skills.experts.find(name)?.allows,
    secretOf: async (name) => process.env[name] ?? (await secretOf(name)),
    startServers,
  });
}

interface TestedWorkspace {
  readonly registry: ToolRegistry;
  readonly workspace: Workspace;
  readonly skills: SkillLibrary;
  readonly secretOf: (name: string) => Promise<string | undefined>;
}

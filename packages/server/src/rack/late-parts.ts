import { existsSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Logger, ToolInfo } from "@toolrack/core";
import type { Secrets, ToolSecrets } from "../access/index.ts";
import { builtinTools } from "../builtin-tools/index.ts";
import type { InternalTool } from "../calls/index.ts";
import type { Config } from "../config/index.ts";
import type { InternalSurroundings, ModuleGraphParts, SingleFileTools } from "../files/index.ts";
import { adaptInternal, FileVersion } from "../files/index.ts";
import { makeOwnFolder, StackMapper } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { Store } from "../store/index.ts";

/** Packages that no tool used for so long are deleted. */
const UNUSED_DEPENDENCIES = 30 * 24 * 60 * 60_000;

/**
 * The parts of a workspace that most commands never need: opened, and even imported, by the first who asks, and
 * closed with the workspace.
 */
export class LateParts {
  readonly #root: string;
  readonly #config: Config;
  readonly #logger: Logger;
  readonly #isTemporary: boolean;
  /** Where the sandbox and the packages of tools lie, in the workspace or beside it. */
  #folder: string | undefined;
  #pruning: Promise<unknown> | undefined;
  #sandbox: Promise<Sandbox> | undefined;
  #store: Promise<Store> | undefined;

  /** `isTemporary`: nothing is written into the workspace for the sandbox's sake. */
  constructor(root: string, config: Config, logger: Logger, isTemporary = false) {
    this.#isTemporary = isTemporary;
    this.#root = root;
    this.#config = config;
    this.#logger = logger;
  }

  readonly sandbox = (): Promise<Sandbox> => {
    this.#sandbox ??= this.#openSandbox();
    return this.#sandbox;
  };

  readonly store = (): Promise<Store> => {
    this.#store ??= this.#openStore();
    return this.#store;
  };

  /** Nothing when none was made yet. */
  readonly existingStore = async (): Promise<Store | undefined> => {
    const isMade =
      (process.env.DATABASE_URL ?? "") !== "" || existsSync(join(this.#root, ".toolrack", "toolrack.db"));
    return isMade ? this.store() : undefined;
  };

  /** Nothing when they are only to be read and no store was made yet. */
  readonly secrets = async (isWriting: boolean): Promise<Secrets | undefined> => {
    const directory = join(this.#root, ".toolrack");
    const url = process.env.DATABASE_URL ?? "";
    if (!isWriting && url === "" && !existsSync(join(directory, "toolrack.db"))) return undefined;
    const [store, { openSecrets }] = await Promise.all([this.store(), import("../access/index.ts")]);
    return openSecrets({ directory, store });
  };

  async singleFiles(parts: {
    readonly modules: ModuleGraphParts;
    readonly toolSecrets: ToolSecrets;
    readonly secrets: () => Iterable<string>;
    readonly isCached: boolean;
  }): Promise<SingleFileTools> {
    const { modules, toolSecrets, secrets, isCached } = parts;
    const [{ SingleFileTools }, { ToolLogs, DependencyStore }] = await Promise.all([
      import("../files/index.ts"),
      import("../sandbox/index.ts"),
    ]);
    const { file = "log/ToolBox.log", ...rotation } = this.#config.log ?? {};
    const dependencies = new DependencyStore({
      directory: join(this.#toolrackFolder(), "deps"),
      npmrc: join(this.#root, ".npmrc"),
      logger: this.#logger,
    });
    this.#pruning ??= dependencies.prune(UNUSED_DEPENDENCIES).catch(() => {});
    return new SingleFileTools({
      workspace: this.#root,
      compiler: modules.compiler,
      stacks: modules.stacks,
      sandbox: this.sandbox,
      dependencies,
      variables: toolSecrets,
      logs: new ToolLogs({ ...rotation, folder: join(dirname(resolve(this.#root, file)), "tools"), secrets }),
      config: this.#config.sandbox ?? {},
      logger: this.#logger,
      isCached,
    });
  }

  async close(): Promise<void> {
    await this.#pruning;
    await (await this.#sandbox?.catch(() => undefined))?.close();
    if (this.#isTemporary && this.#folder !== undefined)
      await rm(this.#folder, { recursive: true, force: true });
    await (await this.#store?.catch(() => undefined))?.close();
  }

  #toolrackFolder(): string {
    this.#folder ??= this.#isTemporary
      ? mkdtempSync(join(tmpdir(), "toolrack-sandbox-"))
      : join(this.#root, ".toolrack");
    return this.#folder;
  }

  async #openStore(): Promise<Store> {
    const { openStore } = await import("../store/index.ts");
    return openStore({
      directory: join(this.#root, ".toolrack"),
      url: process.env.DATABASE_URL ?? "",
      logger: this.#logger,
    });
  }

  async #openSandbox(): Promise<Sandbox> {
    const { openSandbox } = await import("../sandbox/index.ts");
    const { require, allowForeign } = this.#config.sandbox ?? {};
    // Whoever made it: tools' users pass through it to the packages that they use.
    makeOwnFolder(this.#toolrackFolder());
    const sandbox = await openSandbox({
      directory: join(this.#toolrackFolder(), "sandbox"),
      logger: this.#logger,
      ...(require === undefined ? {} : { require }),
      ...(allowForeign === undefined ? {} : { allowForeignBelow3: allowForeign }),
    });
    if (sandbox.reason !== undefined)
      this.#logger.warn(`[sandbox] level ${sandbox.level}: ${sandbox.reason}`);
    return sandbox;
  }
}

/**
 * The built-in tools, adapted like any other tool of contract 1. They alone learn whether an admin is behind a call, in
 * one place for all of them, so that none can forget to ask.
 */
export function loadBuiltins(
  surroundings: InternalSurroundings,
  isAdmin: (callId: string) => boolean,
): ToolInfo[] {
  const stacks = new StackMapper();
  return Object.entries(builtinTools).flatMap(([group, tools]) =>
    tools.flatMap((tool) => {
      const origin = `built-in ${group}/${tool.name}`;
      const place = { folders: [group], stem: tool.name, origin };
      return (
        adaptInternal(withGrant(tool, isAdmin), place, new FileVersion(origin, stacks), surroundings)
          ?.tools ?? []
      );
    }),
  );
}

function withGrant(tool: InternalTool, isAdmin: (callId: string) => boolean): InternalTool {
  return {
    ...tool,
    handler: (args, ctx) => {
      const workspace = { ...ctx.workspace, isAdmin: isAdmin(ctx.callId) };
      return tool.handler(args, Object.assign(Object.create(ctx), { workspace }));
    },
  };
}

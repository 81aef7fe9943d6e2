import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import * as core from "@toolrack/core";
import {
  type CallOptions,
  type ToolContext,
  type ToolRegistry,
  type ToolResult,
  toMcpResult,
} from "@toolrack/core";
import * as format from "@toolrack/core/format";
import { defineConfig } from "../config/index.ts";
import { currentCall } from "../helpers/current-call.ts";
import { InternalToolLoader, McpService } from "./internal-services.ts";
import type { VirtualModule } from "./loader/resolver.ts";

const zodEntries = ["zod", "zod/v3", "zod/v4", "zod/v4/core", "zod/v4/mini", "zod/mini", "zod/v4-mini"];

/** The modules that tool files may import although nobody installed or wrote them. */
export const providedModules: readonly VirtualModule[] = [
  { id: "core", pattern: /^@toolrack\/core$/ },
  { id: "format", pattern: /^@toolrack\/core\/format$/ },
  { id: "toolrack", pattern: /^toolrack$/ },
  // Toolrack's copy of Zod is used only when the file's own project has no Zod.
  ...zodEntries.map((id) => ({ id, pattern: new RegExp(`^${id}$`) })),
  { id: "plugin", pattern: /^@opencode-ai\/plugin(?:\/tool)?$/ },
  // Replaces the project's own handler, so that calls always go through the rack.
  { id: "handler", pattern: /^(?:\.\.\/)+handler\/ToolHandler(?:\.[jt]s)?$/, always: true },
  { id: "config", pattern: /^(?:\.\.\/)+config(?:\.[jt]s)?$/ },
  { id: "logService", pattern: /^(?:\.\.\/)+logService(?:\.[jt]s)?$/ },
];

export interface ProvidedParts {
  /** Absolute. */
  readonly workspace: string;
  /** Absolute, the first of the tool folders. */
  readonly toolsFolder: string;
  readonly logFile: string;
  readonly callToolHandler: CallToolHandler;
  readonly loadTools: (force?: boolean) => Promise<unknown>;
  readonly logLine: (entry: unknown) => void;
  /** The files are only checked, so nothing is written into the workspace. */
  readonly isCheck: boolean;
}

export function provideModule(id: string, importer: string, parts: ProvidedParts): unknown {
  if (zodEntries.includes(id)) return requireZod(id, importer);
  switch (id) {
    case "core":
      coreModule ??= Object.freeze(asModule(core));
      return coreModule;
    case "format":
      return asModule(format);
    case "toolrack":
      toolrackModule ??= Object.freeze(
        asModule({ defineConfig, InternalToolLoader, McpService, ...core, ...format }),
      );
      return toolrackModule;
    case "plugin":
      return asModule({ tool: pluginTool(importer) });
    case "handler":
      return asModule({ callToolHandler: parts.callToolHandler, loadTools: parts.loadTools });
    case "config":
      return asModule(parts.isCheck ? toolboxConfig(parts) : makeFolders(toolboxConfig(parts)));
    case "logService":
      return asModule({ LogService: logService(parts), default: logService(parts) });
    default:
      throw new Error(`Toolrack provides no module "${id}".`);
  }
}

/** One for all files, like an installed module: a copy for each file took 20 µs and its memory. */
let coreModule: object | undefined;
let toolrackModule: object | undefined;

/** Makes exports that work with both `import { … }` and `import x from`. */
function asModule(exports: Record<string, unknown>): Record<string, unknown> {
  return { __esModule: true, default: exports, ...exports };
}

/** The `tool` function of opencode plugins, with Zod as its `schema`. */
function pluginTool(importer: string): typeof core.tool {
  const tool = (definition: Parameters<typeof core.tool>[0]) => core.tool(definition);
  Object.defineProperty(tool, "schema", {
    get() {
      return requireZod("zod", importer).z;
    },
  });
  return tool as typeof core.tool; // The same function, with the schema library beside it.
}

/** The Zod that is installed where the file lies, or else Toolrack's own. Loaded on first use. */
function requireZod(id: string, importer: string): { z: unknown } {
  const installed = createRequire(importer);
  try {
    return installed(id);
  } catch (thrown) {
    if (!isMissing(thrown, id)) throw thrown;
    return createRequire(import.meta.url)(id);
  }
}

function isMissing(thrown: unknown, id: string): boolean {
  const { code, message } = thrown as NodeJS.ErrnoException; // Node throws errors with these members.
  return (
    code === "ERR_PACKAGE_PATH_NOT_EXPORTED" || (code === "MODULE_NOT_FOUND" && message.includes(`'${id}'`))
  );
}

/** The paths that toolbox tools read from their config module. */
function toolboxConfig({ workspace, toolsFolder, logFile }: ProvidedParts): Record<string, string> {
  return {
    toolsDir: toolsFolder,
    logDirectory: join(workspace, "log"),
    logFile,
    cliLogFile: join(workspace, "log", "cli.log"),
    jsonDirectory: join(workspace, "json"),
    tasksFilePath: join(workspace, "json", "scheduled_tasks.json"),
    dataDirectory: join(workspace, "data"),
    sqlitePath: join(workspace, "data", "sqlite"),
  };
}

/** Tools expect these folders to exist, because their original config module made them. */
function makeFolders(config: Record<string, string>): Record<string, string> {
  const { logDirectory, jsonDirectory, sqlitePath, tasksFilePath } = config;
  for (const folder of [logDirectory, jsonDirectory, sqlitePath]) mkdirSync(folder!, { recursive: true });
  if (!existsSync(tasksFilePath!)) writeFileSync(tasksFilePath!, "[]\n");
  return config;
}

function logService({ logLine }: ProvidedParts): Record<string, (entry: unknown) => unknown> {
  return { log: (entry) => logLine(entry), logAsync: async (entry) => logLine(entry) };
}

interface ToolboxRequest {
  readonly params?: {
    readonly name?: string;
    readonly arguments?: Record<string, unknown>;
    readonly tid?: string;
  };
  readonly tid?: string;
}

type CallToolHandler = (
  request: ToolboxRequest | undefined,
  caller?: string,
) => Promise<ReturnType<typeof toMcpResult>>;

/**
 * The `callToolHandler` that tool files import. Inside a call it makes a child call; elsewhere, such as in a timer, a
 * call of its own. Returns an MCP result; a failure has `isError`.
 */
export function makeCallToolHandler(registry: ToolRegistry): CallToolHandler {
  return async (request, caller) => {
    // A request without its parts is refused like one for an unknown tool.
    const { name = "", arguments: args, tid = request?.tid } = request?.params ?? {};
    const parent = currentCall.getStore();
    const options: CallOptions = {
      // Plain JavaScript may give the number of a task, but records and logs hold texts.
      ...(caller === undefined ? {} : { caller: String(caller) }),
      ...(tid === undefined ? {} : { tid: String(tid) }),
    };
    const result = await call(registry, parent, name, args, options);
    // A tool may put data where MCP has a text. The caller gets it unchanged: `content[0].text.temperature`.
    return { ...toMcpResult(result), ...(result.blocks && { content: result.blocks }) };
  };
}

function call(
  registry: ToolRegistry,
  parent: ToolContext | undefined,
  name: string,
  args: unknown,
  options: CallOptions,
): Promise<ToolResult> {
  if (parent === undefined) return registry.execute(name, args, options);
  // A timer that a call set keeps the call's async context after the call has ended.
  const isUnderWay = registry.getState(parent.callId)?.status === "running";
  return isUnderWay
    ? registry.executeChild(parent, name, args, options)
    : registry.executeDetached(parent, name, args, options);
}

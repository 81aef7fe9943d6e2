import { join, relative, resolve, sep } from "node:path";
import { type RegistryReader, type ToolInfo, type ToolResult, toMcpResult } from "@toolrack/core";
import { toDefinition, toOpenAITools } from "@toolrack/core/format";
import { originOf, type Workspace } from "../config/index.ts";

/** The part of a tool's `ctx` that these classes use. Calls made through it are children of the tool's call. */
export interface RackContext {
  readonly registry: RegistryReader & { execute(name: string, input?: unknown): Promise<ToolResult> };
  /** Only handlers of contract 1 have it. */
  readonly workspace?: Pick<Workspace, "directory" | "toolFolders">;
}

/** A tool in the shape of contract 1, as it is on the rack. */
interface LoadedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: unknown;
  readonly metadata: Readonly<Record<string, unknown>>;
  handler(args?: unknown): Promise<McpResult>;
}

type McpResult = ReturnType<typeof toMcpResult>;

const internalPrefix = "internal_";

/**
 * The loader under the name and with the methods that contract 1 gives it. The rack has loaded the files already, so
 * this reads the rack: nothing is loaded twice, and `handler` makes an ordinary call.
 */
export class InternalToolLoader {
  readonly #ctx: RackContext;
  readonly tools = new Map<string, LoadedTool>();
  /** The names of the tools by group. */
  readonly groups = new Map<string, string[]>();

  /** Absolute: the first tool folder of the workspace. */
  readonly toolsDir: string;

  constructor(ctx: RackContext) {
    this.#ctx = ctx;
    const { directory = "", toolFolders = [] } = ctx.workspace ?? {};
    this.toolsDir = toolFolders[0] ?? join(directory, "tools");
  }

  loadAllTools(): Map<string, LoadedTool> {
    this.tools.clear();
    this.groups.clear();
    this.#take(() => true);
    return this.tools;
  }

  /** Takes the tools whose files lie in the folder: absolute, or relative to the workspace. Folders are the groups. */
  loadToolsFromDirectory(folder: string = this.toolsDir): void {
    const inside = this.#originOf(folder) + sep;
    this.#take(({ origin }) => origin?.startsWith(inside) === true);
  }

  /** Takes the tools of one file: absolute, or relative to the workspace. */
  loadToolFile(file: string): void {
    const wanted = this.#originOf(file);
    this.#take(({ origin }) => origin === wanted);
  }

  #originOf(path: string): string {
    const directory = this.#ctx.workspace?.directory ?? "";
    return relative(directory, resolve(directory, path));
  }

  #take(isWanted: (info: ToolInfo) => boolean): void {
    for (const info of this.#ctx.registry.list()) {
      const { name, metadata, origin: source } = info;
      if (!name.startsWith(internalPrefix) || this.tools.has(name) || !isWanted(info)) continue;
      const group = typeof metadata.category === "string" ? metadata.category : undefined;
      this.tools.set(name, {
        name,
        description: info.description ?? "",
        inputSchema: toDefinition(info).inputSchema,
        metadata: { ...metadata, type: "internal", source, group },
        handler: async (args) => toMcpResult(await this.#ctx.registry.execute(name, args)),
      });
      if (group !== undefined) this.groups.set(group, [...(this.groups.get(group) ?? []), name]);
    }
  }
}

/** `ctx.service.mcp` of contract 1: the tools of files and of MCP servers, and calls of both. */
export class McpService {
  readonly #ctx: RackContext;

  constructor(ctx: RackContext) {
    this.#ctx = ctx;
  }

  /** Does nothing: the rack is ready before any tool runs. */
  async ensureInitialized(): Promise<void> {}

  async initInternalTools(): Promise<Map<string, LoadedTool>> {
    return new InternalToolLoader(this.#ctx).loadAllTools();
  }

  getInternalTools(): LoadedTool[] {
    return [...new InternalToolLoader(this.#ctx).loadAllTools().values()];
  }

  /** The MCP servers that have tools on the rack. */
  async getInstalledServers() {
    const keys = new Set(this.#upstreamTools().map(({ serverKey }) => serverKey));
    return [...keys].map((key) => ({ key, status: "running", config: { enabled: true } }));
  }

  /** The tools of one MCP server. */
  async getTool(serverKey: string) {
    const own = this.#upstreamTools().filter((tool) => tool.serverKey === serverKey);
    return { tools: own.map(({ info }) => toDefinition(info)) };
  }

  async callInternalTool(name: string, args: unknown = {}): Promise<McpResult> {
    return toMcpResult(await this.#ctx.registry.execute(name, args));
  }

  /** Throws for a server or a tool that the rack does not have. */
  async callTool(serverKey: string, originalName: string, args: unknown = {}): Promise<McpResult> {
    const found = this.#upstreamTools().find(
      (tool) => tool.serverKey === serverKey && tool.originalName === originalName,
    );
    if (found === undefined) throw unknownTool(`mcp_${serverKey}_${originalName}`);
    return toMcpResult(await this.#ctx.registry.execute(found.info.name, args));
  }

  /** Calls a tool of either kind by its name on the rack. */
  async callToolUnified(name: string, args: unknown = {}): Promise<McpResult> {
    if (this.#ctx.registry.get(name) === undefined) throw unknownTool(name);
    return toMcpResult(await this.#ctx.registry.execute(name, args));
  }

  #upstreamTools() {
    return this.#ctx.registry.list().flatMap((info) => {
      const origin = originOf(info);
      return origin === undefined ? [] : [{ info, serverKey: origin.server, originalName: origin.tool }];
    });
  }
}

/** `ctx.service.tools` of contract 1. */
export class InternalToolsService {
  readonly #ctx: RackContext;
  readonly #mcp: McpService;

  constructor(ctx: RackContext) {
    this.#ctx = ctx;
    this.#mcp = new McpService(ctx);
  }

  /** All tools in the format of OpenAI. */
  async getTools(): Promise<ReturnType<typeof toOpenAITools>["tools"]> {
    return toOpenAITools(this.#ctx.registry.list()).tools;
  }

  /** Throws for a tool that the rack does not have. A tool that fails gives a result with `isError`. */
  runTools(name: string, args: unknown = {}): Promise<McpResult> {
    return this.#mcp.callToolUnified(name, args);
  }
}

function unknownTool(name: string): Error {
  return new Error(`未知的工具: ${name} (there is no such tool on the rack)`);
}

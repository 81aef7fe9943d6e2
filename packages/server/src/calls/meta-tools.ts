import {
  isToolError,
  Tool,
  ToolError,
  type ToolErrorResponse,
  type ToolInfo,
  ToolNotFoundError,
  type ToolRegistry,
  toDefinition,
} from "@toolrack/core";
import { isRecord } from "../helpers/index.ts";

export const searchToolName = "toolrack_search";
export const callToolName = "toolrack_call";

export function isMetaTool(name: string): boolean {
  return name === searchToolName || name === callToolName;
}

/** The tool that a call really is for: with `toolrack_call`, the tool that its arguments name. */
export function calledTool(
  registry: Pick<ToolRegistry, "get">,
  asked: { readonly name: string; readonly arguments?: unknown },
): ToolInfo | undefined {
  let info = registry.get(asked.name);
  let args = asked.arguments;
  while (info?.name === callToolName && isRecord(args) && typeof args.name === "string") {
    info = registry.get(args.name);
    args = args.arguments;
  }
  return info;
}

const USUAL_LIMIT = 10;
const MOST = 50;
/** How many similar tools are suggested for an unknown name. */
const NEAREST = 3;

/**
 * Two tools through which a client reaches all others, when it would get too many tools or its list is outdated. They
 * show and call only what their caller may use.
 */
export function metaTools(): ToolInfo[] {
  return [searchTool(), callTool()];
}

function searchTool(): ToolInfo {
  return Tool.define({
    name: searchToolName,
    title: "Search tools",
    description:
      "Finds tools on this rack by what they do or by their name, and answers with their names, descriptions and " +
      `parameter schemas. Call what it finds with ${callToolName}.`,
    parameters: {
      type: "object",
      properties: {
        query: { type: "string", minLength: 1, description: "What the tool should do, or its name." },
        limit: { type: "integer", minimum: 1, maximum: MOST, default: USUAL_LIMIT },
      },
      required: ["query"],
      additionalProperties: false,
    },
    metadata: { readOnly: true, idempotent: true, openWorld: false },
    execute: async ({ input, registry }) => {
      const { query, limit = USUAL_LIMIT } = input;
      const wanted = query.trim();
      const found = new Set([registry.get(wanted) ?? [], registry.search(wanted, limit + 2)].flat());
      const usable = [...found].filter(({ name, disabled }) => !isMetaTool(name) && disabled !== true);
      const definitions = usable.slice(0, limit).map((info) => toDefinition(info));
      return {
        tools: definitions.map(({ name, title, description, inputSchema: parameters }) => {
          return { name, title, description, parameters };
        }),
      };
    },
  });
}

function callTool(): ToolInfo {
  return Tool.define({
    name: callToolName,
    title: "Call a tool",
    description:
      `Calls any tool of this rack by its name, as ${searchToolName} shows it, with arguments that fit its ` +
      "parameters. Answers with that tool's own result.",
    parameters: {
      type: "object",
      properties: {
        name: { type: "string", minLength: 1, description: "The tool's name." },
        arguments: { type: "object", description: "The tool's arguments.", default: {} },
      },
      required: ["name"],
      additionalProperties: false,
    },
    // The called tool has a time limit of its own.
    metadata: { timeout: 0 },
    execute: async ({ input, call, registry }) => {
      const { name, arguments: args = {} } = input;
      // This `registry` has only the tools that the caller may use, so no others are suggested.
      if (registry.get(name) === undefined) {
        throw new ForwardedError(unknownTool(name, registry.search(name, NEAREST + 2)));
      }
      try {
        return await call(name, args);
      } catch (thrown) {
        throw isToolError(thrown) ? new ForwardedError(thrown) : thrown;
      }
    },
  });
}

/** The error of the called tool, reported exactly as that tool reports it. */
class ForwardedError extends ToolError {
  readonly #response: ToolErrorResponse;

  constructor(error: ToolError) {
    const { code, message, input, data, recoverable, cause } = error;
    super(code, message, { toolName: callToolName, input, data, recoverable, cause });
    this.#response = error.toResponse();
  }

  override toResponse(): ToolErrorResponse {
    return this.#response;
  }
}

/**
 * The message for an unknown tool. It names the search tool, because the caller's tool list may show little
 * more than the meta-tools.
 */
export function unknownToolText(name: string): string {
  const shown = name.length > 100 ? `${name.slice(0, 100)}…` : name;
  return `There is no tool named "${shown}" that you may use. ${searchToolName} finds those that there are.`;
}

function unknownTool(name: string, near: readonly ToolInfo[]): ToolNotFoundError {
  const names = near.map((info) => info.name).filter((found) => !isMetaTool(found));
  const suggestions = names.slice(0, NEAREST);
  const quoted = suggestions.map((found) => `"${found}"`).join(", ");
  const hint = quoted === "" ? "" : ` Among them are ${quoted}.`;
  return new ToolNotFoundError(`${unknownToolText(name)}${hint}`, { toolName: name, data: { suggestions } });
}

/**
 * The name prefixes of the rack's own tools and of the tools of MCP servers. Scopes of tokens rely on these
 * prefixes.
 */
const prefixes = ["internal_", "builtin_", "toolrack_", "mcp_"];

/**
 * Whether only the rack itself may give a tool this name. Skills are checked with it, because they may come
 * from anywhere.
 */
export function isReservedName(name: string): boolean {
  const lower = name.toLowerCase();
  return prefixes.some((prefix) => lower.startsWith(prefix));
}

/** Tells people why a name was refused. */
export const reservedNameReason = `It must not begin with ${prefixes.slice(0, -1).join(", ")} or ${prefixes.at(-1)}: such names are the rack's own.`;

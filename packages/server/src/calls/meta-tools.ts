import {
  isToolError,
  PermissionDeniedError,
  type RegistryView,
  Tool,
  ToolError,
  type ToolErrorResponse,
  type ToolInfo,
  ToolNotFoundError,
  type ToolRegistry,
} from "@toolrack/core";
import { type ToolDefinition, toDefinition } from "@toolrack/core/format";
import {
  definitionOf,
  firstSentence,
  mayBeCalledBy,
  tokenShare,
  toSignatures,
} from "@toolrack/core/internal";
import { type Config, originOf, toolMatcher } from "../config/index.ts";
import { isRecord } from "../helpers/index.ts";

export const searchToolName = "toolrack_search";
export const describeToolName = "toolrack_describe";
export const callToolName = "toolrack_call";
/** The tool that runs code over other tools. */
export const runToolName = "toolrack_run";
const metaToolNames: ReadonlySet<string> = new Set([
  searchToolName,
  describeToolName,
  callToolName,
  runToolName,
]);

export function isMetaTool(name: string): boolean {
  return metaToolNames.has(name);
}

/** The tool by which a model reads on in a long result. */
export const readResultName = "toolrack_read_result";

/** Whether a tool only helps a model to get at other tools and their results. Lists and counts of tools leave it out. */
export function isHelperTool(name: string): boolean {
  return isMetaTool(name) || name === readResultName;
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
 * The tools through which a client reaches all others, when it would get too many tools or its list is outdated. They
 * show and call only what their caller may use. `searches` is told what they have shown.
 */
export function metaTools(searches?: ShownSearches): ToolInfo[] {
  return [searchTool(searches), describeTool(), callTool()];
}

interface ShownSearches {
  noteShown(
    who: { readonly callId: string },
    query: string,
    tools: readonly ToolInfo[],
    sessionID?: string,
  ): void;
}

/** When a client is shown the meta-tools in place of most tools. */
export interface MetaToolSettings {
  /** `auto`: a caller who may use more tools than `threshold` is shown the meta-tools instead. */
  readonly mode: "auto" | "on" | "off";
  readonly threshold: number;
  /** Tools that are listed beside the meta-tools. */
  readonly isPinned: (tool: ToolInfo) => boolean;
}

const USUAL_THRESHOLD = 100;

export function metaToolSettings(config: Config["mcp"] = {}): MetaToolSettings {
  const { metaTools: mode = "auto", threshold = USUAL_THRESHOLD, alwaysListed } = config;
  return { mode, threshold, isPinned: toolMatcher(alwaysListed) };
}

/**
 * The tools that a caller is shown, of the enabled tools that it sees: all of them, or the meta-tools and the pinned ones.
 * `meta`: the meta-tools as they are on the rack, when they stand for the others.
 */
export function shownTools(
  enabled: readonly ToolInfo[],
  sees: (tool: ToolInfo) => boolean,
  { mode, threshold, isPinned }: MetaToolSettings,
): { readonly seen: ToolInfo[]; readonly shown: ToolInfo[]; readonly meta: ToolInfo[] | undefined } {
  const seen = enabled.filter((tool) => !isMetaTool(tool.name) && sees(tool));
  const isShortened = mode === "on" || (mode === "auto" && seen.length > threshold);
  const isMany = isShortened && seen.length > threshold;
  const meta = enabled.filter((tool) => isMetaTool(tool.name) && isOffered(tool, isShortened, isMany));
  const listed = seen.filter(
    (tool) => (!isShortened || isPinned(tool)) && mayBeCalledBy("model", tool.metadata),
  );
  return { seen, shown: [...metaToolsFor(meta, seen), ...listed], meta: isShortened ? meta : undefined };
}

/**
 * Whether a meta-tool is in a list of tools. `metadata.offered` says when the tool that runs code is: always, or where there
 * are many tools.
 */
export function isOffered({ name, metadata }: ToolInfo, isShortened: boolean, isMany = isShortened): boolean {
  if (name !== runToolName) return isShortened;
  return metadata.offered === "always" || (metadata.offered === "many" && isMany);
}

/** The meta-tools for a caller who sees these other tools: the search tool says which servers they come from. */
export function metaToolsFor(meta: readonly ToolInfo[], seen: readonly ToolInfo[]): ToolInfo[] {
  const lines = meta.some(({ name }) => name === searchToolName) ? serverLines(seen) : [];
  if (lines.length === 0) return [...meta];
  const servers = `The MCP servers behind it (what is in quotation marks are their own words):\n${lines.join("\n")}`;
  return meta.map((info) =>
    info.name === searchToolName ? { ...info, description: `${info.description}\n\n${servers}` } : info,
  );
}

/** How many characters the lines about servers may have together. */
const LONGEST_LINES = 2_000;
/** A server without a description of its own is described by the names of so many of its tools. */
const SAMPLE = 4;

/**
 * One line for each MCP server that the tools come from: its key and what it is for. How many tools it has is not said, so
 * that the text seldom changes.
 */
export function serverLines(tools: readonly ToolInfo[], isMeant = (_server: string) => true): string[] {
  const servers = [...Map.groupBy(tools, (tool) => originOf(tool)?.server)]
    .flatMap(([server, own]) => (server === undefined || !isMeant(server) ? [] : [{ server, own }]))
    .sort((one, other) => (one.server < other.server ? -1 : 1));
  let left = LONGEST_LINES;
  return servers.map(({ server, own }) => {
    const head = `- ${server}`;
    const names = own.slice(0, SAMPLE).map((tool) => firstSentence(originOf(tool)?.tool ?? "", 40));
    const { about } = own.map(originOf).find((origin) => origin?.about !== undefined) ?? {};
    const sample = own.length > SAMPLE ? [...names, "…"] : names;
    const line = `${head}: ${about === undefined ? sample.join(", ") : aboutText(about)}`;
    left -= line.length;
    // With very many servers, the last ones are only named.
    return left < 0 ? head : line;
  });
}

function aboutText({ text, isOwn }: { readonly text: string; readonly isOwn: boolean }): string {
  return isOwn ? text : `"${text.replaceAll('"', "'")}"`;
}

function searchTool(searches: ShownSearches | undefined): ToolInfo {
  return Tool.define({
    name: searchToolName,
    title: "Search tools",
    description:
      "Finds tools on this rack by what they do or by their name: one line for each, with its name, its arguments as a " +
      `TypeScript type and what it does. Where a line has a …, ${describeToolName} has the rest. Call what it finds ` +
      `with ${callToolName}.`,
    parameters: {
      type: "object",
      properties: {
        query: { type: "string", minLength: 1, description: "What the tool should do, or its name." },
        limit: {
          type: "integer",
          minimum: 1,
          maximum: MOST,
          default: USUAL_LIMIT,
          description: "How many at most.",
        },
      },
      required: ["query"],
      additionalProperties: false,
    },
    metadata: { readOnly: true, idempotent: true, openWorld: false },
    execute: async ({ input, registry, callId, sessionID }) => {
      const { query, limit = USUAL_LIMIT } = input;
      const wanted = query.trim();
      await registry.prepareSearch();
      const found = new Set([registry.get(wanted) ?? [], registry.search(wanted, limit + 3)].flat());
      const usable = [...found].filter(isUsable).slice(0, limit);
      searches?.noteShown({ callId }, wanted, usable, sessionID);
      return usable.length === 0 ? "No tool fits these words. Try others." : searchAnswer(usable, limit);
    },
  });
}

function isUsable({ name, disabled }: ToolInfo): boolean {
  return !isMetaTool(name) && disabled !== true;
}

/** Estimated tokens for each tool that may be found, so that ten stay below 600 of a real tokenizer. */
const TOKENS_PER_TOOL = 52;
const HERE = "this rack";

/**
 * The found tools as lines, best first, below the servers that they come from. Where they would cost more tokens than
 * `limit` tools may, the longest lines are shortened until they fit.
 */
export function searchAnswer(found: readonly ToolInfo[], limit: number): string {
  const lines = found.map((tool) => {
    const versions = signaturesOf(tool).map((text) => ({ text, tokens: tokenShare(text) }));
    return { server: originOf(tool)?.server ?? HERE, versions, at: 0 };
  });
  const groups = Map.groupBy(lines, ({ server }) => server);
  const costOf = ({ versions, at }: (typeof lines)[number]) => versions[at]?.tokens ?? 0;
  const heads = [...groups.keys()].map((server) => `// ${server}`);
  let total = tokenShare(heads.join("\n")) + lines.reduce((sum, line) => sum + costOf(line) + 1, 0);
  while (total > limit * TOKENS_PER_TOOL) {
    const [longest] = lines
      .filter(({ versions, at }) => at < versions.length - 1)
      .sort((one, other) => costOf(other) - costOf(one));
    if (longest === undefined) break;
    total -= costOf(longest);
    longest.at++;
    total += costOf(longest);
  }
  return [...groups]
    .flatMap(([server, own]) => [`// ${server}`, ...own.map(({ versions, at }) => versions[at]?.text)])
    .join("\n");
}

function signaturesOf(tool: ToolInfo): readonly string[] {
  return toSignatures(declaredTool(tool));
}

/** What the tool takes, as models and programs are told it. */
export function declaredTool(tool: ToolInfo): Omit<ToolDefinition, "metadata"> {
  const { name, description = "" } = tool;
  return definitionOf(tool) ?? { name, description, inputSchema: {} };
}

const MOST_DESCRIBED = 20;

function describeTool(): ToolInfo {
  return Tool.define({
    name: describeToolName,
    title: "Describe tools",
    description: `The whole descriptions and JSON Schemas of tools that ${searchToolName} found.`,
    parameters: {
      type: "object",
      properties: {
        names: {
          type: "array",
          items: { type: "string", minLength: 1 },
          minItems: 1,
          maxItems: MOST_DESCRIBED,
          description: "The tools' names.",
        },
      },
      required: ["names"],
      additionalProperties: false,
    },
    metadata: { readOnly: true, idempotent: true, openWorld: false },
    execute: async ({ input, registry }) => {
      const tools: object[] = [];
      const notFound: string[] = [];
      for (const wanted of new Set(input.names)) {
        const info = registry.get(wanted);
        if (info === undefined || !isUsable(info)) {
          notFound.push(wanted);
          continue;
        }
        const { name, title, description, inputSchema: parameters, outputSchema } = toDefinition(info);
        tools.push({ name, title, description, parameters, outputSchema });
      }
      const [first = ""] = notFound;
      if (tools.length === 0) throw new ForwardedError(await unknownTool(first, registry), describeToolName);
      return notFound.length === 0 ? { tools } : { tools, notFound };
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
      const info = registry.get(name);
      if (info === undefined) throw new ForwardedError(await unknownTool(name, registry));
      if (!mayBeCalledBy("model", info.metadata))
        throw new PermissionDeniedError(onlyForCode(name), { toolName: callToolName });
      try {
        return await call(name, args);
      } catch (thrown) {
        throw isToolError(thrown) ? new ForwardedError(thrown) : thrown;
      }
    },
  });
}

/** Tells a model how to use a tool whose author lets only code call it. */
export function onlyForCode(name: string): string {
  return `"${name}" can only be called by code, and was not called. Call it in the code of ${runToolName}.`;
}

/** The error of the tool that is meant, reported by a meta-tool exactly as that tool reports it. */
class ForwardedError extends ToolError {
  readonly #response: ToolErrorResponse;

  constructor(error: ToolError, toolName: string = callToolName) {
    const { code, message, input, data, recoverable, cause } = error;
    super(code, message, { toolName, input, data, recoverable, cause });
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

async function unknownTool(
  name: string,
  registry: Pick<RegistryView, "search" | "prepareSearch">,
): Promise<ToolNotFoundError> {
  await registry.prepareSearch();
  const near = registry.search(name, NEAREST + metaToolNames.size);
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

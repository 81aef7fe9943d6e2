import { serverLines } from "../../calls/index.ts";
import { originOf } from "../../config/index.ts";
import type { ServerInstructions } from "../connect/index.ts";
import { isLogLevel, modernVersion, notALevel, skillsExtension, tasksExtension } from "../wire/index.ts";
import { paramError } from "./answers.ts";
import type { Caller } from "./caller.ts";
import type { McpServing } from "./mcp-services.ts";
import type { ClientRequest } from "./session.ts";

const capabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  completions: {},
  logging: {},
  extensions: { [skillsExtension]: { directoryRead: true } },
};

/** Answers `initialize`, with which a client of the legacy era begins. */
export function initialize(serving: McpServing, { peer, params, caller }: ClientRequest): object {
  peer.session?.initialize(params);
  return {
    protocolVersion: peer.version,
    capabilities,
    serverInfo: serving.serverInfo,
    ...instructionsFor(serving, caller),
  };
}

/** Answers `server/discover`, by which a client of the modern era learns what the rack can do. */
export function discover(serving: McpServing, { caller }: ClientRequest): object {
  const extensions = { ...capabilities.extensions, [tasksExtension]: {} };
  return {
    supportedVersions: [modernVersion],
    capabilities: { ...capabilities, extensions },
    ...instructionsFor(serving, caller),
  };
}

const shortened =
  "There are more tools than are listed: toolrack_search finds them, toolrack_describe has their whole schemas, and " +
  "toolrack_call calls them.";

/** The text for a client's model: of its expert, about a shortened list, and of the MCP servers behind the rack. */
function instructionsFor(
  { lists, instructionsOf }: Pick<McpServing, "lists" | "instructionsOf">,
  caller: Caller,
): { readonly instructions?: string } {
  const { seen, isShortened } = lists.of(caller);
  // Only of servers of which the caller may use a tool.
  const keys = [...new Set(seen.flatMap((tool) => originOf(tool)?.server ?? []))].sort();
  const said = new Map(keys.map((key) => [key, instructionsOf(key)]));
  const others = isShortened ? serverLines(seen, (key) => said.get(key) === undefined) : [];
  const texts = [
    ...(caller.expert?.instructions === undefined ? [] : [caller.expert.instructions]),
    ...(isShortened ? [[shortened, ...others].join("\n")] : []),
    ...wordsOf(said),
  ];
  return texts.length === 0 ? {} : { instructions: texts.join("\n\n") };
}

/** How many characters the instructions of all MCP servers may have together, and how few of one make sense. */
const LONGEST = 8_000;
const SHORTEST = 200;

/**
 * One paragraph for each server. A server's own words are quoted line by line, so that they cannot be taken for those of the
 * rack, and are cut where there are many servers.
 */
function wordsOf(said: ReadonlyMap<string, ServerInstructions | undefined>): string[] {
  const talking = [...said].filter(([, instructions]) => instructions !== undefined).length;
  const share = Math.max(SHORTEST, Math.floor(LONGEST / talking));
  let left = LONGEST;
  const paragraphs: string[] = [];
  for (const [key, instructions] of said) {
    if (instructions === undefined || left < SHORTEST) continue;
    const { text, isOwn } = instructions;
    const kept = text.length > share ? `${text.slice(0, share).trimEnd()}…` : text;
    left -= kept.length;
    if (isOwn) paragraphs.push(`About the tools of the MCP server "${key}":\n${kept}`);
    else {
      const lines = kept.split(/\r\n|[\n\r\u2028\u2029]/).map((line) => `> ${line}`);
      paragraphs.push(
        `The MCP server "${key}" says this of its tools, in its own words:\n${lines.join("\n")}`,
      );
    }
  }
  return paragraphs;
}

/** Sets the lowest level of messages that a client of the legacy era receives with all its requests. */
export function setLevel(_: McpServing, { params: { level }, peer }: ClientRequest): object {
  if (!isLogLevel(level)) throw paramError("logging/setLevel", "level", notALevel);
  if (peer.session !== undefined) peer.session.logLevel = level;
  return {};
}

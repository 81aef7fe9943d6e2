import { isLogLevel, modernVersion, notALevel, skillsExtension, tasksExtension } from "../wire/index.ts";
import { paramError } from "./answers.ts";
import type { Caller } from "./caller.ts";
import type { McpServing } from "./mcp-services.ts";
import type { ClientRequest } from "./session.ts";

type Result = Readonly<Record<string, unknown>>;

const capabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  completions: {},
  logging: {},
  extensions: { [skillsExtension]: { directoryRead: true } },
};

/** Answers `initialize`, with which a client of the legacy era begins. */
export function initialize(serving: McpServing, { peer, params, caller }: ClientRequest): Result {
  peer.session?.initialize(params);
  return {
    protocolVersion: peer.version,
    capabilities,
    serverInfo: serving.serverInfo,
    ...instructionsFor(serving, caller),
  };
}

/** Answers `server/discover`, by which a client of the modern era learns what the rack can do. */
export function discover(serving: McpServing, { caller }: ClientRequest): Result {
  const extensions = { ...capabilities.extensions, [tasksExtension]: {} };
  return {
    supportedVersions: [modernVersion],
    capabilities: { ...capabilities, extensions },
    ...instructionsFor(serving, caller),
  };
}

function instructionsFor({ lists }: McpServing, caller: Caller): { readonly instructions?: string } {
  const own = caller.expert?.instructions;
  const meta = lists.of(caller).isShortened
    ? "There are more tools than are listed: toolrack_search finds them and toolrack_call calls them."
    : undefined;
  const instructions = [own, meta].filter((text) => text !== undefined).join("\n\n");
  return instructions === "" ? {} : { instructions };
}

/** Sets the lowest level of messages that a client of the legacy era receives with all its requests. */
export function setLevel(_: McpServing, { params: { level }, peer }: ClientRequest): Result {
  if (!isLogLevel(level)) throw paramError("logging/setLevel", "level", notALevel);
  if (peer.session !== undefined) peer.session.logLevel = level;
  return {};
}

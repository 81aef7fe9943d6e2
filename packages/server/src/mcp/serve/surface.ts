import { type Grant, masterGrant } from "../../access/index.ts";
import { metaTools } from "../../calls/index.ts";
import { type Config, toolMatcher } from "../../config/index.ts";
import { productVersion } from "../../helpers/index.ts";
import type { Mount } from "../../http/wire/index.ts";
import { modernCodec } from "../wire/index.ts";
import { letClientsApprove } from "./approvals.ts";
import { Caller } from "./caller.ts";
import { ChangePublisher, ExpertWatch } from "./changes.ts";
import { ConnectedClients } from "./clients.ts";
import { HeldDialogs } from "./held-dialogs.ts";
import { type McpMountOptions, mcpMount, resourceMetadataMount } from "./http.ts";
import { ToolLists } from "./lists.ts";
import type { McpServing, ServedRooms } from "./serving.ts";
import { StdioConnection, type StdioStreams } from "./stdio.ts";
import { Tasks } from "./tasks.ts";

/** The rack as MCP clients reach it, by whichever transport. */
export interface McpSurface {
  readonly serving: McpServing;
  /** For the HTTP server. */
  mounts(options?: McpMountOptions): Mount[];
  /** Serves the process that started us, as the operator or as one of its experts. Rejects when there is none such. */
  stdio(streams: StdioStreams, expert?: string): Promise<StdioConnection>;
  close(): void;
}

/** Whoever can start a process in the workspace is its operator. */
const operator: Grant = { ...masterGrant, caller: "mcp" };

const USUAL_THRESHOLD = 100;

/** Opens the rack to MCP clients. The meta-tools are hung on the rack, unless they are off. */
export function createMcpSurface({
  config,
  ...rooms
}: ServedRooms & { readonly config: NonNullable<Config["mcp"]> }): McpSurface {
  const {
    metaTools: mode = "auto",
    threshold = USUAL_THRESHOLD,
    alwaysListed,
    approvals = "client",
  } = config;
  const lists = new ToolLists(rooms.registry, { mode, threshold, isPinned: toolMatcher(alwaysListed) });
  const serverInfo = { name: "toolrack", title: "Toolrack", version: productVersion() };
  const serving: McpServing = {
    ...rooms,
    // Whether the client of a grant is asked at all is decided here; whether it may answer, the grant says.
    approverOf: ({ grant }) =>
      approvals === "client" || (approvals === "stdio" && grant === operator) ? grant : undefined,
    serverInfo,
    modern: modernCodec(serverInfo),
    lists,
    held: new HeldDialogs(),
    tasks: new Tasks({ ...rooms, lists }),
    clients: new ConnectedClients(rooms.registry),
    changes: new ChangePublisher({ ...rooms, lists }),
    expertWatch: new ExpertWatch(rooms),
  };
  if (mode !== "off") rooms.registry.apply({ put: metaTools() });
  const stopApproving = letClientsApprove(rooms.approvals, rooms.logger);
  return {
    serving,
    mounts: (options) => [mcpMount(serving, options), resourceMetadataMount()],
    async stdio(streams, name) {
      const expert = name === undefined ? undefined : serving.experts?.(name);
      if (name !== undefined && expert === undefined)
        throw new Error(`There is no expert "${name}". See: toolrack experts list`);
      return new StdioConnection(serving, new Caller(operator, expert), streams);
    },
    close() {
      stopApproving();
      serving.held.close();
      serving.tasks.close();
      serving.changes.stop();
      serving.expertWatch.close();
    },
  };
}

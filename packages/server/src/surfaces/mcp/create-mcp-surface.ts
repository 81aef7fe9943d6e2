import { type Grant, masterGrant } from "../../auth/grant.ts";
import { toolMatcher } from "../../auth/tool-matcher.ts";
import type { Config } from "../../config/config.ts";
import { metaTools } from "../../meta-tools/meta-tools.ts";
import type { Mount } from "../http/mount.ts";
import { answersFirst } from "./answers-first.ts";
import { letClientsApprove } from "./client-approvals.ts";
import { ConnectedClients } from "./connected-clients.ts";
import { ExpertWatch } from "./expert-watch.ts";
import { HeldExchanges } from "./held-exchanges.ts";
import { type McpMountOptions, mcpMount } from "./http/mcp-mount.ts";
import { resourceMetadataMount } from "./http/resource-metadata.ts";
import type { McpParts } from "./mcp-parts.ts";
import { productVersion } from "./product-version.ts";
import { type StdioConnection, serveMcpStdio } from "./stdio/serve-mcp-stdio.ts";
import type { StdioStreams } from "./stdio/stdio-transport.ts";
import { TaskDesk } from "./tasks/task-desk.ts";
import { ToolLists } from "./tool-lists.ts";
import { Viewer } from "./viewer.ts";

type OwnParts = "lists" | "held" | "tasks" | "clients" | "expertWatch" | "serverInfo";

export type McpSurfaceParts = Omit<McpParts, OwnParts> & {
  readonly config: NonNullable<Config["mcp"]>;
};

/** What the transports share. */
export interface McpSurface {
  readonly parts: McpParts;
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
export function createMcpSurface({ config, ...given }: McpSurfaceParts): McpSurface {
  const { metaTools: mode = "auto", threshold = USUAL_THRESHOLD, alwaysListed } = config;
  const isPinned = toolMatcher(alwaysListed);
  const lists = new ToolLists(given.registry, { mode, threshold, isPinned });
  const parts: McpParts = {
    ...given,
    serverInfo: { name: "toolrack", title: "Toolrack", version: productVersion() },
    lists,
    held: new HeldExchanges(),
    tasks: new TaskDesk({ ...given, lists }),
    clients: new ConnectedClients(given.registry),
    expertWatch: new ExpertWatch(given),
  };
  if (mode !== "off") given.registry.apply({ put: metaTools() });
  const stop = config.approvals === "inbox" ? () => {} : letClientsApprove(given.approvals, given.logger);
  return {
    parts,
    mounts: (options) => [answersFirst(mcpMount(parts, options)), resourceMetadataMount()],
    async stdio(streams, name) {
      const expert = name === undefined ? undefined : parts.experts?.(name);
      if (name !== undefined && expert === undefined)
        throw new Error(`There is no expert "${name}". See: toolrack experts list`);
      return serveMcpStdio(parts, new Viewer(operator, expert), streams);
    },
    close() {
      stop();
      parts.held.close();
      parts.tasks.close();
      parts.expertWatch.close();
    },
  };
}

import type { Grant } from "../../access/index.ts";
import { metaToolSettings, metaTools } from "../../calls/index.ts";
import type { Config } from "../../config/index.ts";
import { productVersion } from "../../helpers/index.ts";
import type { Mount } from "../../http/wire/index.ts";
import { modernCodec } from "./answers.ts";
import { letClientsApprove } from "./approvals.ts";
import { Caller, ConnectedClients, operator } from "./caller.ts";
import { ChangePublisher, ExpertWatch } from "./change-publisher.ts";
import { McpMount, resourceMetadataMount } from "./http.ts";
import type { McpServing, RackServices } from "./mcp-services.ts";
import { JoinedClients, StdioConnection, type StdioStreams } from "./stdio.ts";
import { Tasks } from "./tasks.ts";
import { ToolLists } from "./tool-lists.ts";
import { WaitingDialogs } from "./waiting-dialogs.ts";

/** The rack as MCP clients reach it, over HTTP and stdio. */
export interface McpSurface {
  readonly serving: McpServing;
  /** The mounts for the HTTP server: `/mcp`, and the metadata that says how it is protected. */
  mounts(): Mount[];
  /**
   * Serves one MCP client over these streams, with all tools or those of one expert. Rejects when there is no such
   * expert.
   */
  stdio(streams: StdioStreams, expert?: string): Promise<StdioConnection>;
  /** Also ends the connections of joined clients, after a moment for what they still wait for. */
  close(): Promise<void>;
}

/** Serves the rack to MCP clients. Adds the meta-tools to the registry, unless they are off. */
export function createMcpSurface({
  config,
  ...services
}: RackServices & { readonly config: NonNullable<Config["mcp"]> }): McpSurface {
  const { approvals = "client" } = config;
  const meta = metaToolSettings(config);
  const lists = new ToolLists(services.registry, meta);
  const serverInfo = { name: "toolrack", title: "Toolrack", version: productVersion() };
  const serving: McpServing = {
    ...services,
    serverInfo,
    modern: modernCodec(serverInfo),
    lists,
    waitingDialogs: new WaitingDialogs(services.node),
    tasks: new Tasks({ ...services, lists }),
    clients: new ConnectedClients(services.registry),
    changes: new ChangePublisher({ ...services, lists }),
    expertWatch: new ExpertWatch(services),
  };
  if (meta.mode !== "off") services.registry.apply({ put: metaTools(services.service.searches) });
  // The config decides whether a client is asked for approvals at all; the client's grant decides whether it
  // may answer.
  const mayAsk = (grant: Grant) => approvals === "client" || (approvals === "stdio" && grant === operator);
  const stopApproving = letClientsApprove(services, mayAsk);
  const joined = new JoinedClients(serving);
  return {
    serving,
    mounts: () => [new McpMount(serving, joined), resourceMetadataMount()],
    async stdio(streams, name) {
      const expert = name === undefined ? undefined : serving.experts(name);
      if (name !== undefined && expert === undefined)
        throw new Error(`There is no expert "${name}". See: toolrack experts list`);
      return new StdioConnection(serving, new Caller(operator, expert), streams);
    },
    async close() {
      await joined.close();
      stopApproving();
      serving.waitingDialogs.close();
      serving.tasks.close();
      serving.changes.stop();
      serving.expertWatch.close();
    },
  };
}

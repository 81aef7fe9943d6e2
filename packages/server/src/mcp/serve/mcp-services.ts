import type { Logger, ToolRegistry } from "@toolrack/core";
import type { ApprovalInbox, CallRecorder, CallService, Offerings } from "../../calls/index.ts";
import type { Forwarder } from "../../http/wire/index.ts";
import type { Store } from "../../store/index.ts";
import type { ServerInstructions } from "../connect/index.ts";
import type { EraCodec } from "./answers.ts";
import type { ConnectedClients } from "./caller.ts";
import type { ChangePublisher, ExpertSource, ExpertWatch } from "./change-publisher.ts";
import type { Tasks } from "./tasks.ts";
import type { Greet, ToolLists } from "./tool-lists.ts";
import type { WaitingDialogs } from "./waiting-dialogs.ts";

/** The parts of the rack that the MCP surface uses. */
export interface RackServices extends ExpertSource {
  readonly registry: ToolRegistry;
  readonly service: CallService;
  readonly recorder: CallRecorder;
  readonly store: Pick<Store, "calls" | "tokens" | "follower">;
  readonly approvals: ApprovalInbox;
  /** The ids of this rack and of the racks that it is connected to. */
  readonly racks: () => readonly string[];
  readonly greet: Greet;
  /** What clients are told about an MCP server behind the rack. */
  readonly instructionsOf: (server: string) => ServerInstructions | undefined;
  readonly offerings: Offerings;
  /**
   * Resolves when all that lists are made of has been read once, or has taken too long. Undefined from then on.
   */
  readonly starting: () => Promise<void> | undefined;
  /** The id of this node, where others share its database. Ids of sessions and of questions begin with it. */
  readonly node?: string | undefined;
  /** Sends requests on to the nodes that they belong to. */
  readonly forwarder?: Forwarder | undefined;
  readonly logger: Logger;
}

/** Everything that the handlers of MCP requests use. */
export interface McpServing extends RackServices {
  readonly serverInfo: { readonly name: string; readonly title: string; readonly version: string };
  readonly modern: EraCodec;
  readonly lists: ToolLists;
  readonly waitingDialogs: WaitingDialogs;
  readonly tasks: Tasks;
  readonly clients: ConnectedClients;
  readonly changes: ChangePublisher;
  readonly expertWatch: ExpertWatch;
}

import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import type { ApprovalInbox, CallRecorder, CallService, Offerings } from "../../calls/index.ts";
import type { Store } from "../../store/index.ts";
import type { EraCodec } from "../wire/index.ts";
import type { Caller } from "./caller.ts";
import type { ChangePublisher, ExpertSource, ExpertWatch } from "./changes.ts";
import type { ConnectedClients } from "./clients.ts";
import type { HeldDialogs } from "./held-dialogs.ts";
import type { ToolLists } from "./lists.ts";
import type { Tasks } from "./tasks.ts";

/** The rooms of the rack that MCP clients reach. */
export interface ServedRooms extends ExpertSource {
  readonly registry: ToolRegistry;
  readonly service: CallService;
  readonly recorder: CallRecorder;
  readonly store: Pick<Store, "calls" | "tokens" | "follower">;
  readonly approvals: ApprovalInbox;
  /** The id of this rack, and those of the racks that it leads to. */
  readonly racks: () => readonly string[];
  readonly offerings: Offerings;
  readonly logger: Logger;
}

/** What every handler works with. */
export interface McpServing extends ServedRooms {
  /** With whose rights a caller answers whether calls may run; undefined where the inbox alone is asked. */
  readonly approverOf: (caller: Caller) => Grant | undefined;
  readonly serverInfo: { readonly name: string; readonly title: string; readonly version: string };
  readonly modern: EraCodec;
  readonly lists: ToolLists;
  readonly held: HeldDialogs;
  readonly tasks: Tasks;
  readonly clients: ConnectedClients;
  readonly changes: ChangePublisher;
  readonly expertWatch: ExpertWatch;
}

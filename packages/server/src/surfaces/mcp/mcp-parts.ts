import type { Logger, ToolRegistry } from "@toolrack/core";
import type { ApprovalInbox } from "../../approvals/approval-inbox.ts";
import type { CallDesk } from "../../calls/call-desk.ts";
import type { CallRecorder } from "../../calls/call-recorder.ts";
import type { Offerings } from "../../offerings/offerings.ts";
import type { Store } from "../../store/store.ts";
import type { ConnectedClients } from "./connected-clients.ts";
import type { ExpertWatch, ExpertWatchParts } from "./expert-watch.ts";
import type { HeldExchanges } from "./held-exchanges.ts";
import type { TaskDesk } from "./tasks/task-desk.ts";
import type { ToolLists } from "./tool-lists.ts";

/** What the MCP surface works with. */
export interface McpParts extends ExpertWatchParts {
  readonly registry: ToolRegistry;
  readonly desk: CallDesk;
  readonly recorder: CallRecorder;
  readonly store: Pick<Store, "calls" | "tokens">;
  readonly approvals: ApprovalInbox;
  readonly offerings: Offerings;
  readonly lists: ToolLists;
  readonly held: HeldExchanges;
  readonly tasks: TaskDesk;
  readonly clients: ConnectedClients;
  readonly expertWatch: ExpertWatch;
  readonly logger: Logger;
  readonly serverInfo: { readonly name: string; readonly title: string; readonly version: string };
}

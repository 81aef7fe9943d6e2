import type { Logger, ToolRegistry } from "@toolrack/core";
import type { ApprovalInbox } from "../../approvals/approval-inbox.ts";
import type { CallDesk } from "../../calls/call-desk.ts";
import type { CallRecorder } from "../../calls/call-recorder.ts";
import type { Store } from "../../store/store.ts";
import type { ChatConfig } from "./model/chat-config.ts";
import type { Providers } from "./model/providers.ts";
import type { StreamOptions } from "./model/stream-completion.ts";
import type { ChatExpert } from "./tools/reach.ts";

/** What conversations work with. */
export interface ChatParts {
  readonly registry: ToolRegistry;
  readonly desk: CallDesk;
  readonly recorder: Pick<CallRecorder, "flush">;
  readonly store: Pick<Store, "chat" | "calls" | "tokens">;
  readonly approvals: ApprovalInbox;
  readonly providers: Providers;
  readonly config: ChatConfig;
  /** Without it there are no experts. */
  readonly experts?: (nameOrId: string) => ChatExpert | undefined;
  readonly logger: Logger;
  /** How a provider that failed is asked again. */
  readonly retry?: Pick<StreamOptions, "retries" | "backoff">;
}

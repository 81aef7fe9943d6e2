import type { Logger, ToolRegistry } from "@toolrack/core";
import type { ApprovalInbox } from "../../approvals/approval-inbox.ts";
import type { Authenticator } from "../../auth/authenticator.ts";
import type { CallDesk } from "../../calls/call-desk.ts";
import type { CallRecorder } from "../../calls/call-recorder.ts";
import type { App, McpServers } from "../../index.ts";
import type { Secrets } from "../../secrets/open-secrets.ts";
import type { SkillLibrary } from "../../skills/skill-library.ts";
import type { Store } from "../../store/store.ts";
import type { ToolSwitches } from "../../switches/tool-switches.ts";
import type { ChatService } from "../chat/chat-service.ts";
import type { ConnectedClients } from "../mcp/connected-clients.ts";
import type { EventFeed } from "./events/event-feed.ts";
import type { ReloadLog } from "./events/reload-log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import type { HttpSettings } from "./settings.ts";

/** What the routes work with. */
export interface HttpParts {
  readonly workspace: Pick<App["workspace"], "directory">;
  readonly config: Pick<App["config"], "retention">;
  readonly registry: ToolRegistry;
  readonly files: Pick<App["files"], "load" | "report">;
  /** Where sandboxed tools run. */
  readonly sandbox: App["sandbox"];
  readonly store: Store;
  readonly skills: SkillLibrary;
  readonly approvals: ApprovalInbox;
  readonly switches: ToolSwitches;
  readonly secrets: Secrets;
  readonly reloads: ReloadLog;
  /** The MCP clients; undefined where none are served. */
  readonly clients: Pick<ConnectedClients, "list" | "subscribe"> | undefined;
  /** The words that start the program again, from any folder; undefined where the server is a part of another program. */
  readonly program: readonly string[] | undefined;
  /** The upstream MCP servers; undefined where none are kept. */
  readonly mcpServers: McpServers | undefined;
  /** Conversations with models; undefined where there are none. */
  readonly chat: ChatService | undefined;
  readonly authenticator: Authenticator;
  readonly desk: CallDesk;
  readonly feed: EventFeed;
  readonly metrics: Metrics;
  readonly limiter: RateLimiter | undefined;
  readonly settings: HttpSettings;
  readonly logger: Logger;
  readonly recorder: CallRecorder;
  /** Shows to who has the workspace's token that this is its server; see `serverProof`. */
  readonly prove: (port: number, nonce: string) => string;
  /** True once the server was told to stop. */
  readonly stopping: () => boolean;
}

import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Grant } from "../access/index.ts";
import type { ApprovalInbox, CallService } from "../calls/index.ts";
import type { Config } from "../config/index.ts";
import type { Expert } from "../skills/index.ts";
import type { Store } from "../store/index.ts";
import { ChatError } from "./errors.ts";
import type { Providers } from "./providers.ts";

export interface ChatServices {
  readonly registry: ToolRegistry;
  readonly service: CallService;
  readonly store: Pick<Store, "chat" | "calls" | "loopReleases" | "tokens" | "follower" | "usage">;
  readonly approvals: ApprovalInbox;
  readonly providers: Providers;
  readonly config: ChatConfig;
  /** Not given: there are no experts. */
  readonly experts?: (nameOrId: string) => Expert | undefined;
  readonly logger: Logger;
}

type ChatConfig = NonNullable<Config["chat"]>;

/** The limits of a turn, unless the config sets others. */
export const usualLimits = {
  /** Requests to the model. */
  maxRounds: 50,
  /** Working time, without the time in which a turn waits for people. */
  maxSeconds: 900,
  /** Tokens of all requests. */
  maxTokens: 2_000_000,
  /** Characters of one answer: text, reasoning and arguments together. No model of today writes as much. */
  maxAnswer: 4_000_000,
};

export type TurnLimits = Readonly<typeof usualLimits>;

/** Models cost money, so chat needs a permission of its own. Throws `ChatError`. */
export function requireChatGrant({ mayChat }: Pick<Grant, "mayChat">): void {
  if (mayChat) return;
  throw new ChatError(
    "chat_forbidden",
    "This token may not talk to models. An admin can make one that may: toolrack tokens create NAME --chat.",
  );
}

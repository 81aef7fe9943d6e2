import type { RegistrySnapshot } from "../registry/snapshot.ts";
import type { CallClient } from "../tool/client.ts";
import type { Logger } from "../tool/context.ts";
import type { ToolInfo } from "../tool/info.ts";
import type { ToolState } from "./state.ts";

/** What a caller says about a call. Everything is optional. */
export interface CallOptions {
  /** Must be new; made when not given. */
  readonly callId?: string;
  /** Calls of one session share history and loop detection. Without one, loop detection is off. */
  readonly sessionID?: string;
  /** Whose session it is, where callers choose the names of sessions: those of two owners share nothing. */
  readonly sessionOwner?: string;
  /** The model turn that makes the call; identical calls of one turn count once for loop detection. */
  readonly messageID?: string;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
  readonly caller?: string;
  /** What the caller holds. Without it, the registry's own default applies. */
  readonly permissions?: readonly string[];
  /**
   * Which tools the caller may reach at all. It holds for the whole chain: what a tool calls in turn must be allowed
   * too, unless that tool says in `metadata.calls` that it calls it for whoever may use it.
   */
  readonly allow?: (tool: ToolInfo) => boolean;
  /**
   * Asked when the call, or one that it makes, has waited for a person to agree, with the id of this one: a sentence that
   * says why the caller may have nothing run any more, such as that its token was taken back. May reject: then it does not
   * run.
   */
  readonly withdrawn?: (callId: string) => Promise<string | undefined>;
  /** The caller, when it can be asked something while the call runs. */
  readonly client?: CallClient;
  /** Shortens the tool's own time limit, in milliseconds. */
  readonly timeout?: number;
  /** The list the caller was shown: its names decide which tool is meant. */
  readonly snapshot?: RegistrySnapshot;
  readonly env?: Readonly<Record<string, string>>;
  readonly logger?: Logger;
  /** Is told of every change of the call's state. */
  readonly metadata?: (state: ToolState) => void;
  /** A task that the call belongs to, for logs. */
  readonly tid?: string;
  readonly agent?: string;
  readonly directory?: string;
  readonly worktree?: string;
  readonly messages?: readonly unknown[];
  readonly extra?: Readonly<Record<string, unknown>>;
}

import type { ProgressUpdate, RackEvent, ToolState } from "@toolrack/core";
import type { StoredApproval } from "../../../store/approvals/approval-store.ts";
import type { ModelUsage } from "../model/completion-chunk.ts";

type LoopVerdict = Extract<RackEvent, { type: "loop" }>["verdict"];

/** What is left of a question when somebody is shown it in a conversation. */
export type ShownApproval = Pick<
  StoredApproval,
  "id" | "callId" | "toolName" | "displayName" | "input" | "message" | "state" | "expiresAt" | "reason"
>;

/** Why a turn ended. */
export type TurnEnd = {
  /**
   * `stop`: the model had said all. `client_tools`: the client is to run calls. `length`, `content_filter`: the provider
   * cut it. `limit`: a limit of the rack. `loop`: it went in circles. `stopped`: a person stopped it. `interrupted`: the
   * server ended. `error`: the model did not answer.
   */
  readonly reason:
    | "stop"
    | "client_tools"
    | "length"
    | "content_filter"
    | "limit"
    | "loop"
    | "stopped"
    | "interrupted"
    | "error";
  /** For a person, when the reason alone does not say it. */
  readonly message?: string;
  /** Of an error. */
  readonly code?: string;
  /** Of an error: seconds after which asking again makes sense. */
  readonly retryAfter?: number;
  /** Of an error: what the provider said of it in its own terms, such as its `code`. */
  readonly details?: Readonly<Record<string, unknown>>;
};

/** What happens in a turn, in its order. */
export type TurnEvent =
  | {
      /** First, of a turn of a session. */
      readonly type: "turn";
      readonly sessionId: string;
      readonly messageId: string;
      /** The message that is answered, unless the turn is taken up again. */
      readonly userMessageId?: string;
    }
  | {
      readonly type: "text" | "reasoning" | "refusal";
      readonly text: string;
      /** Of a text, where the client asked the provider for them. */
      readonly logprobs?: unknown;
    }
  | {
      readonly type: "call";
      readonly id: string;
      readonly callId: string;
      readonly name: string;
      readonly displayName: string;
      readonly arguments: string;
      readonly client?: true;
    }
  | { readonly type: "state"; readonly callId: string; readonly name: string; readonly state: ToolState }
  | { readonly type: "progress"; readonly callId: string; readonly update: ProgressUpdate }
  | { readonly type: "approval"; readonly approval: ShownApproval }
  | { readonly type: "loop"; readonly callId: string; readonly verdict: LoopVerdict }
  | { readonly type: "retry"; readonly attempt: number; readonly waitMs: number; readonly reason: string }
  | { readonly type: "compacted"; readonly ids: readonly string[] }
  | { readonly type: "usage"; readonly round: number; readonly usage: ModelUsage; readonly total: ModelUsage }
  | {
      /** Last. */
      readonly type: "end";
      readonly end: TurnEnd;
      /** Of a turn of a session. */
      readonly sessionId?: string;
      readonly messageId?: string;
      readonly usage?: ModelUsage | undefined;
    };

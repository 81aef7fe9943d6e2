import type { ToolInfo } from "../tool/info.ts";

/** What a person, or a policy, is asked. */
export interface ApprovalRequest {
  readonly callId: string;
  readonly parentCallId?: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** The question: the tool's own `confirm` text, or one made for it. */
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly dangerous: boolean;
  /** `before`: whether the call may run at all. `during`: something that the tool asks while it runs. */
  readonly stage: "before" | "during";
  readonly sessionID: string;
  readonly caller: string;
  /** Milliseconds since the epoch; no answer by then is a denial. */
  readonly expiresAt: number;
}

export type ApprovalDecision =
  | {
      readonly decision: "allow";
      /** Run with these arguments instead; they are validated like any others. Too late for a question `during` a run. */
      readonly arguments?: Readonly<Record<string, unknown>>;
      readonly reason?: string;
    }
  | { readonly decision: "deny"; readonly reason?: string };

export type ApprovalVerdict = "allow" | "deny" | "ask" | ApprovalDecision;

/**
 * How consent is obtained; the host supplies it. Both functions may throw or reject: that counts as a denial,
 * and the error's message as the reason.
 */
export interface ApprovalPolicy {
  /**
   * Called for every call that reached this stage, and for every question that a tool asks `during` its run. Without
   * it: dangerous tools and questions `ask`, all others `allow`. `tool` is the one that the call runs, also where another
   * has its name by now.
   */
  decide?(request: ApprovalRequest, tool: ToolInfo): ApprovalVerdict | Promise<ApprovalVerdict>;
  /** Called when the verdict is `ask`. The signal aborts when the call ends before an answer came. */
  ask?(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision>;
  /** How long an answer may take, in milliseconds. Default: 5 minutes. */
  readonly timeout?: number | undefined;
}

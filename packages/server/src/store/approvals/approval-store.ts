import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import type { Page } from "../store.ts";

/** A question that was put to a person, and the answer. */
export interface StoredApproval extends ApprovalRequest {
  readonly id: string;
  readonly state: "pending" | "allowed" | "denied" | "expired";
  readonly createdAt: number;
  readonly decidedAt?: number;
  readonly decidedBy?: string;
  readonly reason?: string;
  /** The arguments as the person who agreed changed them. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** For which calls to come the answer counts as well. */
  readonly rule?: AnsweredFor;
}

export type AnsweredFor = Pick<ApprovalRule, "tool" | "input" | "exact" | "sessionID">;

/** An answer for calls to come. */
export interface ApprovalRule {
  readonly id: string;
  /** A pattern of tools, as the scopes of tokens have them. */
  readonly tool: string;
  readonly decision: "allow" | "ask" | "deny";
  /** Only for calls with these arguments. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** With `input`: only for calls that have no other arguments beside these. */
  readonly exact?: boolean;
  /** Only for calls of this session. */
  readonly sessionID?: string;
  /** Only for calls of this caller. */
  readonly caller?: string;
  readonly createdBy: string;
  readonly createdAt: number;
}

export interface ApprovalQuery {
  readonly state?: StoredApproval["state"];
  /** Only those of calls in this session. */
  readonly session?: string;
  /** At most 500; default 50. Newest first. */
  readonly limit?: number;
  readonly cursor?: string;
}

export interface ApprovalStore {
  /**
   * Resolves when the question is safely written. `isResumable`: the call can be made anew if its process ends before
   * anybody answered, so the question stays open then.
   */
  add(id: string, request: ApprovalRequest, isResumable?: boolean): Promise<StoredApproval>;
  get(id: string): Promise<StoredApproval | undefined>;
  /** Throws `InvalidCursorError`. */
  list(query: ApprovalQuery): Promise<Page<StoredApproval>>;
  /**
   * The first answer counts, whoever gives it and on whichever node; `isAccepted` is false for any later one, and for
   * one that comes too late. Undefined when there is no such question.
   */
  decide(
    id: string,
    decision: ApprovalDecision,
    decidedBy: string,
    rule?: AnsweredFor,
  ): Promise<{ readonly isAccepted: boolean; readonly approval: StoredApproval } | undefined>;
  /**
   * As `decide`, for a question whose call waits in another process: that process finds the answer and takes it. Not
   * accepted, though still pending, is one about to expire, which could not be found in time, and one of this process.
   */
  decideElsewhere: ApprovalStore["decide"];
  /** Those of the given questions that no longer wait, whoever decided them. */
  findDecided(ids: readonly string[]): Promise<StoredApproval[]>;
  /**
   * Takes what `decideElsewhere` agreed to for a call that can be made anew: true for the one process that may go on with
   * the call.
   */
  take(id: string): Promise<boolean>;
  /** Takes what was agreed to with `decideElsewhere` when the process that should have taken it no longer lives. */
  takeOrphans(): Promise<StoredApproval[]>;
  /** Whether the question waits for an answer, but the process whose call asked it no longer lives. */
  isOrphan(id: string): Promise<boolean>;
  /** Denies the orphans whose call cannot be made anew: an answer could change nothing any more. Answers how many. */
  closeOrphans(reason: string, decidedBy: string): Promise<number>;
  /** Ends the questions that nobody answered in time. Answers how many. */
  expire(now: number): Promise<number>;
  /** Rejects for a pattern that could not be read back as it was given. */
  addRule(rule: ApprovalRule): Promise<void>;
  /** The oldest first. */
  listRules(): Promise<ApprovalRule[]>;
  removeRule(id: string): Promise<boolean>;
}

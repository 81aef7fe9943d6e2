import { isDeepStrictEqual } from "node:util";
import {
  type ApprovalDecision,
  type ApprovalRequest,
  compileSchema,
  type SchemaIssue,
  type ToolRegistry,
} from "@toolrack/core";
import { Mask } from "@toolrack/core/internal";
import { type Grant, grantOf, masterGrant } from "../../access/index.ts";
import type { AnsweredFor, ApprovalStore, Store, StoredApproval } from "../../store/index.ts";
import type { CallService } from "../call-service.ts";

/** The person or program that answers a question. */
export interface Approver {
  /** The name that is stored with the answer. */
  readonly name: string;
  readonly grant: Pick<Grant, "admin" | "mayApprove">;
}

/**
 * The member of `_meta` that marks a question to an MCP client as an approval of a call. A rack that forwards the
 * questions of its upstream servers tells approvals from a tool's own questions by it.
 */
export const approvalMark = "toolrack/approval";

export interface Answer {
  readonly decision: "allow" | "deny";
  readonly reason?: string;
  /** With `allow`: run with these arguments instead. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** Makes the answer a rule for later calls. */
  readonly rule?: AnsweredFor;
}

export interface Answered {
  /** `elsewhere`: the call waits in another process, which could not be told before the question expires. */
  readonly outcome: "accepted" | "decided" | "elsewhere";
  readonly approval: StoredApproval;
}

/** A call that was approved after its process had ended. */
export interface ResumedCall {
  /** The id of the new call. */
  readonly callId: string;
  readonly approval: StoredApproval;
}

type Arguments = Readonly<Record<string, unknown>>;

export interface AnswerReading {
  /** Masks secrets in stored and shown questions and answers. */
  readonly mask: () => Mask;
  /** Returns the problems of arguments that a person edited. Without it, the call itself finds them. */
  readonly check?: ((toolName: string, input: Arguments) => Promise<readonly SchemaIssue[]>) | undefined;
}

/** A question as it is stored and shown, with secrets masked. */
export function shownRequest(request: ApprovalRequest, mask: Mask): ApprovalRequest {
  const { input, details, message } = request;
  return {
    ...request,
    input: shownObject(input, mask),
    message: String(mask.shown(message)),
    ...(details === undefined ? {} : { details: shownObject(details, mask) }),
  };
}

/** An answer as it is stored and shown. */
export function shownDecision(decision: ApprovalDecision, mask: Mask): ApprovalDecision {
  if (decision.decision === "deny" || decision.arguments === undefined) return decision;
  return { ...decision, arguments: shownObject(decision.arguments, mask) };
}

function shownObject(value: Arguments, mask: Mask): Record<string, unknown> {
  const copy = mask.shown(value);
  // An object stays one, unless it could not be read at all.
  return typeof copy === "object" && copy !== null ? { ...copy } : {};
}

/** Puts the original values back where the person left a mask in the edited arguments. */
function restored(edited: Arguments, shown: Arguments, sent: Arguments): Arguments {
  return Mask.restore(edited, shown, sent) as Arguments; // An object stays one.
}

/** Turns an answer into a decision. Throws `UnfitAnswer` for arguments that do not fit the tool. */
export async function decisionOf(
  answer: Answer,
  { input, stage, toolName }: ApprovalRequest,
  { mask, check }: AnswerReading,
): Promise<ApprovalDecision> {
  const said = answer.reason === undefined ? {} : { reason: answer.reason };
  if (answer.decision === "deny") return { decision: "deny", ...said };
  if (answer.arguments === undefined) return { decision: "allow", ...said };
  if (stage === "during") {
    throw new UnfitAnswer(`"${toolName}" is running and only asks whether it may go on: its arguments stay.`);
  }
  const edited = restored(answer.arguments, shownObject(input, mask()), input);
  const issues = (await check?.(toolName, edited)) ?? [];
  if (issues.length > 0) {
    throw new UnfitAnswer(`The edited arguments do not fit the schema of "${toolName}".`, issues);
  }
  return { decision: "allow", ...said, arguments: edited };
}

/** The decision that another process stored, with the masked values put back. */
export function decisionByOther(
  { state, reason, arguments: edited, input }: StoredApproval,
  request: ApprovalRequest,
): ApprovalDecision {
  const said = reason === undefined ? {} : { reason };
  if (state !== "allowed") return { decision: "deny", ...said };
  if (edited === undefined) return { decision: "allow", ...said };
  return { decision: "allow", ...said, arguments: restored(edited, input, request.input) };
}

/**
 * Turns an answer into a decision for a call in another process, which reads it from the store. Throws `UnfitAnswer`
 * for arguments that do not fit the tool, and for secrets, which the store does not keep.
 */
async function decisionForOther(
  answer: Answer,
  approval: StoredApproval,
  { mask, check }: AnswerReading,
): Promise<ApprovalDecision> {
  // Only the process of the call knows the masked values; it validates the arguments before the tool runs.
  const isMasked = JSON.stringify(answer.arguments ?? {}).includes("[redacted]");
  const decision = await decisionOf(answer, approval, { mask, check: isMasked ? undefined : check });
  if (isDeepStrictEqual(shownDecision(decision, mask()), decision)) return decision;
  throw new UnfitAnswer(
    `The call of "${approval.toolName}" waits in another process, and the edited arguments hold a secret, which is not stored on the way there. Leave that argument as it is shown, or answer on the node where the call waits.`,
  );
}

interface DecideOtherParts {
  readonly approvals: ApprovalStore;
  readonly reading: AnswerReading;
  readonly canResume: boolean;
}

interface DecidedOther extends Answered {
  /** Set when the answer was accepted and the process of the call is gone: this process must act on it. */
  readonly left?: ApprovalDecision;
}

/**
 * Decides a question whose call waits in another process, which reads the answer, or whose process is gone. Throws
 * `UnfitAnswer`. Undefined when there is no such question.
 */
export async function decideOther(
  id: string,
  answer: Answer,
  by: string,
  { approvals, reading, canResume }: DecideOtherParts,
): Promise<DecidedOther | undefined> {
  const approval = await approvals.get(id);
  if (approval === undefined) return undefined;
  if (approval.state !== "pending") return { outcome: "decided", approval };
  const isLeft = canResume && (await approvals.isOrphan(id));
  const decision = await (isLeft ? decisionOf : decisionForOther)(answer, approval, reading);
  const decided = isLeft
    ? await approvals.decide(id, decision, by, answer.rule)
    : await approvals.decideElsewhere(id, decision, by, answer.rule);
  if (decided === undefined) return undefined;
  if (decided.isAccepted) {
    return { outcome: "accepted", approval: decided.approval, ...(isLeft ? { left: decision } : {}) };
  }
  const outcome = decided.approval.state === "pending" ? "elsewhere" : "decided";
  return { outcome, approval: decided.approval };
}

/** Repeats a call that was approved after its process had ended, with the rights that its caller has now. */
export async function resumeCall(
  { callId, approval }: ResumedCall,
  service: CallService,
  store: Pick<Store, "tokens">,
): Promise<void> {
  const { caller, toolName, sessionID, input, callId: replayOf } = approval;
  const token = (await store.tokens.list()).find((candidate) => grantOf(candidate).caller === caller);
  if (token === undefined && caller !== masterGrant.caller) {
    throw new Error(`"${toolName}" was not called anew: nobody has the token of ${caller} any more.`);
  }
  if (token?.expiresAt !== undefined && token.expiresAt <= Date.now()) {
    throw new Error(`"${toolName}" was not called anew: the token of ${caller} has expired.`);
  }
  await service.run({
    callId,
    name: toolName,
    input,
    grant: token === undefined ? masterGrant : grantOf(token),
    signal: new AbortController().signal,
    replayOf,
    ...(sessionID === "" ? {} : { sessionID }),
  });
}

/** The caller of the first call of the chain, from the records of calls in other processes. */
export async function firstCallerOf(
  { caller, parentCallId }: StoredApproval,
  calls: Pick<Store["calls"], "get">,
): Promise<string> {
  const seen = new Set<string>();
  let first = caller;
  for (let at = parentCallId; at !== undefined && !seen.has(at); ) {
    seen.add(at);
    const call = await calls.get(at);
    first = call?.caller ?? first;
    at = call?.parentCallId;
  }
  return first;
}

/** The problems of these arguments. None for an unknown tool: the call itself reports that. */
export async function issuesOf(
  registry: ToolRegistry,
  toolName: string,
  input: Readonly<Record<string, unknown>>,
): Promise<readonly SchemaIssue[]> {
  const info = registry.get(toolName);
  if (info === undefined) return [];
  const outcome = await compileSchema(info.parameters).validate(input, {
    strict: info.metadata.strict === true,
  });
  return outcome.ok ? [] : outcome.issues;
}

/** The approver may not give this answer. The question stays open. */
export class ForbiddenAnswer extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ForbiddenAnswer";
  }
}

/** The answer does not fit the question, which stays open. */
export class UnfitAnswer extends Error {
  readonly issues: readonly SchemaIssue[];

  constructor(message: string, issues: readonly SchemaIssue[] = []) {
    super(message);
    this.name = "UnfitAnswer";
    this.issues = issues;
  }
}

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

/** Who answers, with which rights. */
export interface Approver {
  /** What is kept of it beside the answer. */
  readonly name: string;
  readonly grant: Pick<Grant, "admin" | "mayApprove">;
}

/**
 * What the `_meta` of a question to an MCP client has when it is one whether a call may run. A rack that passes on what its
 * upstream servers ask knows by it that the answer is an approval, and not just something that a tool wants to know.
 */
export const approvalMark = "toolrack/approval";

/** What a person says to a question. */
export interface Answer {
  readonly decision: "allow" | "deny";
  readonly reason?: string;
  /** With `allow`: run with these arguments instead. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** Makes the answer a rule for calls to come. */
  readonly rule?: AnsweredFor;
}

export interface Answered {
  /** `elsewhere`: its call waits in another process, which could not be told before the question expires. */
  readonly outcome: "accepted" | "decided" | "elsewhere";
  readonly approval: StoredApproval;
}

/** A call that somebody agreed to after its process had ended. */
export interface ResumedCall {
  /** The new one's id. */
  readonly callId: string;
  readonly approval: StoredApproval;
}

type Arguments = Readonly<Record<string, unknown>>;

/** What is needed to understand an answer. */
export interface AnswerReading {
  /** Hides secrets in what is stored and shown of questions and answers. */
  readonly mask: () => Mask;
  /** What is wrong with arguments that a person wrote for a tool. Without it, the call itself finds out. */
  readonly check?: ((toolName: string, input: Arguments) => Promise<readonly SchemaIssue[]>) | undefined;
}

/** What is kept and shown of a question: the arguments with their secrets masked. */
export function shownRequest(request: ApprovalRequest, mask: Mask): ApprovalRequest {
  const { input, details, message } = request;
  return {
    ...request,
    input: shownObject(input, mask),
    message: String(mask.shown(message)),
    ...(details === undefined ? {} : { details: shownObject(details, mask) }),
  };
}

/** What is kept and shown of an answer. */
export function shownDecision(decision: ApprovalDecision, mask: Mask): ApprovalDecision {
  if (decision.decision === "deny" || decision.arguments === undefined) return decision;
  return { ...decision, arguments: shownObject(decision.arguments, mask) };
}

function shownObject(value: Arguments, mask: Mask): Record<string, unknown> {
  const copy = mask.shown(value);
  // An object stays one, unless it could not be read at all.
  return typeof copy === "object" && copy !== null ? { ...copy } : {};
}

/** Arguments that somebody edited who was shown masked ones: what was left masked is what was sent. */
function restored(edited: Arguments, shown: Arguments, sent: Arguments): Arguments {
  return Mask.restore(edited, shown, sent) as Arguments; // An object stays one.
}

/** What an answer means for the call. Throws `UnfitAnswer` for arguments that the tool could not run with. */
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

/** What another process decided, for the call that waits here: what was left masked is what it was. */
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
 * What an answer means for a call that waits in another process, which reads it from the store. Throws `UnfitAnswer` for
 * arguments that the tool could not run with, and for secrets, which the store does not keep.
 */
async function decisionForOther(
  answer: Answer,
  approval: StoredApproval,
  { mask, check }: AnswerReading,
): Promise<ApprovalDecision> {
  // Only where the call waits is it known what a mask stands for: there the whole is validated before the tool runs.
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
  /** Whether this process can make a call anew. */
  readonly canResume: boolean;
}

interface DecidedOther extends Answered {
  /** With `accepted`, when the process of the call is gone: what is left for this one to do. */
  readonly left?: ApprovalDecision;
}

/**
 * Decides a question whose call does not wait in this process: the process where it waits takes the answer, or, when that
 * is gone, this one. Throws `UnfitAnswer`. Undefined when there is no such question.
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

/** Makes a call anew that somebody agreed to after its process had ended: with the rights that its caller has now. */
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

/** Who made the first call of the chain that asks, by what is on record of calls in other processes. */
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

/** What keeps a tool from running with these arguments. A tool that is gone is found missing by the call itself. */
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

/** An answer of somebody who may not give it: the question stays open. */
export class ForbiddenAnswer extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ForbiddenAnswer";
  }
}

/** An answer that cannot be taken: the question stays open. */
export class UnfitAnswer extends Error {
  readonly issues: readonly SchemaIssue[];

  constructor(message: string, issues: readonly SchemaIssue[] = []) {
    super(message);
    this.name = "UnfitAnswer";
    this.issues = issues;
  }
}

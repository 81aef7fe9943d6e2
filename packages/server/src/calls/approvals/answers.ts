import { isDeepStrictEqual } from "node:util";
import {
  type ApprovalDecision,
  type ApprovalRequest,
  compileSchema,
  type SchemaIssue,
  type ToolRegistry,
} from "@toolrack/core";
import { type Mask, redact } from "@toolrack/core/internal";
import { findGrant, type Grant, isExpired, masterGrant } from "../../access/index.ts";
import { isRecord } from "../../helpers/index.ts";
import type { AnsweredFor, Store, StoredApproval } from "../../store/index.ts";
import type { CallService } from "../call-service.ts";

/** The person or program that answers a question. */
export interface Approver {
  /** The name that is stored with the answer. */
  readonly name: string;
  readonly grant: Pick<Grant, "admin" | "mayApprove">;
}

/**
 * The member of `_meta` that marks a question to an MCP client as an approval of a call. By this member, a
 * rack that forwards questions of its upstreams tells approvals from questions that a tool asks itself.
 */
export const approvalMark = "toolrack/approval";

type Arguments = Readonly<Record<string, unknown>>;

export interface Answer {
  readonly decision: "allow" | "deny";
  readonly reason?: string;
  /** With `allow`: the call runs with these arguments instead of its own. */
  readonly arguments?: Arguments;
  /** Makes the answer a rule for later calls. */
  readonly rule?: AnsweredFor;
}

export interface Answered {
  /**
   * `accepted`: this answer counts. `decided`: the question was answered or closed before. `elsewhere`: the
   * call waits in another process, which might not find this answer before the question expires.
   */
  readonly outcome: "accepted" | "decided" | "elsewhere";
  readonly approval: StoredApproval;
}

/** A question as it is stored and shown, with secrets masked. */
export function shownRequest(request: ApprovalRequest, mask: Mask): ApprovalRequest {
  const { input, details, message } = request;
  return {
    ...request,
    input: shownObject(input, mask),
    message: String(redact(message, { mask })),
    ...(details && { details: shownObject(details, mask) }),
  };
}

/** An answer as it is stored and shown. */
export function shownDecision(decision: ApprovalDecision, mask: Mask): ApprovalDecision {
  if (decision.decision === "deny" || decision.arguments === undefined) return decision;
  return { ...decision, arguments: shownObject(decision.arguments, mask) };
}

function shownObject(value: Arguments, mask: Mask): Record<string, unknown> {
  const copy = redact(value, { mask });
  // A masked copy of an object is an object, unless the original could not be read at all.
  return isRecord(copy) ? copy : {};
}

/**
 * Replaces the masked values in arguments that a person edited. The person was shown a masked copy of the
 * arguments that were sent: each value that was left as it was shown becomes the value that was sent, so that
 * no tool runs with a mask in the place of a secret.
 */
function restored(edited: unknown, shown: unknown, sent: unknown): unknown {
  if (isDeepStrictEqual(edited, shown)) return sent;
  if (!isRecord(edited) || !isRecord(shown) || !isRecord(sent)) return edited;
  return Object.fromEntries(
    Object.entries(edited).map(([key, value]) => [
      key,
      Object.hasOwn(shown, key) && Object.hasOwn(sent, key) ? restored(value, shown[key], sent[key]) : value,
    ]),
  );
}

/**
 * Turns an answer into a decision. Throws `UnfitAnswer` for arguments that do not fit the tool. `isElsewhere`: the call
 * waits in another process, which reads the decision from the store. Only that process knows the masked values, and it
 * validates the arguments before the tool runs; the store keeps no secrets, so none may be written.
 */
export async function decisionOf(
  answer: Answer,
  { input, stage, toolName }: ApprovalRequest,
  mask: Mask,
  registry: ToolRegistry | undefined,
  isElsewhere: boolean,
): Promise<ApprovalDecision> {
  const { decision, reason } = answer;
  if (decision === "deny" || answer.arguments === undefined) return { decision, reason };
  if (stage === "during") {
    throw new UnfitAnswer(`"${toolName}" is running and only asks whether it may go on: its arguments stay.`);
  }
  const isMasked = isElsewhere && JSON.stringify(answer.arguments).includes("[redacted]");
  // The cast is safe: `restored` returns an object when all its arguments are objects.
  const edited = restored(answer.arguments, shownObject(input, mask), input) as Arguments;
  const issues = isMasked ? [] : await issuesOf(registry, toolName, edited);
  if (issues.length > 0) {
    throw new UnfitAnswer(`The edited arguments do not fit the schema of "${toolName}".`, issues);
  }
  const decided = { decision, reason, arguments: edited };
  if (!isElsewhere || isDeepStrictEqual(shownDecision(decided, mask), decided)) return decided;
  throw new UnfitAnswer(
    `The call of "${toolName}" waits in another process, and the edited arguments hold a secret, which is not stored on the way there. Leave that argument as it is shown, or answer on the node where the call waits.`,
  );
}

/** The decision in the store. Masked values in edited arguments are replaced by the values that were sent. */
export function storedDecision(
  { state, reason, arguments: edited, input }: StoredApproval,
  sent: Arguments,
): ApprovalDecision {
  if (state !== "allowed") return { decision: "deny", reason };
  if (edited === undefined) return { decision: "allow", reason };
  // The cast is safe: `restored` returns an object when all its arguments are objects.
  return { decision: "allow", reason, arguments: restored(edited, input, sent) as Arguments };
}

/** The problems of these arguments. None for an unknown tool: the call itself reports that. */
async function issuesOf(
  registry: ToolRegistry | undefined,
  toolName: string,
  input: Arguments,
): Promise<readonly SchemaIssue[]> {
  const info = registry?.get(toolName);
  if (info === undefined) return [];
  const strict = info.metadata.strict === true;
  const outcome = await compileSchema(info.parameters).validate(input, { strict });
  return outcome.ok ? [] : outcome.issues;
}

/** A call that was approved after its process had ended. */
export interface ResumedCall {
  /** The id of the new call. */
  readonly callId: string;
  readonly approval: StoredApproval;
}

/** Repeats a call that was approved after its process had ended, with the rights that its caller has now. */
export async function resumeCall(
  { callId, approval }: ResumedCall,
  service: CallService,
  { tokens }: Pick<Store, "tokens">,
): Promise<void> {
  const { caller, toolName, sessionID, input, callId: replayOf } = approval;
  const isMaster = caller === masterGrant.caller;
  const grant = isMaster ? masterGrant : await findGrant(tokens, (candidate) => candidate.caller === caller);
  if (grant === undefined) {
    throw new Error(`"${toolName}" was not called anew: nobody has the token of ${caller} any more.`);
  }
  if (isExpired(grant)) {
    throw new Error(`"${toolName}" was not called anew: the token of ${caller} has expired.`);
  }
  await service.run({ callId, name: toolName, input, grant, replayOf, sessionID: sessionID || undefined });
}

/**
 * The caller of the first call of the chain that the question's call belongs to, found in the stored records
 * of the calls above it.
 */
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

/** The approver may not give this answer. The question stays open. */
export class ForbiddenAnswer extends Error {
  override readonly name = "ForbiddenAnswer";
}

/** The answer does not fit the question, which stays open. */
export class UnfitAnswer extends Error {
  override readonly name = "UnfitAnswer";
  readonly issues: readonly SchemaIssue[];

  constructor(message: string, issues: readonly SchemaIssue[] = []) {
    super(message);
    this.issues = issues;
  }
}

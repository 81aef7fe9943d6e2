import { approvalDenied, approvalExpired, nobodyToAsk } from "../../error/messages.ts";
import { ApprovalDeniedError } from "../../error/tool-error.ts";
import type { ApprovalDecision, ApprovalPolicy, ApprovalRequest, ApprovalVerdict } from "../approval.ts";
import type { CallFrame } from "../frame.ts";
import { accept, misfit, outcomeOf } from "./validate.ts";

const USUAL_TIMEOUT = 5 * 60_000;

/** Obtains consent where the policy wants it. Anything but a clear yes is a no. */
export function approve(frame: CallFrame): Promise<void> | undefined {
  const policy = frame.host.settings.approval;
  const dangerous = frame.tool.info.metadata.dangerous === true;
  if (policy?.decide === undefined && !dangerous) return;
  return consent(frame, policy);
}

async function consent(frame: CallFrame, policy: ApprovalPolicy | undefined): Promise<void> {
  const request = requestFor(frame, frame.tool.info.metadata.confirm);
  const decision = await decide(frame, policy, request);
  if (decision.decision === "deny") throw denied(frame, decision.reason);
  if (decision.arguments === undefined) return;
  const outcome = await outcomeOf(frame, decision.arguments);
  if (!outcome.ok) throw misfit(frame, outcome);
  accept(frame, outcome);
  frame.flag().edited = true;
}

/** A question that a tool asks in the middle of its run. The same people answer, in the same way. */
export async function ask(
  frame: CallFrame,
  message: string,
  details?: ApprovalRequest["details"],
): Promise<void> {
  const policy = frame.host.settings.approval;
  const request = requestFor(frame, message, details);
  const decision = await askPerson(frame, policy, request);
  if (decision.decision === "deny") throw denied(frame, decision.reason);
}

async function decide(
  frame: CallFrame,
  policy: ApprovalPolicy | undefined,
  request: ApprovalRequest,
): Promise<ApprovalDecision> {
  const verdict = policy?.decide === undefined ? "ask" : await refuseOnThrow(() => policy.decide!(request));
  if (verdict === "ask") return askPerson(frame, policy, request);
  if (verdict === "allow" || verdict === "deny") return { decision: verdict };
  return isDecision(verdict)
    ? verdict
    : { decision: "deny", reason: "the approval policy gave no valid answer" };
}

async function askPerson(
  frame: CallFrame,
  policy: ApprovalPolicy | undefined,
  request: ApprovalRequest,
): Promise<ApprovalDecision> {
  const person = policy?.ask;
  if (person === undefined) {
    throw new ApprovalDeniedError(nobodyToAsk(frame.toolName), {
      toolName: frame.toolName,
      input: frame.input,
    });
  }
  const { events } = frame.host;
  if (events.wanted) events.emit({ type: "approval", request });
  const decision = await inTime(frame, request, (signal) => person.call(policy, request, signal));
  if (events.wanted) events.emit({ type: "approval", request, decision });
  return decision;
}

/** Waits for the answer no longer than the request allows, and no longer than the call lives. */
async function inTime(
  frame: CallFrame,
  request: ApprovalRequest,
  answer: (signal: AbortSignal) => Promise<ApprovalDecision>,
): Promise<ApprovalDecision> {
  const limit = request.expiresAt - Date.now();
  const patience = new AbortController();
  const giveUp = () => patience.abort();
  frame.signal.addEventListener("abort", giveUp, { once: true });
  const timer = setTimeout(giveUp, limit);
  const unanswered = new Promise<ApprovalDecision>((resolve) => {
    const expired: ApprovalDecision = { decision: "deny", reason: EXPIRED };
    patience.signal.addEventListener("abort", () => resolve(expired), { once: true });
  });
  try {
    const answered = refuseOnThrow(() => answer(patience.signal)).then((value) =>
      isDecision(value) ? value : ({ decision: "deny", reason: "the answer was not a decision" } as const),
    );
    const decision = await Promise.race([answered, unanswered]);
    if (decision.decision === "deny" && decision.reason === EXPIRED) throw expired(frame, limit);
    return decision;
  } finally {
    clearTimeout(timer);
    frame.signal.removeEventListener("abort", giveUp);
    patience.abort();
  }
}

/** Not a text that a person could give as a reason. */
const EXPIRED = "\u0000expired";

async function refuseOnThrow(
  question: () => ApprovalVerdict | Promise<ApprovalVerdict>,
): Promise<ApprovalVerdict> {
  try {
    return await question();
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    return { decision: "deny", reason: `asking for approval failed: ${reason}` };
  }
}

function isDecision(value: unknown): value is ApprovalDecision {
  const decision = (value as { decision?: unknown } | null | undefined)?.decision;
  return decision === "allow" || decision === "deny";
}

function requestFor(
  frame: CallFrame,
  message?: string,
  details?: ApprovalRequest["details"],
): ApprovalRequest {
  const { info } = frame.tool;
  const timeout = frame.host.settings.approval?.timeout ?? USUAL_TIMEOUT;
  return {
    callId: frame.callId,
    ...(frame.parent === undefined ? {} : { parentCallId: frame.parent.callId }),
    toolName: info.name,
    displayName: info.displayName ?? info.name,
    input: frame.input,
    message: message ?? `Run "${info.displayName ?? info.name}"?`,
    ...(details === undefined ? {} : { details }),
    dangerous: info.metadata.dangerous === true,
    sessionID: frame.sessionID,
    caller: frame.caller,
    expiresAt: Date.now() + timeout,
  };
}

function denied(frame: CallFrame, reason: string | undefined): ApprovalDeniedError {
  return new ApprovalDeniedError(approvalDenied(frame.toolName, reason), {
    toolName: frame.toolName,
    input: frame.input,
    ...(reason === undefined ? {} : { data: { reason } }),
  });
}

function expired(frame: CallFrame, limit: number): ApprovalDeniedError {
  return new ApprovalDeniedError(approvalExpired(frame.toolName, limit), {
    toolName: frame.toolName,
    input: frame.input,
    data: { reason: "no answer in time", limit },
  });
}

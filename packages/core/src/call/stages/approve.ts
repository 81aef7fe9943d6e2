import { approvalDenied, approvalExpired, goingOnDenied, nobodyToAsk } from "../../error/messages.ts";
import { ApprovalDeniedError } from "../../error/tool-error.ts";
import type { CallFrame } from "../frame.ts";
import type { ApprovalDecision, ApprovalPolicy, ApprovalRequest, ApprovalVerdict } from "../settings.ts";
import { pausing } from "../time.ts";
import { recheck } from "./admission.ts";
import { accept, misfit, outcomeOf } from "./validate.ts";

const DEFAULT_TIMEOUT = 5 * 60_000;

/** Obtains consent if the policy asks for it. Anything but a clear yes is a denial. */
export function approve(frame: CallFrame): Promise<void> | undefined {
  const policy = frame.host.settings.approval;
  if (policy?.decide === undefined && !isDangerous(frame)) return;
  return consent(frame, policy);
}

/** Also if the tool was marked as dangerous after the caller was shown its list. */
function isDangerous({ tool, current }: CallFrame): boolean {
  return tool.info.metadata.dangerous === true || current?.info.metadata.dangerous === true;
}

async function consent(frame: CallFrame, policy: ApprovalPolicy | undefined): Promise<void> {
  const request = requestFor(frame, frame.tool.info.metadata.confirm);
  const decision = await decide(frame, policy, request);
  if (decision.decision === "deny") throw denied(frame, decision.reason);
  if (decision.arguments !== undefined) {
    const outcome = await outcomeOf(frame, decision.arguments);
    if (!outcome.ok) throw misfit(frame, outcome);
    accept(frame, outcome);
    frame.flag().edited = true;
  }
  if (frame.flags?.waited !== undefined) await recheck(frame);
}

/** Asks a question of a running tool, by the same policy. */
export async function ask(
  frame: CallFrame,
  message: string,
  details?: ApprovalRequest["details"],
): Promise<void> {
  const policy = frame.host.settings.approval;
  const request = requestFor(frame, message, details);
  using _ = pausing(frame);
  const decision = await decide(frame, policy, request);
  if (decision.decision === "deny") throw denied(frame, decision.reason);
}

async function decide(
  frame: CallFrame,
  policy: ApprovalPolicy | undefined,
  request: ApprovalRequest,
): Promise<ApprovalDecision> {
  const decider = policy?.decide;
  const verdict: ApprovalVerdict =
    decider === undefined
      ? "ask"
      : await inTime(frame, request, () =>
          refuseOnThrow(() => decider.call(policy, request, frame.tool.info)),
        );
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
  const { events, undecided } = frame.host;
  const secrets = frame.host.settings.secrets();
  const emit = (decision?: ApprovalDecision) => {
    if (!events.wanted) return;
    const { message, details } = request;
    const shown = secrets.apply({ message, ...(details === undefined ? {} : { details }) });
    events.emit({ type: "approval", request: { ...request, ...shown }, ...(decision && { decision }) });
  };
  using _ = pausing(frame);
  emit();
  const askedAt = performance.now();
  const isBefore = frame.startedAt === 0;
  if (isBefore) undecided.add(frame);
  try {
    const answer = await inTime(frame, request, (signal) =>
      refuseOnThrow(() => person.call(policy, request, signal)),
    );
    const decision = isDecision(answer) ? answer : refusal("the answer was not a decision");
    emit(decision);
    return decision;
  } catch (thrown) {
    // Listeners that show the question must learn that it is closed.
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    emit(refusal(reason));
    throw thrown;
  } finally {
    if (isBefore) {
      undecided.delete(frame);
      frame.flag().waited = performance.now() - askedAt;
    }
  }
}

/** Waits until the request expires or the call ends. */
async function inTime(
  frame: CallFrame,
  request: ApprovalRequest,
  question: (signal: AbortSignal) => Promise<ApprovalVerdict>,
): Promise<ApprovalVerdict> {
  const limit = request.expiresAt - Date.now();
  const controller = new AbortController();
  const giveUp = () => controller.abort();
  frame.signal.addEventListener("abort", giveUp, { once: true });
  // A timer cannot be longer than 24 days; a longer limit gets none.
  const timer = limit < LONGEST_TIMER ? setTimeout(giveUp, limit) : undefined;
  const unanswered = new Promise<undefined>((resolve) => {
    controller.signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
  try {
    const answer = await Promise.race([question(controller.signal), unanswered]);
    if (answer === undefined) throw frame.abortReason ?? expired(frame, limit);
    return answer;
  } finally {
    clearTimeout(timer);
    frame.signal.removeEventListener("abort", giveUp);
    controller.abort();
  }
}

const LONGEST_TIMER = 2 ** 31 - 1;

function refusal(reason: string): ApprovalDecision {
  return { decision: "deny", reason };
}

async function refuseOnThrow(
  question: () => ApprovalVerdict | Promise<ApprovalVerdict>,
): Promise<ApprovalVerdict> {
  try {
    return (await question()) ?? refusal("the approval policy gave no valid answer");
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    return { decision: "deny", reason: `asking for approval failed: ${reason}` };
  }
}

function isDecision(value: unknown): value is ApprovalDecision {
  if (typeof value !== "object" || value === null || !("decision" in value)) return false;
  return value.decision === "allow" || value.decision === "deny";
}

function requestFor(
  frame: CallFrame,
  message?: string,
  details?: ApprovalRequest["details"],
): ApprovalRequest {
  const { info } = frame.tool;
  const timeout = frame.host.settings.approval?.timeout ?? DEFAULT_TIMEOUT;
  return {
    callId: frame.callId,
    ...(frame.parent === undefined ? {} : { parentCallId: frame.parent.callId }),
    toolName: info.name,
    displayName: info.displayName ?? info.name,
    input: frame.input,
    message: message ?? `Run "${info.displayName ?? info.name}"?`,
    ...(details === undefined ? {} : { details }),
    dangerous: isDangerous(frame),
    stage: frame.startedAt > 0 ? "during" : "before",
    sessionID: frame.sessionID,
    caller: frame.caller,
    expiresAt: Date.now() + timeout,
  };
}

function denied(frame: CallFrame, reason: string | undefined): ApprovalDeniedError {
  const message = frame.startedAt > 0 ? goingOnDenied : approvalDenied;
  return new ApprovalDeniedError(message(frame.toolName, reason), {
    toolName: frame.toolName,
    input: frame.input,
    ...(reason === undefined ? {} : { data: { reason } }),
  });
}

function expired(frame: CallFrame, limit: number): ApprovalDeniedError {
  const place = frame.host.settings.approval?.place;
  return new ApprovalDeniedError(approvalExpired(frame.toolName, limit, place), {
    toolName: frame.toolName,
    input: frame.input,
    data: { reason: "no answer in time", limit },
  });
}

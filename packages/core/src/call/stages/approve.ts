import { approvalDenied, approvalExpired, goingOnDenied, nobodyToAsk } from "../../error/messages.ts";
import { ApprovalDeniedError } from "../../error/tool-error.ts";
import { reasonOf } from "../../schema/visit.ts";
import type { CallFrame } from "../call-frame.ts";
import type { ApprovalDecision, ApprovalPolicy, ApprovalRequest, ApprovalVerdict } from "../settings.ts";
import { pausing } from "../time.ts";
import { accept, outcomeOf, recheck } from "./admission.ts";

const DEFAULT_TIMEOUT = 5 * 60_000;
const LONGEST_TIMER = 2 ** 31 - 1;

/** Obtains consent if the policy asks for it. Anything but a clear yes is a denial. */
export function approve(frame: CallFrame): Promise<void> | undefined {
  const asksNobody = policyOf(frame)?.decide === undefined && !isDangerous(frame);
  return asksNobody ? undefined : consent(frame);
}

/**
 * Whether the tool is dangerous, in the version that runs or in the one that is registered now: it may have
 * been marked as dangerous after the caller was shown its list.
 */
function isDangerous({ tool, current }: CallFrame): boolean {
  return tool.info.metadata.dangerous === true || current?.info.metadata.dangerous === true;
}

function policyOf({ mock, host }: CallFrame): ApprovalPolicy | undefined {
  return mock?.approval ?? host.settings.approval;
}

async function consent(frame: CallFrame): Promise<void> {
  const edited = await requireConsent(frame, frame.tool.info.metadata.confirm);
  if (edited !== undefined) {
    accept(frame, await outcomeOf(frame, edited));
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
  using _ = pausing(frame);
  await requireConsent(frame, message, details);
}

/** Returns the arguments that a person wrote instead of those of the call, if any. */
async function requireConsent(
  frame: CallFrame,
  message?: string,
  details?: ApprovalRequest["details"],
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const policy = policyOf(frame);
  const request = requestFor(frame, message, details);
  const decision = await decide(frame, policy, request);
  if (decision.decision === "allow") return decision.arguments;
  const { reason } = decision;
  const denied = frame.startedAt > 0 ? goingOnDenied : approvalDenied;
  throw frame.refusal(ApprovalDeniedError, denied(frame.shownName, reason), {
    data: reason === undefined ? undefined : { reason },
  });
}

async function decide(
  frame: CallFrame,
  policy: ApprovalPolicy | undefined,
  request: ApprovalRequest,
): Promise<ApprovalDecision> {
  const decider = policy?.decide;
  const verdict =
    decider === undefined
      ? "ask"
      : await inTime(frame, request, () => decider.call(policy, request, frame.tool.info));
  if (verdict === "ask") return askPerson(frame, policy, request);
  if (verdict === "allow" || verdict === "deny") return { decision: verdict };
  return isDecision(verdict) ? verdict : refusal(NO_ANSWER);
}

async function askPerson(
  frame: CallFrame,
  policy: ApprovalPolicy | undefined,
  request: ApprovalRequest,
): Promise<ApprovalDecision> {
  const person = policy?.ask;
  if (person === undefined) throw frame.refusal(ApprovalDeniedError, nobodyToAsk(frame.shownName));
  const { events, undecided, settings } = frame.host;
  const secrets = settings.secrets();
  const emit = (decision?: ApprovalDecision) => {
    if (!events.wanted) return;
    const { message, details } = request;
    const shown = secrets.apply({ message, ...(details && { details }) });
    events.emit({ type: "approval", request: { ...request, ...shown }, ...(decision && { decision }) });
  };
  using _ = pausing(frame);
  emit();
  const isBefore = frame.startedAt === 0;
  if (isBefore) undecided.add(frame);
  try {
    const answer = await inTime(frame, request, (signal) => person.call(policy, request, signal));
    const decision = isDecision(answer) ? answer : refusal("the answer was not a decision");
    emit(decision);
    return decision;
  } catch (thrown) {
    // Listeners that show the question must learn that it is closed.
    emit(refusal(reasonOf(thrown)));
    throw thrown;
  } finally {
    if (isBefore) undecided.delete(frame);
  }
}

/**
 * Waits for the answer to `question` until the request expires or the call ends. If `question` throws, the
 * answer is a denial.
 */
async function inTime(
  frame: CallFrame,
  request: ApprovalRequest,
  question: (signal: AbortSignal) => ApprovalVerdict | Promise<ApprovalVerdict>,
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
  const asked = (async () => (await question(controller.signal)) ?? refusal(NO_ANSWER))().catch((thrown) =>
    refusal(`asking for approval failed: ${reasonOf(thrown)}`),
  );
  try {
    const answer = await Promise.race([asked, unanswered]);
    if (answer !== undefined) return answer;
    const message = approvalExpired(frame.shownName, limit, policyOf(frame)?.place);
    const data = { reason: "no answer in time", limit };
    throw frame.abortReason ?? frame.refusal(ApprovalDeniedError, message, { data });
  } finally {
    clearTimeout(timer);
    frame.signal.removeEventListener("abort", giveUp);
    controller.abort();
  }
}

const NO_ANSWER = "the approval policy gave no valid answer";

function refusal(reason: string): ApprovalDecision {
  return { decision: "deny", reason };
}

function isDecision(value: unknown): value is ApprovalDecision {
  if (typeof value !== "object" || value === null || !("decision" in value)) return false;
  return value.decision === "allow" || value.decision === "deny";
}

function requestFor(
  frame: CallFrame,
  message: string | undefined,
  details: ApprovalRequest["details"],
): ApprovalRequest {
  const { callId, parent, input, sessionID, caller } = frame;
  const { name: toolName, displayName = toolName } = frame.tool.info;
  return {
    callId,
    ...(parent && { parentCallId: parent.callId }),
    toolName,
    displayName,
    input,
    message: message ?? `Run "${displayName}"?`,
    ...(details && { details }),
    dangerous: isDangerous(frame),
    stage: frame.startedAt > 0 ? "during" : "before",
    sessionID,
    caller,
    expiresAt: Date.now() + (policyOf(frame)?.timeout ?? DEFAULT_TIMEOUT),
  };
}

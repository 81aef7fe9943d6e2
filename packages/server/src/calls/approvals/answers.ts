import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import {
  type ApprovalDecision,
  type ApprovalRequest,
  type ApprovalVerdict,
  compileSchema,
  type Logger,
  type SchemaIssue,
  type ToolRegistry,
} from "@toolrack/core";
import { type Grant, grantOf, masterGrant } from "../../access/index.ts";
import type { AnsweredFor, ApprovalRule, ApprovalStore, Store, StoredApproval } from "../../store/index.ts";
import type { CallService } from "../call-service.ts";
import type { InboxParts, ResumedCall } from "./inbox.ts";
import { type QuestionMask, restoreMasked } from "./shown-arguments.ts";

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

export type NewRule = AnsweredFor & Pick<ApprovalRule, "caller" | "decision">;

export interface Answered {
  /** `elsewhere`: its call waits in another process, which could not be told before the question expires. */
  readonly outcome: "accepted" | "decided" | "elsewhere";
  readonly approval: StoredApproval;
}

export interface AnswerReading extends Pick<InboxParts, "check"> {
  readonly mask: QuestionMask;
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
  const edited = mask.restore(answer.arguments, input);
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
  // An object stays one.
  const restored = restoreMasked(edited, input, request.input) as Readonly<Record<string, unknown>>;
  return { decision: "allow", ...said, arguments: restored };
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
  const isMasked = JSON.stringify(answer.arguments ?? {}).includes(MASK);
  const reading = { mask, ...(check === undefined || isMasked ? {} : { check }) };
  const decision = await decisionOf(answer, approval, reading);
  if (isDeepStrictEqual(mask.shownDecision(decision), decision)) return decision;
  throw new UnfitAnswer(
    `The call of "${approval.toolName}" waits in another process, and the edited arguments hold a secret, which is not stored on the way there. Leave that argument as it is shown, or answer on the node where the call waits.`,
  );
}

const MASK = "[redacted]";

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

/** Finds the answers that other processes took to questions that wait in this one. Looks only while some wait. */
export class AnswersOfOthers {
  readonly #store: Pick<ApprovalStore, "findDecided">;
  readonly #take: (approval: StoredApproval) => Promise<void>;
  readonly #waiting = new Set<string>();
  /** Answers that make a rule, seen once. */
  readonly #seen = new Set<string>();

  /** `take` is given an answer again until its question is left. */
  constructor(
    { approvals, follower }: Pick<Store, "approvals" | "follower">,
    logger: Logger,
    take: (approval: StoredApproval) => Promise<void>,
  ) {
    this.#store = approvals;
    this.#take = take;
    follower.follow("approvals", {
      isNeeded: () => this.#waiting.size > 0,
      refresh: () => this.#look(),
      failed: (error) => logger.debug("It could not be looked for answers that other processes took:", error),
    });
  }

  watch(id: string): void {
    this.#waiting.add(id);
  }

  leave(id: string): void {
    this.#waiting.delete(id);
    this.#seen.delete(id);
  }

  async #look(): Promise<void> {
    for (const approval of await this.#store.findDecided([...this.#waiting])) {
      if (this.#isReady(approval)) await this.#take(approval);
    }
  }

  /** A rule is written after the answer that makes it, and is to count for what the call does next. */
  #isReady({ id, rule }: StoredApproval): boolean {
    if (rule === undefined || this.#seen.has(id)) return true;
    this.#seen.add(id);
    return false;
  }
}

type Consent = Extract<ApprovalDecision, { decision: "allow" }>;

/** Calls that are made anew with an answer that was given before they began. It counts for the call itself, not for what it calls. */
export class AgreedCalls {
  readonly #answers = new Map<string, Consent>();

  get isEmpty(): boolean {
    return this.#answers.size === 0;
  }

  has(callId: string): boolean {
    return this.#answers.has(callId);
  }

  /** Makes the call, whose question is answered already. */
  async during(callId: string, answer: Consent, make: () => Promise<unknown>): Promise<void> {
    this.#answers.set(callId, answer);
    try {
      await make();
    } finally {
      this.#answers.delete(callId);
    }
  }

  /** What was answered, unless a rule forbids the call. */
  verdict(request: ApprovalRequest, byRules: ApprovalVerdict): ApprovalVerdict {
    const answer = this.answerTo(request);
    return answer !== undefined && typeof byRules === "string" ? answer : byRules;
  }

  /** For a host that only asks. */
  answerTo({ callId, stage }: ApprovalRequest): ApprovalDecision | undefined {
    return stage === "before" ? this.#answers.get(callId) : undefined;
  }
}

/** Answers to questions that outlived their calls, for the calls that are made in their place. */
export class CarriedAnswers {
  readonly #byCall = new Map<string, Set<StoredApproval>>();

  /** For what the call with this id makes itself. Returns how to take back what was not used. */
  add(approval: StoredApproval, callId: string): () => void {
    const carried = this.#byCall.get(callId) ?? new Set();
    this.#byCall.set(callId, carried.add(approval));
    return () => this.#drop(callId, approval);
  }

  /** The answer, once, if the same tool is called with the same arguments. */
  take({ parentCallId = "", toolName, input, stage }: ApprovalRequest): ApprovalDecision | undefined {
    if (stage !== "before") return undefined;
    const approval = [...(this.#byCall.get(parentCallId) ?? [])].find(
      (carried) => carried.toolName === toolName && isDeepStrictEqual(carried.input, input),
    );
    if (approval === undefined) return undefined;
    this.#drop(parentCallId, approval);
    return { decision: "allow", ...(approval.arguments && { arguments: approval.arguments }) };
  }

  #drop(callId: string, approval: StoredApproval): void {
    const carried = this.#byCall.get(callId);
    carried?.delete(approval);
    if (carried?.size === 0) this.#byCall.delete(callId);
  }
}

/** Makes a call anew that somebody agreed to after its process had ended: with the rights that its caller has now. */
export async function resumeCall(
  { callId, approval }: ResumedCall,
  desk: CallService,
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
  await desk.run({
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

/** Short enough to be typed. */
export function newId(): string {
  return randomBytes(6).toString("hex");
}

/** What is being written while nobody waits for it. */
export class PendingWrites {
  readonly #logger: Logger;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** One that fails is told to the log. */
  add(writing: Promise<unknown>): void {
    const settled = writing.catch((error) => {
      this.#logger.error(
        `An approval could not be written: ${error instanceof Error ? error.message : error}`,
      );
    });
    this.#underWay.add(settled);
    void settled.then(() => this.#underWay.delete(settled));
  }

  /** Resolves when nothing is under way, also of what is begun meanwhile. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }
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

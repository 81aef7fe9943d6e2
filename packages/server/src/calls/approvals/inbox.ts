import { isDeepStrictEqual } from "node:util";
import type {
  ApprovalDecision,
  ApprovalPolicy,
  ApprovalRequest,
  ApprovalVerdict,
  Logger,
  ToolInfo,
} from "@toolrack/core";
import { Mask } from "@toolrack/core/internal";
import { masterGrant } from "../../access/index.ts";
import type { RackItem } from "../../config/index.ts";
import { reasonOf } from "../../helpers/index.ts";
import type {
  AnsweredFor,
  ApprovalQuery,
  ApprovalRule,
  Page,
  Store,
  StoredApproval,
} from "../../store/index.ts";
import {
  type Answer,
  type Answered,
  type AnswerReading,
  type Approver,
  decideOther,
  decisionByOther,
  decisionOf,
  ForbiddenAnswer,
  firstCallerOf,
  type ResumedCall,
  shownDecision,
  shownRequest,
} from "./answers.ts";
import { type FormerNameOf, type NewRule, newId, RuleBook, verdictByRules } from "./rules.ts";

interface Waiting {
  readonly request: ApprovalRequest;
  readonly isResumable: boolean;
  readonly settle: (decision: ApprovalDecision) => void;
  /** Counts the answers that this process is writing or has written; the one in the store may be one of them. */
  answers: number;
  /** Another process has answered with a rule, which was not yet in the store. */
  isSeen: boolean;
}

type Consent = Extract<ApprovalDecision, { decision: "allow" }>;

/** The name under which the server itself answers. */
const SERVER = "toolrack";
export const ownServer: Approver = { name: SERVER, grant: masterGrant };

/** A question that a timer ends this many milliseconds early counts as expired. */
const EARLY_MS = 50;
/** Milliseconds after the expiry by which the call should have given up its question. */
const LATE_MS = 5_000;

/**
 * Keeps the questions that wait for a person. A question is on disk before anybody sees it, the first answer counts,
 * and a question whose call is gone is closed, so no answer is given in vain.
 */
export class ApprovalInbox {
  readonly #parts: InboxParts;
  readonly #store: InboxParts["store"];
  readonly #rules: RuleBook;
  readonly #reading: AnswerReading;
  readonly #waiting = new Map<string, Waiting>();
  /** Consent to repeated calls, by the new call's id. It does not count for calls that they make. */
  readonly #consents = new Map<string, Consent>();
  /** Answers to questions whose calls are gone, by the id of the call that repeats the parent. */
  readonly #reusableAnswers = new Map<string, Set<StoredApproval>>();
  readonly #repeaters = new Set<(callId: string) => boolean>();
  /** Writes that only `close` waits for. */
  readonly #writes = new Set<Promise<unknown>>();
  readonly #listeners = new Set<(approval: StoredApproval) => void>();
  #isStopping = false;

  private constructor(parts: InboxParts) {
    const { store, logger, secrets } = parts;
    this.#parts = parts;
    this.#store = store;
    const mask = () => (secrets === undefined ? Mask.none : new Mask(secrets()));
    this.#reading = { mask, check: parts.check };
    this.#rules = new RuleBook(store.approvals);
    store.follower.follow("approvals", {
      isNeeded: () => this.#waiting.size > 0,
      refresh: () => this.#takeAnswers(),
      failed: (error) => logger.debug("It could not be looked for answers that other processes took:", error),
    });
  }

  /** Closes questions of processes that are gone. */
  static async open(parts: InboxParts): Promise<ApprovalInbox> {
    const inbox = new ApprovalInbox(parts);
    await inbox.#settle();
    return inbox;
  }

  /**
   * Reads what other processes on the store did: new rules, questions they left behind, and calls that were approved
   * when their process was about to end.
   */
  async refresh(): Promise<void> {
    await this.#settle();
    const { resume } = this.#parts;
    if (resume === undefined || this.#isStopping) return;
    for (const approval of await this.#store.approvals.takeOrphans()) {
      const decision = decisionByOther(approval, approval);
      if (decision.decision === "allow") this.#write(this.#repeatCall(approval, decision, resume));
    }
  }

  async #settle(): Promise<void> {
    await this.#closeObsolete();
    await this.#rules.refresh();
  }

  /** Closes questions whose answer could no longer matter. */
  async #closeObsolete(): Promise<void> {
    const { approvals } = this.#store;
    await approvals.expire(Date.now());
    await approvals.closeOrphans("the server stopped before anybody answered", SERVER);
  }

  /** Whether this process is repeating the call. */
  isMakingAnew(callId: string): boolean {
    return this.#consents.has(`${callId}${RESUMED}`);
  }

  get policy(): ApprovalPolicy {
    const rules = this.#rules;
    const agreed = this.#consents;
    const { timeout } = this.#parts;
    const verdict = (request: ApprovalRequest, tool: ToolInfo) => this.#verdict(request, tool);
    return {
      // Without rules only dangerous tools need approval, and other calls do not even wait for a promise.
      get decide() {
        return rules.all.length === 0 && agreed.size === 0 ? undefined : verdict;
      },
      ask: (request, signal) => this.#ask(request, signal),
      get timeout() {
        return timeout?.();
      },
      place: INBOX,
    };
  }

  get rules(): readonly ApprovalRule[] {
    return this.#rules.all;
  }

  async list(query: ApprovalQuery): Promise<Page<StoredApproval>> {
    await this.#store.approvals.expire(Date.now());
    return this.#store.approvals.list(query);
  }

  get(id: string): Promise<StoredApproval | undefined> {
    return this.#store.approvals.get(id);
  }

  /** Calls the listener for every question and its outcome, once that is on disk. Returns a function that stops it. */
  subscribe(listener: (approval: StoredApproval) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * `isRepeated` tells whether a call will be repeated after the server ends. A question about a tool that such a call
   * makes stays open, and the repeater hands the answer to `carryOver`. Returns a function that removes it.
   */
  addRepeater(isRepeated: (callId: string) => boolean): () => void {
    this.#repeaters.add(isRepeated);
    return () => this.#repeaters.delete(isRepeated);
  }

  /**
   * Lets an answer to a question whose call is gone count once for the same tool with the same arguments, called by
   * `callId` itself. Returns a function that withdraws an unused answer.
   */
  carryOver(approval: StoredApproval, callId: string): () => void {
    const answers = this.#reusableAnswers.get(callId) ?? new Set();
    this.#reusableAnswers.set(callId, answers.add(approval));
    return () => this.#dropReusable(callId, approval);
  }

  /** Whether this grant may answer questions about the tool, whoever calls it. */
  mayAnswer({ toolName }: Pick<ApprovalRequest, "toolName">, { mayApprove }: Approver["grant"]): boolean {
    return mayApprove(this.#parts.toolOf?.(toolName) ?? { name: toolName });
  }

  /**
   * Takes an answer from any surface. Undefined when there is no such question. Throws `ForbiddenAnswer` when the
   * approver may not give this answer, and `UnfitAnswer` for arguments that do not fit the tool; the question stays
   * open then.
   */
  async answer(id: string, answer: Answer, approver: Approver): Promise<Answered | undefined> {
    const { approvals } = this.#store;
    const by = approver.name;
    const waiting = this.#waiting.get(id);
    const asked = waiting?.request ?? (await approvals.get(id));
    if (asked === undefined) return undefined;
    this.#refuseForbidden(asked, answer, approver);
    if (waiting === undefined) return this.#answerOther(id, answer, approver);
    const decision = await decisionOf(answer, waiting.request, this.#reading);
    waiting.answers++;
    const decided = await approvals
      .decide(id, shownDecision(decision, this.#reading.mask()), by, answer.rule)
      .catch((thrown) => {
        waiting.answers--;
        throw thrown;
      });
    if (!decided?.isAccepted) waiting.answers--;
    if (decided === undefined) return undefined;
    if (!decided.isAccepted) return { outcome: "decided", approval: decided.approval };
    try {
      // The rule is added before the call goes on: what the call does next may be what the rule is for.
      if (answer.rule !== undefined) {
        const bound = this.#boundTo(answer.rule, waiting.request);
        await this.addRule({ ...bound, decision: answer.decision }, approver);
      }
    } finally {
      waiting.settle(decision);
      this.#notify(decided.approval);
    }
    return { outcome: "accepted", approval: decided.approval };
  }

  /**
   * A call runs with the rights of its caller. Somebody who edits its arguments, or makes a rule for later calls, would
   * act with the rights of others, so only admins may. A grant to approve allows only yes or no.
   */
  #refuseForbidden(asked: Pick<ApprovalRequest, "toolName">, answer: Answer, { grant }: Approver): void {
    if (!this.mayAnswer(asked, grant)) throw new ForbiddenAnswer(NOT_AN_APPROVER);
    if (grant.admin) return;
    if (answer.rule !== undefined) throw new ForbiddenAnswer(NO_RULES);
    if (answer.arguments !== undefined) throw new ForbiddenAnswer(NO_EDITS);
  }

  async #answerOther(id: string, answer: Answer, approver: Approver): Promise<Answered | undefined> {
    const { approvals, calls } = this.#store;
    const { resume } = this.#parts;
    await this.#closeObsolete();
    const parts = { approvals, reading: this.#reading, canResume: resume !== undefined };
    const decided = await decideOther(id, answer, approver.name, parts);
    if (decided?.outcome !== "accepted") return decided;
    const { outcome, approval, left } = decided;
    if (answer.rule !== undefined) {
      const bound =
        answer.rule.sessionID === undefined ? {} : { caller: await firstCallerOf(approval, calls) };
      await this.addRule({ ...answer.rule, ...bound, decision: answer.decision }, approver);
    }
    this.#notify(approval);
    // A nested call is repeated by its parent.
    if (resume !== undefined && left?.decision === "allow" && approval.parentCallId === undefined) {
      this.#write(this.#repeatCall(approval, left, resume));
    }
    return { outcome, approval };
  }

  /** Reads answers that other processes stored for questions that wait here. */
  async #takeAnswers(): Promise<void> {
    for (const approval of await this.#store.approvals.findDecided([...this.#waiting.keys()])) {
      const waiting = this.#waiting.get(approval.id);
      // Waits one round for the rule, which is written after its answer: it may be for what the call does next.
      if (waiting === undefined || approval.rule === undefined || waiting.isSeen)
        await this.#takeAnswer(approval);
      else waiting.isSeen = true;
    }
  }

  /** Continues a waiting call whose question another process answered. */
  async #takeAnswer(approval: StoredApproval): Promise<void> {
    const { id, rule, state } = approval;
    if (state === "expired") {
      // The call's own timer gives up, unless the clock was set forward or the machine slept.
      if (Date.now() > approval.expiresAt + LATE_MS) this.#giveUp(id, "nobody answered in time");
      return;
    }
    if (rule !== undefined) await this.#rules.refresh();
    const waiting = this.#waiting.get(id);
    if (waiting === undefined || waiting.answers > 0) return;
    const decision = decisionByOther(approval, waiting.request);
    const isTaken =
      !waiting.isResumable || decision.decision === "deny" || (await this.#store.approvals.take(id));
    waiting.settle(isTaken ? decision : { decision: "deny", reason: REPEATED_ELSEWHERE });
    this.#notify(approval);
  }

  async #repeatCall(
    approval: StoredApproval,
    decision: Consent,
    resume: NonNullable<InboxParts["resume"]>,
  ): Promise<void> {
    const callId = `${approval.callId}${RESUMED}`;
    this.#consents.set(callId, decision);
    try {
      await resume({ callId, approval });
    } finally {
      this.#consents.delete(callId);
    }
  }

  /** Throws `ForbiddenAnswer` unless it is an admin's. */
  async addRule(rule: NewRule, { name, grant }: Approver): Promise<ApprovalRule> {
    if (!grant.admin) throw new ForbiddenAnswer(NO_RULES);
    return this.#rules.add(rule, name);
  }

  /** Throws `ForbiddenAnswer` unless it is an admin's. */
  async removeRule(id: string, { grant }: Approver): Promise<boolean> {
    if (!grant.admin) throw new ForbiddenAnswer(NO_RULES);
    return this.#rules.remove(id);
  }

  /**
   * Ends the waiting questions and refuses new ones. Questions whose call can be repeated stay open: approving one
   * after the restart makes the call.
   */
  stop(): void {
    this.#isStopping = true;
    for (const [id, { isResumable, settle }] of this.#waiting) {
      if (!isResumable) this.#giveUp(id, STOPPING);
      else {
        this.#waiting.delete(id);
        settle({
          decision: "deny",
          reason: `${STOPPING}; the question stays open, and agreeing to it makes the call`,
        });
      }
    }
  }

  /** Stops, and resolves when everything is written. */
  async close(): Promise<void> {
    this.stop();
    while (this.#writes.size > 0) await Promise.all(this.#writes);
  }

  /** Consent given before, unless a rule denies the call. */
  #verdict(request: ApprovalRequest, tool: ToolInfo): ApprovalVerdict {
    const { formerNameOf } = this.#parts;
    const byRules = verdictByRules(this.#rules.all, tool, request, this.#callerOf(request), formerNameOf);
    return typeof byRules === "string" ? (this.#consentTo(request) ?? byRules) : byRules;
  }

  #consentTo({ callId, stage }: ApprovalRequest): Consent | undefined {
    return stage === "before" ? this.#consents.get(callId) : undefined;
  }

  /** Takes the reusable answer, once, if the same tool is called with the same arguments. */
  #takeReusable({ parentCallId = "", toolName, input, stage }: ApprovalRequest): Consent | undefined {
    if (stage !== "before") return undefined;
    const approval = [...(this.#reusableAnswers.get(parentCallId) ?? [])].find(
      (reusable) => reusable.toolName === toolName && isDeepStrictEqual(reusable.input, input),
    );
    if (approval === undefined) return undefined;
    this.#dropReusable(parentCallId, approval);
    return { decision: "allow", ...(approval.arguments && { arguments: approval.arguments }) };
  }

  #dropReusable(callId: string, approval: StoredApproval): void {
    const answers = this.#reusableAnswers.get(callId);
    answers?.delete(approval);
    if (answers?.size === 0) this.#reusableAnswers.delete(callId);
  }

  /** Anybody may name a session, so consent for a session is limited to the caller in question. */
  #boundTo(rule: AnsweredFor, request: ApprovalRequest): Omit<NewRule, "decision"> {
    const caller = this.#callerOf(request);
    return rule.sessionID === undefined || caller === undefined ? rule : { ...rule, caller };
  }

  #callerOf({ callId, caller }: ApprovalRequest): string | undefined {
    const { originOf } = this.#parts;
    return originOf === undefined ? caller : originOf(callId);
  }

  async #ask(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision> {
    const given = this.#consentTo(request) ?? this.#takeReusable(request);
    if (given !== undefined) return given;
    if (this.#isStopping) return { decision: "deny", reason: STOPPING };
    const id = newId();
    const { promise, resolve } = Promise.withResolvers<ApprovalDecision>();
    const giveUp = () => this.#giveUp(id, "the call ended before anybody answered");
    const shown = shownRequest(request, this.#reading.mask());
    const isResumable = canBeRepeated(request, shown) && this.#isRepeated(request);
    const writing = this.#store.approvals.add(id, shown, isResumable);
    this.#write(writing);
    const approval = await writing;
    this.#waiting.set(id, { request, isResumable, settle: resolve, answers: 0, isSeen: false });
    this.#notify(approval);
    signal.addEventListener("abort", giveUp, { once: true });
    // The call or the server may have ended while the question was written.
    if (signal.aborted) giveUp();
    if (this.#isStopping) this.stop();
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", giveUp);
      this.#waiting.delete(id);
    }
  }

  /** The inbox repeats top-level calls. A nested call is repeated by whatever repeats its parent. */
  #isRepeated({ parentCallId }: ApprovalRequest): boolean {
    if (parentCallId === undefined) return this.#parts.resume !== undefined;
    return [...this.#repeaters].some((isRepeated) => isRepeated(parentCallId));
  }

  #giveUp(id: string, reason: string): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    const refusal: ApprovalDecision = { decision: "deny", reason };
    waiting.settle(refusal);
    this.#write(this.#closeQuestion(id, waiting.request, refusal));
  }

  async #closeQuestion(id: string, request: ApprovalRequest, refusal: ApprovalDecision): Promise<void> {
    const { approvals } = this.#store;
    const expiry = Math.round(request.expiresAt);
    if (Date.now() >= expiry - EARLY_MS) await approvals.expire(Math.max(Date.now(), expiry));
    else await approvals.decide(id, refusal, SERVER);
    // Another node may have taken a consent a moment ago: nobody may make the call any more.
    await approvals.take(id);
    const approval = await approvals.get(id);
    if (approval !== undefined) this.#notify(approval);
  }

  #write(writing: Promise<unknown>): void {
    const settled = writing
      .catch((error) => this.#parts.logger.error(`An approval could not be written: ${reasonOf(error)}`))
      .finally(() => this.#writes.delete(settled));
    this.#writes.add(settled);
  }

  #notify(approval: StoredApproval): void {
    for (const listener of this.#listeners) {
      try {
        listener(approval);
      } catch (error) {
        this.#parts.logger.error("A listener to approvals failed:", error);
      }
    }
  }
}

/** Tells the caller where its question waits. */
export const INBOX = "the server's inbox (the Approvals page of the console, or `toolrack approvals`)";
const NOT_AN_APPROVER =
  "This token may not answer this question: it has no grant to approve calls of the tool. An admin can, or a token that was made with --approve for it.";
const NO_RULES =
  "Only an admin's token may make and remove approval rules: they answer calls of others too. Answer this question once.";
const NO_EDITS =
  "Only an admin's token may change the arguments: the call runs with the rights of its caller. Allow it as it is, or deny it and say why.";
const STOPPING = "the server is stopping";
const REPEATED_ELSEWHERE = "another process took this one for ended, and makes the call in its place";
/** The end of the id of a repeated call. */
export const RESUMED = "-resumed";

/** A call with masked arguments cannot be repeated or recognised. */
function canBeRepeated({ stage, input }: ApprovalRequest, shown: ApprovalRequest): boolean {
  return stage === "before" && isDeepStrictEqual(shown.input, input);
}

interface InboxParts {
  readonly store: Pick<Store, "approvals" | "calls" | "follower">;
  readonly logger: Logger;
  /** Secret values; they are masked in what is kept and shown. */
  readonly secrets?: () => Iterable<string>;
  /** The caller of the first call of a call's chain. Default: the call's own caller. */
  readonly originOf?: (callId: string) => string | undefined;
  /** Finds a tool by its name on the rack. Default: only the name is known. */
  readonly toolOf?: (toolName: string) => RackItem | undefined;
  /** Rules that deny or ask also hold for a tool by its former name. */
  readonly formerNameOf?: FormerNameOf;
  /** Repeats a call whose process ended while its question waited. Without it, such a question is closed. */
  readonly resume?: (call: ResumedCall) => Promise<unknown>;
  /** How long a question waits, in milliseconds. Default: core's limit. */
  readonly timeout?: () => number | undefined;
  readonly check?: NonNullable<AnswerReading["check"]>;
}

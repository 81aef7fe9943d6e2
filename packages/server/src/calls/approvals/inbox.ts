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
  /** Answers that this process is writing, or has written: what the store has may be one of them. */
  answers: number;
  /** Another process has answered it with a rule. */
  isSeen: boolean;
}

type Consent = Extract<ApprovalDecision, { decision: "allow" }>;

/** Who answers for the server itself. */
const SERVER = "toolrack";
export const ownServer: Approver = { name: SERVER, grant: masterGrant };

/** An expiry that a timer brings a moment too early is one all the same. */
const EARLY = 50;
/** Milliseconds after which a question that is over should have been left by the call that asked it. */
const LATE = 5_000;

/**
 * Where questions wait for a person. A question is on disk before anybody is shown it, the first answer counts, and
 * one whose call is gone is closed: nothing that waits here can be answered in vain.
 */
export class ApprovalInbox {
  readonly #parts: InboxParts;
  readonly #store: InboxParts["store"];
  readonly #rules: RuleBook;
  readonly #reading: AnswerReading;
  /** By the id of the question. */
  readonly #waiting = new Map<string, Waiting>();
  /** Answers that were given before their calls began, which are made anew. They count for the call itself, not for what it calls. */
  readonly #agreed = new Map<string, Consent>();
  /** Answers to questions that outlived their calls, by the call that makes in their place what was asked about. */
  readonly #carried = new Map<string, Set<StoredApproval>>();
  readonly #repeaters = new Set<(callId: string) => boolean>();
  /** What is being written while nobody waits for it. */
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

  /** Closes what processes that are gone left open. */
  static async open(parts: InboxParts): Promise<ApprovalInbox> {
    const inbox = new ApprovalInbox(parts);
    await inbox.#settle();
    return inbox;
  }

  /**
   * Takes up what other processes that share the store did: rules they made, questions they left behind, and calls that
   * were agreed to when their process was about to end.
   */
  async refresh(): Promise<void> {
    await this.#settle();
    const { resume } = this.#parts;
    if (resume === undefined || this.#isStopping) return;
    for (const approval of await this.#store.approvals.takeOrphans()) {
      const decision = decisionByOther(approval, approval);
      if (decision.decision === "allow") this.#write(this.#makeAnew(approval, decision, resume));
    }
  }

  async #settle(): Promise<void> {
    await this.#closeLeft();
    await this.#rules.refresh();
  }

  /** Questions that no answer could change anything about any more. */
  async #closeLeft(): Promise<void> {
    const { approvals } = this.#store;
    await approvals.expire(Date.now());
    await approvals.closeOrphans("the server stopped before anybody answered", SERVER);
  }

  /** Whether the call is being made anew in this process. */
  isMakingAnew(callId: string): boolean {
    return this.#agreed.has(`${callId}${RESUMED}`);
  }

  /** How the rack obtains consent. */
  get policy(): ApprovalPolicy {
    const rules = this.#rules;
    const agreed = this.#agreed;
    const { timeout } = this.#parts;
    const verdict = (request: ApprovalRequest, tool: ToolInfo) => this.#verdict(request, tool);
    return {
      // Without rules only dangerous tools ask, and the others are not held up by so much as a promise.
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

  /** Is told of every question and of what became of it, once that is on disk. */
  subscribe(listener: (approval: StoredApproval) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Is asked whether a call will be made again if the server ends: a question about a tool that it calls stays open then,
   * and whoever makes it again hands the answer to `carryOver`. Answers how to be asked no more.
   */
  addRepeater(isRepeated: (callId: string) => boolean): () => void {
    this.#repeaters.add(isRepeated);
    return () => this.#repeaters.delete(isRepeated);
  }

  /**
   * Lets an answer to a question that outlived its call count for the call that takes its place: once, for the same tool
   * with the same arguments, called by `callId` itself. Returns how to take back what was not used.
   */
  carryOver(approval: StoredApproval, callId: string): () => void {
    const carried = this.#carried.get(callId) ?? new Set();
    this.#carried.set(callId, carried.add(approval));
    return () => this.#dropCarried(callId, approval);
  }

  /** Whether somebody with this grant may answer questions about the tool, whoever calls it. */
  mayAnswer({ toolName }: Pick<ApprovalRequest, "toolName">, { mayApprove }: Approver["grant"]): boolean {
    return mayApprove(this.#parts.toolOf?.(toolName) ?? { name: toolName });
  }

  /**
   * Every answer comes through here, from whichever surface. Undefined when there is no such question. Throws
   * `ForbiddenAnswer` when the approver may not give this answer, and `UnfitAnswer` for arguments that the tool could not
   * run with; the question stays open then.
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
      // Before the call goes on: what it does next may be what the rule is for.
      if (answer.rule !== undefined) {
        const bound = this.#boundTo(answer.rule, waiting.request);
        await this.addRule({ ...bound, decision: answer.decision }, approver);
      }
    } finally {
      waiting.settle(decision);
      this.#tell(decided.approval);
    }
    return { outcome: "accepted", approval: decided.approval };
  }

  /**
   * A call runs with the rights of its caller: somebody who writes its arguments, or a rule for calls to come, would act
   * with the rights of others. So that is for admins; a grant to approve is one to say yes or no.
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
    await this.#closeLeft();
    const parts = { approvals, reading: this.#reading, canResume: resume !== undefined };
    const decided = await decideOther(id, answer, approver.name, parts);
    if (decided?.outcome !== "accepted") return decided;
    const { outcome, approval, left } = decided;
    if (answer.rule !== undefined) {
      const bound =
        answer.rule.sessionID === undefined ? {} : { caller: await firstCallerOf(approval, calls) };
      await this.addRule({ ...answer.rule, ...bound, decision: answer.decision }, approver);
    }
    this.#tell(approval);
    // What a call makes is made by that call, when it is made again.
    if (resume !== undefined && left?.decision === "allow" && approval.parentCallId === undefined) {
      this.#write(this.#makeAnew(approval, left, resume));
    }
    return { outcome, approval };
  }

  /** Finds the answers that other processes took to questions that wait in this one. */
  async #takeAnswers(): Promise<void> {
    for (const approval of await this.#store.approvals.findDecided([...this.#waiting.keys()])) {
      const waiting = this.#waiting.get(approval.id);
      // A rule is written after the answer that makes it, and is to count for what the call does next.
      if (waiting === undefined || approval.rule === undefined || waiting.isSeen)
        await this.#takeAnswer(approval);
      else waiting.isSeen = true;
    }
  }

  /** Goes on with a call that waits here, as another process answered its question. */
  async #takeAnswer(approval: StoredApproval): Promise<void> {
    const { id, rule, state } = approval;
    if (state === "expired") {
      // The call gives it up by a timer of its own, unless the clock was set forward or the machine slept.
      if (Date.now() > approval.expiresAt + LATE) this.#giveUp(id, "nobody answered in time");
      return;
    }
    if (rule !== undefined) await this.#rules.refresh();
    const waiting = this.#waiting.get(id);
    if (waiting === undefined || waiting.answers > 0) return;
    const decision = decisionByOther(approval, waiting.request);
    const isTaken =
      !waiting.isResumable || decision.decision === "deny" || (await this.#store.approvals.take(id));
    waiting.settle(isTaken ? decision : { decision: "deny", reason: MADE_ELSEWHERE });
    this.#tell(approval);
  }

  async #makeAnew(
    approval: StoredApproval,
    decision: Consent,
    resume: NonNullable<InboxParts["resume"]>,
  ): Promise<void> {
    const callId = `${approval.callId}${RESUMED}`;
    this.#agreed.set(callId, decision);
    try {
      await resume({ callId, approval });
    } finally {
      this.#agreed.delete(callId);
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
   * Ends what waits, and refuses what is still to come. Questions whose call can be made anew stay open: whoever agrees
   * after the restart has the call made.
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

  /** What was agreed to before, unless a rule forbids the call. */
  #verdict(request: ApprovalRequest, tool: ToolInfo): ApprovalVerdict {
    const { formerNameOf } = this.#parts;
    const byRules = verdictByRules(this.#rules.all, tool, request, this.#callerOf(request), formerNameOf);
    return typeof byRules === "string" ? (this.#agreedTo(request) ?? byRules) : byRules;
  }

  #agreedTo({ callId, stage }: ApprovalRequest): Consent | undefined {
    return stage === "before" ? this.#agreed.get(callId) : undefined;
  }

  /** The answer that was carried over, once, if the same tool is called with the same arguments. */
  #takeCarried({ parentCallId = "", toolName, input, stage }: ApprovalRequest): Consent | undefined {
    if (stage !== "before") return undefined;
    const approval = [...(this.#carried.get(parentCallId) ?? [])].find(
      (carried) => carried.toolName === toolName && isDeepStrictEqual(carried.input, input),
    );
    if (approval === undefined) return undefined;
    this.#dropCarried(parentCallId, approval);
    return { decision: "allow", ...(approval.arguments && { arguments: approval.arguments }) };
  }

  #dropCarried(callId: string, approval: StoredApproval): void {
    const carried = this.#carried.get(callId);
    carried?.delete(approval);
    if (carried?.size === 0) this.#carried.delete(callId);
  }

  /** Anybody may name a session: consent in it is consent to the caller who was asked about. */
  #boundTo(rule: AnsweredFor, request: ApprovalRequest): Omit<NewRule, "decision"> {
    const caller = this.#callerOf(request);
    return rule.sessionID === undefined || caller === undefined ? rule : { ...rule, caller };
  }

  #callerOf({ callId, caller }: ApprovalRequest): string | undefined {
    const { originOf } = this.#parts;
    return originOf === undefined ? caller : originOf(callId);
  }

  async #ask(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision> {
    const given = this.#agreedTo(request) ?? this.#takeCarried(request);
    if (given !== undefined) return given;
    if (this.#isStopping) return { decision: "deny", reason: STOPPING };
    const id = newId();
    const { promise, resolve } = Promise.withResolvers<ApprovalDecision>();
    const giveUp = () => this.#giveUp(id, "the call ended before anybody answered");
    const shown = shownRequest(request, this.#reading.mask());
    const isResumable = canBeMadeAnew(request, shown) && this.#isMadeAnew(request);
    const writing = this.#store.approvals.add(id, shown, isResumable);
    this.#write(writing);
    const approval = await writing;
    this.#waiting.set(id, { request, isResumable, settle: resolve, answers: 0, isSeen: false });
    this.#tell(approval);
    signal.addEventListener("abort", giveUp, { once: true });
    // The call, or the server, may have ended while the question was being written.
    if (signal.aborted) giveUp();
    if (this.#isStopping) this.stop();
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", giveUp);
      this.#waiting.delete(id);
    }
  }

  /** By the inbox itself; what a call makes, by whoever makes that call again. */
  #isMadeAnew({ parentCallId }: ApprovalRequest): boolean {
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
    if (Date.now() >= expiry - EARLY) await approvals.expire(Math.max(Date.now(), expiry));
    else await approvals.decide(id, refusal, SERVER);
    // Somebody may have agreed on another node a moment ago: nobody is to make the call any more.
    await approvals.take(id);
    const approval = await approvals.get(id);
    if (approval !== undefined) this.#tell(approval);
  }

  /** What fails is told to the log. */
  #write(writing: Promise<unknown>): void {
    const settled = writing
      .catch((error) => this.#parts.logger.error(`An approval could not be written: ${reasonOf(error)}`))
      .finally(() => this.#writes.delete(settled));
    this.#writes.add(settled);
  }

  #tell(approval: StoredApproval): void {
    for (const listener of this.#listeners) {
      try {
        listener(approval);
      } catch (error) {
        this.#parts.logger.error("A listener to approvals failed:", error);
      }
    }
  }
}

/** Where a question waits, for the one whose call it is about. */
export const INBOX = "the server's inbox (the Approvals page of the console, or `toolrack approvals`)";
const NOT_AN_APPROVER =
  "This token may not answer this question: it has no grant to approve calls of the tool. An admin can, or a token that was made with --approve for it.";
const NO_RULES =
  "Only an admin's token may make and remove approval rules: they answer calls of others too. Answer this question once.";
const NO_EDITS =
  "Only an admin's token may change the arguments: the call runs with the rights of its caller. Allow it as it is, or deny it and say why.";
const STOPPING = "the server is stopping";
const MADE_ELSEWHERE = "another process took this one for ended, and makes the call in its place";
/** What the id of a call that is made anew ends with. */
export const RESUMED = "-resumed";

/** Of masked arguments nothing is left to make a call with, or to know it by. */
function canBeMadeAnew({ stage, input }: ApprovalRequest, shown: ApprovalRequest): boolean {
  return stage === "before" && isDeepStrictEqual(shown.input, input);
}

interface InboxParts {
  readonly store: Pick<Store, "approvals" | "calls" | "follower">;
  readonly logger: Logger;
  /** Secret values; they are masked in what is kept and shown. */
  readonly secrets?: () => Iterable<string>;
  /** Who made the first call of a call's chain. Default: the call's own caller. */
  readonly originOf?: (callId: string) => string | undefined;
  /** What is known of a tool by its name on the rack. Default: its name. */
  readonly toolOf?: (toolName: string) => RackItem | undefined;
  /** Rules that deny a tool, or ask about it, hold by this name too. */
  readonly formerNameOf?: FormerNameOf;
  /** Makes a call anew whose process ended while its question waited. Without it, such a question is closed. */
  readonly resume?: (call: ResumedCall) => Promise<unknown>;
  /** How long a question waits, in milliseconds. Default: as long as core lets it. */
  readonly timeout?: () => number | undefined;
  readonly check?: NonNullable<AnswerReading["check"]>;
}

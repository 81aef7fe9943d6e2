import { isDeepStrictEqual } from "node:util";
import type { ApprovalDecision, ApprovalPolicy, ApprovalRequest, Logger, ToolRegistry } from "@toolrack/core";
import { Mask } from "@toolrack/core/internal";
import { masterGrant } from "../../access/index.ts";
import { reasonOf } from "../../helpers/index.ts";
import type { ApprovalQuery, ApprovalRule, Page, Store, StoredApproval } from "../../store/index.ts";
import {
  type Answer,
  type Answered,
  type Approver,
  decisionOf,
  ForbiddenAnswer,
  firstCallerOf,
  type ResumedCall,
  shownDecision,
  shownRequest,
  storedDecision,
} from "./answers.ts";
import { type FormerNameOf, type NewRule, newId, RuleBook, verdictByRules } from "./rules.ts";

interface InboxParts {
  readonly store: Pick<Store, "approvals" | "calls" | "follower">;
  readonly logger: Logger;
  /** Secret values, which are masked in stored and shown questions and answers. */
  readonly secrets?: () => Iterable<string>;
  /**
   * Returns the rack's tools, or undefined before the rack is open; then only the name of a tool is known.
   */
  readonly registry?: () => ToolRegistry | undefined;
  /**
   * Returns the caller of the first call of the chain that a call belongs to. Default: the call's own caller.
   */
  readonly originOf?: (callId: string) => string | undefined;
  /** Returns by what the caller made a call, such as an MCP client. */
  readonly viaOf?: (callId: string) => string | undefined;
  /**
   * Returns the name that a tool had before it was renamed. Rules for that name which deny or ask also hold
   * for the renamed tool.
   */
  readonly formerNameOf?: FormerNameOf;
  /**
   * Repeats a call whose process ended while its question waited. Without this function, the question is
   * closed.
   */
  readonly resume?: (call: ResumedCall) => Promise<unknown>;
  /** How long a question waits, in milliseconds. Default: core's limit. */
  readonly timeout?: () => number | undefined;
}

/** A question of a call that waits in this process. */
interface Waiting {
  readonly request: ApprovalRequest;
  readonly isResumable: boolean;
  readonly settle: (decision: ApprovalDecision) => void;
  /**
   * How many answers to this question this process is writing or has written. While there are any, the answer
   * in the store may be one of them.
   */
  answers: number;
  /**
   * True once an answer of another process that comes with a rule was found. The answer is taken when it is
   * found again, because the rule is written after it.
   */
  isSeen: boolean;
}

type Consent = Extract<ApprovalDecision, { decision: "allow" }>;

/**
 * Consent that was given before its call was made: to a call that is repeated, or to a call that a repeated
 * call will make.
 */
interface EarlierConsent {
  readonly consent: Consent;
  /** The id of the repeated call. Consent without an id is used up by the first call that it fits. */
  readonly callId?: string;
  fits(request: ApprovalRequest): boolean;
}

/** The name under which the server itself answers. */
const SERVER = "toolrack";
export const ownServer: Approver = { name: SERVER, grant: masterGrant };

/**
 * Timers may fire early. A question that ends up to this many milliseconds before its expiry counts as
 * expired.
 */
const EARLY_MS = 50;
/**
 * Milliseconds after the expiry in which the call's own timer should have given up the question. After that
 * the inbox gives it up.
 */
const LATE_MS = 5_000;

/**
 * Keeps the questions that wait for a person. A question is on disk before anybody sees it, the first answer counts,
 * and a question whose call is gone is closed, so no answer is given in vain.
 */
export class ApprovalInbox {
  /** For the calls whose questions this inbox keeps. */
  readonly policy: InboxPolicy;
  readonly #parts: InboxParts;
  readonly #store: InboxParts["store"];
  readonly #rules: RuleBook;
  readonly #waiting = new Map<string, Waiting>();
  readonly #consents = new Set<EarlierConsent>();
  readonly #repeaters = new Set<(callId: string) => boolean>();
  /** Ids of calls that go on with the question that they had in a process that is gone. */
  readonly #continued = new Set<string>();
  /** Writes under way, which `close` waits for. */
  readonly #writes = new Set<Promise<unknown>>();
  readonly #listeners = new Set<(approval: StoredApproval) => void>();
  #isStopping = false;

  private constructor(parts: InboxParts) {
    const { store, logger } = parts;
    this.#parts = parts;
    this.#store = store;
    this.#rules = new RuleBook(store.approvals, () => this.#updatePolicy());
    this.policy = new InboxPolicy(parts, (request, signal) => this.#ask(request, signal));
    store.follower.follow("approvals", {
      isNeeded: () => this.#waiting.size > 0,
      refresh: () => this.#takeAnswers(),
      failed: (error) => logger.debug("It could not be looked for answers that other processes took:", error),
    });
    store.follower.follow("approvals", {
      // Where the database does not announce changes, `refresh` reads the rules.
      refresh: async (isAnnounced) => {
        if (isAnnounced) await this.#rules.refresh();
      },
      failed: (error) => logger.warn("Approval rules that others changed could not be read:", error),
    });
  }

  /** Opens the inbox. Closes questions whose process is gone, unless their call can be repeated. */
  static async open(parts: InboxParts): Promise<ApprovalInbox> {
    const inbox = new ApprovalInbox(parts);
    await inbox.#settle();
    return inbox;
  }

  /**
   * Takes up what other processes on the store did: reads their rules, closes questions of dead processes,
   * and makes calls that were approved but whose process ended before it could make them.
   */
  async refresh(): Promise<void> {
    await this.#settle();
    if (this.#parts.resume === undefined || this.#isStopping) return;
    for (const approval of await this.#store.approvals.takeOrphans()) {
      this.#repeatCall(approval, storedDecision(approval, approval.input));
    }
  }

  async #settle(): Promise<void> {
    await this.#closeObsolete();
    await this.#rules.refresh();
  }

  /**
   * Closes questions that have expired, and those whose process is gone and whose call cannot be repeated.
   */
  async #closeObsolete(): Promise<void> {
    const { approvals } = this.#store;
    await approvals.expire(Date.now());
    await approvals.closeOrphans("the server stopped before anybody answered", SERVER);
  }

  /** Whether this process is repeating the call that had this id. */
  isRepeating(callId: string): boolean {
    return [...this.#consents].some((given) => given.callId === `${callId}${RESUMED}`);
  }

  /**
   * Without rules and earlier consent the policy has no `decide`: then only dangerous tools need approval, and other calls
   * do not even wait for a promise.
   */
  #updatePolicy(): void {
    const isNeeded = this.#rules.all.length > 0 || this.#consents.size > 0;
    this.policy.decide = isNeeded ? this.#decide : undefined;
  }

  readonly #decide: NonNullable<ApprovalPolicy["decide"]> = (request, tool) => {
    const { formerNameOf } = this.#parts;
    const verdict = verdictByRules(this.#rules.all, tool, request, this.#callerOf(request), formerNameOf);
    // Earlier consent counts, unless a rule denies the call.
    return typeof verdict === "string" ? (this.#consentTo(request) ?? verdict) : verdict;
  };

  /** Returns a function that withdraws the consent. */
  #addConsent(given: EarlierConsent): () => void {
    this.#consents.add(given);
    this.#updatePolicy();
    return () => {
      this.#consents.delete(given);
      this.#updatePolicy();
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

  /**
   * Calls the listener with every new question, and again with its outcome, once each is on disk. Returns a
   * function that unsubscribes the listener.
   */
  subscribe(listener: (approval: StoredApproval) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Adds a part of the rack that repeats its own calls after a restart. `isRepeated` tells whether a call is
   * one of these. When the server ends, questions about calls that such a call makes stay open, and the
   * repeater passes their answers to `reuse`. Returns a function that removes the repeater.
   */
  addRepeater(isRepeated: (callId: string) => boolean): () => void {
    this.#repeaters.add(isRepeated);
    return () => this.#repeaters.delete(isRepeated);
  }

  /**
   * Lets the consent to a call whose process is gone count once more: when `parentCallId` itself calls the
   * same tool with the same arguments. Returns a function that withdraws the consent if it is still unused.
   */
  reuse(approval: StoredApproval, parentCallId: string): () => void {
    const { toolName, input, arguments: edited } = approval;
    const given: EarlierConsent = {
      consent: { decision: "allow", ...(edited && { arguments: edited }) },
      fits: (request) =>
        request.parentCallId === parentCallId &&
        request.toolName === toolName &&
        isDeepStrictEqual(request.input, input),
    };
    return this.#addConsent(given);
  }

  /** Lets a call, which is about to be made again under its id, go on with the question that it had before. */
  continueQuestion(callId: string): void {
    this.#continued.add(callId);
  }

  /**
   * Ends the waiting of the calls that this call made, and leaves their questions open in the store: the call is repeated
   * by the next process. Returns the ids of the calls.
   */
  leaveOpen(parentCallId: string): string[] {
    const left = [...this.#waiting].filter(
      ([, { request, isResumable }]) => isResumable && request.parentCallId === parentCallId,
    );
    return left.map(([id, { request, settle }]) => {
      this.#waiting.delete(id);
      settle({ decision: "deny", reason: STAYS_OPEN });
      return request.callId;
    });
  }

  /** Whether this grant may answer questions about the tool, whoever calls it. */
  mayAnswer({ toolName }: Pick<ApprovalRequest, "toolName">, { mayApprove }: Approver["grant"]): boolean {
    return mayApprove(this.#parts.registry?.()?.get(toolName) ?? { name: toolName });
  }

  /**
   * Takes an answer from any surface. Undefined when there is no such question. Throws `ForbiddenAnswer` when the
   * approver may not give this answer, and `UnfitAnswer` for arguments that do not fit the tool; the question stays
   * open then.
   */
  async answer(id: string, answer: Answer, approver: Approver): Promise<Answered | undefined> {
    const { approvals, calls } = this.#store;
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) await this.#closeObsolete();
    const stored = waiting === undefined ? await approvals.get(id) : undefined;
    const asked = waiting?.request ?? stored;
    if (asked === undefined) return undefined;
    this.#refuseForbidden(asked, answer, approver);
    if (stored !== undefined && stored.state !== "pending") return { outcome: "decided", approval: stored };
    // `isLeft`: the process of the call is gone, so this process makes the call.
    const isLeft =
      waiting === undefined && this.#parts.resume !== undefined && (await approvals.isOrphan(id));
    const isElsewhere = waiting === undefined && !isLeft;
    const mask = this.#mask();
    const decision = await decisionOf(answer, asked, mask, this.#parts.registry?.(), isElsewhere);
    const shown = isLeft ? decision : shownDecision(decision, mask);
    if (waiting !== undefined) waiting.answers++;
    const decided = await (isElsewhere
      ? approvals.decideElsewhere(id, shown, approver.name, answer.rule)
      : approvals.decide(id, shown, approver.name, answer.rule)
    ).catch((thrown) => {
      if (waiting !== undefined) waiting.answers--;
      throw thrown;
    });
    if (!decided?.isAccepted) {
      if (waiting !== undefined) waiting.answers--;
      const outcome = decided?.approval.state === "pending" ? "elsewhere" : "decided";
      return decided && { outcome, approval: decided.approval };
    }
    const { approval } = decided;
    try {
      // The rule is added before the call goes on, because it may be meant for what the call does next.
      if (answer.rule !== undefined) {
        const isBound = answer.rule.sessionID !== undefined;
        const origin = waiting === undefined ? await firstCallerOf(approval, calls) : this.#callerOf(asked);
        // Anybody may name any session, so a rule for a session is limited to the first caller of this call's
        // chain.
        const bound = isBound && origin !== undefined ? { caller: origin } : {};
        await this.addRule({ ...answer.rule, ...bound, decision: answer.decision }, approver);
      }
    } finally {
      waiting?.settle(decision);
      this.#notify(approval);
    }
    // A nested call is made again by its parent, when the parent is repeated.
    if (isLeft && approval.parentCallId === undefined) this.#repeatCall(approval, decision);
    return { outcome: "accepted", approval };
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

  /** Reads answers that other processes stored for questions that wait here. */
  async #takeAnswers(): Promise<void> {
    for (const approval of await this.#store.approvals.findDecided([...this.#waiting.keys()])) {
      const waiting = this.#waiting.get(approval.id);
      // An answer with a rule is taken only when it is found a second time: the rule is written after the
      // answer, and may be meant for what the call does next.
      if (waiting === undefined || approval.rule === undefined || waiting.isSeen)
        await this.#takeAnswer(approval);
      else waiting.isSeen = true;
    }
  }

  /** Continues a waiting call whose question another process answered. */
  async #takeAnswer(approval: StoredApproval): Promise<void> {
    const { id, rule, state } = approval;
    if (state === "expired") {
      // Usually the call's own timer gives up the question. It does so too late when the clock was set
      // forward or the machine slept.
      if (Date.now() > approval.expiresAt + LATE_MS) this.#giveUp(id, "nobody answered in time");
      return;
    }
    if (rule !== undefined) await this.#rules.refresh();
    const waiting = this.#waiting.get(id);
    if (waiting === undefined || waiting.answers > 0) return;
    const decision = storedDecision(approval, waiting.request.input);
    const isTaken =
      !waiting.isResumable || decision.decision === "deny" || (await this.#store.approvals.take(id));
    waiting.settle(isTaken ? decision : { decision: "deny", reason: REPEATED_ELSEWHERE });
    this.#notify(approval);
  }

  /** Makes the call of a process that is gone, unless the answer was to deny it. */
  #repeatCall(approval: StoredApproval, consent: ApprovalDecision): void {
    const { resume } = this.#parts;
    if (resume === undefined || consent.decision === "deny") return;
    const callId = `${approval.callId}${RESUMED}`;
    const given = { callId, consent, fits: (request: ApprovalRequest) => request.callId === callId };
    const withdraw = this.#addConsent(given);
    this.#write(resume({ callId, approval }).finally(withdraw));
  }

  /** Throws `ForbiddenAnswer` unless the approver is an admin. */
  async addRule(rule: NewRule, { name, grant }: Approver): Promise<ApprovalRule> {
    if (!grant.admin) throw new ForbiddenAnswer(NO_RULES);
    return this.#rules.add(rule, name);
  }

  /** Throws `ForbiddenAnswer` unless the approver is an admin. */
  async removeRule(id: string, { grant }: Approver): Promise<boolean> {
    if (!grant.admin) throw new ForbiddenAnswer(NO_RULES);
    return this.#rules.remove(id);
  }

  /**
   * Denies all calls that wait here, and refuses new questions. Questions whose call can be repeated stay
   * open in the store: approving one after the restart makes the call.
   */
  stop(): void {
    this.#isStopping = true;
    for (const [id, { isResumable, settle }] of this.#waiting) {
      if (!isResumable) this.#giveUp(id, STOPPING);
      else {
        this.#waiting.delete(id);
        settle({ decision: "deny", reason: STAYS_OPEN });
      }
    }
  }

  /** Stops, and resolves when everything is written. */
  async close(): Promise<void> {
    this.stop();
    while (this.#writes.size > 0) await Promise.all(this.#writes);
  }

  #consentTo(request: ApprovalRequest): Consent | undefined {
    if (request.stage !== "before") return undefined;
    const given = [...this.#consents].find((candidate) => candidate.fits(request));
    if (given !== undefined && given.callId === undefined) {
      this.#consents.delete(given);
      this.#updatePolicy();
    }
    return given?.consent;
  }

  #callerOf({ callId, caller }: ApprovalRequest): string | undefined {
    const { originOf } = this.#parts;
    return originOf === undefined ? caller : originOf(callId);
  }

  /** Returns the mask for secrets in stored and shown questions and answers. */
  #mask(): Mask {
    return new Mask(this.#parts.secrets?.() ?? []);
  }

  async #ask(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision> {
    if (this.#isStopping) return { decision: "deny", reason: STOPPING };
    const earlier = this.#continued.delete(request.callId)
      ? await this.#store.approvals.ofCall(request.callId)
      : undefined;
    if (earlier !== undefined && !(await this.#store.approvals.adopt(earlier.id, request.expiresAt)))
      return this.#answerGiven(earlier.id, request);
    const id = earlier?.id ?? newId();
    const { promise, resolve } = Promise.withResolvers<ApprovalDecision>();
    const giveUp = () => this.#giveUp(id, "the call ended before anybody answered");
    const shown = shownRequest(request, this.#mask());
    // A call whose arguments contain secrets cannot be repeated: the store has only masked arguments.
    const canBeRepeated = request.stage === "before" && isDeepStrictEqual(shown.input, request.input);
    const isResumable = canBeRepeated && this.#isRepeated(request);
    const via = this.#parts.viaOf?.(request.callId);
    const writing =
      earlier === undefined
        ? this.#store.approvals.add(id, { ...shown, ...(via && { via }) }, isResumable)
        : Promise.resolve({ ...earlier, expiresAt: Math.round(request.expiresAt) });
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

  /** The answer that was given while no process waited for it. */
  async #answerGiven(id: string, request: ApprovalRequest): Promise<ApprovalDecision> {
    await this.#store.approvals.take(id);
    const approval = await this.#store.approvals.get(id);
    if (approval?.state === "expired") return { decision: "deny", reason: "nobody answered in time" };
    return approval === undefined ? { decision: "deny" } : storedDecision(approval, request.input);
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
    // Another node may have stored a consent a moment ago. It is taken here, so that nobody makes the call
    // any more.
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
/** Added to the id of a call when it is made again, because its process ended while it waited for approval. */
export const RESUMED = "-resumed";
const NOT_AN_APPROVER =
  "This token may not answer this question: it has no grant to approve calls of the tool. An admin can, or a token that was made with --approve for it.";
const NO_RULES =
  "Only an admin's token may make and remove approval rules: they answer calls of others too. Answer this question once.";
const NO_EDITS =
  "Only an admin's token may change the arguments: the call runs with the rights of its caller. Allow it as it is, or deny it and say why.";
const STOPPING = "the server is stopping";
const STAYS_OPEN = `${STOPPING}; the question stays open, and agreeing to it makes the call`;
const REPEATED_ELSEWHERE = "another process took this one for ended, and makes the call in its place";

class InboxPolicy implements ApprovalPolicy {
  decide: ApprovalPolicy["decide"] = undefined;
  readonly ask: NonNullable<ApprovalPolicy["ask"]>;
  readonly place = INBOX;
  readonly #parts: InboxParts;

  constructor(parts: InboxParts, ask: NonNullable<ApprovalPolicy["ask"]>) {
    this.#parts = parts;
    this.ask = ask;
  }

  get timeout(): number | undefined {
    return this.#parts.timeout?.();
  }
}

import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import {
  type ApprovalDecision,
  type ApprovalPolicy,
  type ApprovalRequest,
  type ApprovalVerdict,
  type Logger,
  redact,
  type SchemaIssue,
} from "@toolrack/core";
import type {
  AnsweredFor,
  ApprovalQuery,
  ApprovalRule,
  StoredApproval,
} from "../store/approvals/approval-store.ts";
import type { Page, Store } from "../store/store.ts";
import { CarriedAnswers } from "./carried-answers.ts";
import { restoreMasked } from "./restore-masked.ts";
import { verdictByRules } from "./verdict-by-rules.ts";

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

/** An answer that cannot be taken: the question stays open. */
export class UnfitAnswer extends Error {
  readonly issues: readonly SchemaIssue[];

  constructor(message: string, issues: readonly SchemaIssue[] = []) {
    super(message);
    this.name = "UnfitAnswer";
    this.issues = issues;
  }
}

export interface Answered {
  /** `elsewhere`: its call waits in another process, which alone can be told. */
  readonly outcome: "accepted" | "decided" | "elsewhere";
  readonly approval: StoredApproval;
}

export interface InboxParts {
  readonly store: Pick<Store, "approvals" | "calls">;
  readonly logger: Logger;
  /** Secret values; they are masked in what is kept and shown. */
  readonly secrets?: () => Iterable<string>;
  /** Who made the first call of a call's chain. Default: the call's own caller. */
  readonly originOf?: (callId: string) => string | undefined;
  /** Makes a call anew whose process ended while its question waited. Without it, such a question is closed. */
  readonly resume?: (call: ResumedCall) => Promise<unknown>;
  /** How long a question waits, in milliseconds. Default: as long as core lets it. */
  readonly timeout?: () => number | undefined;
  /** What is wrong with arguments that a person wrote for a tool. Without it, the call itself finds out. */
  readonly check?: (
    toolName: string,
    input: Readonly<Record<string, unknown>>,
  ) => Promise<readonly SchemaIssue[]>;
}

/** A call that somebody agreed to after its process had ended. */
export interface ResumedCall {
  /** The new one's id. */
  readonly callId: string;
  readonly approval: StoredApproval;
  readonly input: Readonly<Record<string, unknown>>;
}

interface Waiting {
  readonly request: ApprovalRequest;
  readonly isResumable: boolean;
  readonly settle: (decision: ApprovalDecision) => void;
}

/** Who answers for the server itself. */
const SERVER = "toolrack";

/** An expiry that a timer brings a moment too early is one all the same. */
const EARLY = 50;

/**
 * Where questions wait for a person. A question is on disk before anybody is shown it, the first answer counts, and
 * one whose call is gone is closed: nothing that waits here can be answered in vain.
 */
export class ApprovalInbox {
  readonly #store: InboxParts["store"];
  readonly #logger: Logger;
  readonly #secrets: () => Iterable<string>;
  readonly #originOf: InboxParts["originOf"];
  readonly #resume: InboxParts["resume"];
  readonly #check: InboxParts["check"];
  readonly #timeout: InboxParts["timeout"];
  readonly #waiting = new Map<string, Waiting>();
  /** Calls that are made anew with an answer that was given before they began. */
  readonly #agreed = new Set<string>();
  readonly #carried = new CarriedAnswers();
  readonly #repeaters = new Set<(callId: string) => boolean>();
  readonly #writing = new Set<Promise<unknown>>();
  readonly #listeners = new Set<(approval: StoredApproval) => void>();
  #rules: readonly ApprovalRule[];
  /** Counts the rules made and removed here. */
  #changes = 0;
  #isStopping = false;

  private constructor(parts: InboxParts, rules: readonly ApprovalRule[]) {
    const { store, logger, secrets = () => [], originOf, resume, check, timeout } = parts;
    this.#check = check;
    this.#timeout = timeout;
    this.#originOf = originOf;
    this.#resume = resume;
    this.#store = store;
    this.#logger = logger;
    this.#secrets = secrets;
    this.#rules = rules;
  }

  /** Closes what processes that are gone left open. */
  static async open(parts: InboxParts): Promise<ApprovalInbox> {
    const inbox = new ApprovalInbox(parts, []);
    await inbox.refresh();
    return inbox;
  }

  /** Takes up what other processes that share the store did: rules they made, questions they left behind. */
  async refresh(): Promise<void> {
    const { approvals } = this.#store;
    await approvals.expire(Date.now());
    await approvals.closeOrphans("the server stopped before anybody answered", SERVER);
    const changes = this.#changes;
    const rules = await approvals.listRules();
    // A rule that was made here in the meantime is not lost to an older list.
    if (changes === this.#changes) this.#rules = rules;
  }

  /** How the rack obtains consent. */
  get policy(): ApprovalPolicy {
    const rules = () => this.#rules;
    const timeout = this.#timeout;
    const verdict = (request: ApprovalRequest) => this.#verdict(request);
    return {
      // Without rules only dangerous tools ask, and the others are not held up by so much as a promise.
      get decide() {
        return rules().length === 0 ? undefined : verdict;
      },
      ask: (request, signal) => this.#ask(request, signal),
      get timeout() {
        return timeout?.();
      },
    };
  }

  get rules(): readonly ApprovalRule[] {
    return this.#rules;
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
    return this.#carried.add(approval, callId);
  }

  /** Undefined when there is no such question. Throws `UnfitAnswer` for arguments that the tool could not run with. */
  async answer(id: string, answer: Answer, by: string): Promise<Answered | undefined> {
    const { approvals } = this.#store;
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return this.#answerOther(id, answer, by);
    const decision = await this.#decisionOf(answer, waiting.request);
    const decided = await approvals.decide(id, this.#masked(decision), by, answer.rule);
    if (decided === undefined) return undefined;
    if (!decided.isAccepted) return { outcome: "decided", approval: decided.approval };
    try {
      // Before the call goes on: what it does next may be what the rule is for.
      if (answer.rule !== undefined) {
        const bound = this.#boundTo(answer.rule, waiting.request);
        await this.addRule({ ...bound, decision: answer.decision }, by);
      }
    } finally {
      waiting.settle(decision);
      this.#tell(decided.approval);
    }
    return { outcome: "accepted", approval: decided.approval };
  }

  /** A question whose call does not wait in this process. */
  async #answerOther(id: string, answer: Answer, by: string): Promise<Answered | undefined> {
    const { approvals } = this.#store;
    await approvals.expire(Date.now());
    const approval = await approvals.get(id);
    if (approval === undefined) return undefined;
    if (approval.state !== "pending") return { outcome: "decided", approval };
    if (this.#resume === undefined || !(await approvals.isOrphan(id)))
      return { outcome: "elsewhere", approval };
    const decision = await this.#decisionOf(answer, approval);
    const decided = await approvals.decide(id, decision, by, answer.rule);
    if (decided === undefined) return undefined;
    if (!decided.isAccepted) return { outcome: "decided", approval: decided.approval };
    if (answer.rule !== undefined) {
      const bound = answer.rule.sessionID === undefined ? {} : { caller: approval.caller };
      await this.addRule({ ...answer.rule, ...bound, decision: answer.decision }, by);
    }
    this.#tell(decided.approval);
    // What a call makes is made by that call, when it is made again.
    if (decision.decision === "allow" && approval.parentCallId === undefined) {
      this.#track(this.#makeAnew(approval, decision.arguments ?? approval.input, this.#resume));
    }
    return { outcome: "accepted", approval: decided.approval };
  }

  async #makeAnew(
    approval: StoredApproval,
    input: Readonly<Record<string, unknown>>,
    resume: NonNullable<InboxParts["resume"]>,
  ): Promise<void> {
    const callId = `${approval.callId}${RESUMED}`;
    this.#agreed.add(callId);
    try {
      await resume({ callId, approval, input });
    } finally {
      this.#agreed.delete(callId);
    }
  }

  async addRule(rule: NewRule, by: string): Promise<ApprovalRule> {
    const whole = { ...rule, id: newId(), createdBy: by, createdAt: Date.now() };
    await this.#store.approvals.addRule(whole);
    this.#changes++;
    this.#rules = [...this.#rules, whole];
    return whole;
  }

  async removeRule(id: string): Promise<boolean> {
    const isRemoved = await this.#store.approvals.removeRule(id);
    this.#changes++;
    this.#rules = this.#rules.filter((rule) => rule.id !== id);
    return isRemoved;
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
    while (this.#writing.size > 0) await Promise.all(this.#writing);
  }

  #verdict(request: ApprovalRequest): ApprovalVerdict {
    const verdict = verdictByRules(this.#rules, request, this.#callerOf(request));
    return typeof verdict === "string" && this.#agreed.has(request.callId) ? "allow" : verdict;
  }

  /** Anybody may name a session: consent in it is consent to the caller who was asked about. */
  #boundTo(rule: NonNullable<Answer["rule"]>, request: ApprovalRequest): Omit<NewRule, "decision"> {
    const caller = this.#callerOf(request);
    return rule.sessionID === undefined || caller === undefined ? rule : { ...rule, caller };
  }

  #callerOf({ callId, caller }: ApprovalRequest): string | undefined {
    return this.#originOf === undefined ? caller : this.#originOf(callId);
  }

  async #ask(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision> {
    if (this.#agreed.delete(request.callId)) return { decision: "allow" };
    const carried = this.#carried.take(request);
    if (carried !== undefined) return carried;
    if (this.#isStopping) return { decision: "deny", reason: STOPPING };
    const id = newId();
    const { promise, resolve } = Promise.withResolvers<ApprovalDecision>();
    const giveUp = () => this.#giveUp(id, "the call ended before anybody answered");
    const shown = this.#shownOf(request);
    const isResumable = canBeMadeAnew(request, shown) && this.#isMadeAnew(request);
    const writing = this.#store.approvals.add(id, shown, isResumable);
    this.#track(writing);
    const approval = await writing;
    this.#waiting.set(id, { request, isResumable, settle: resolve });
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
    if (parentCallId === undefined) return this.#resume !== undefined;
    return [...this.#repeaters].some((isRepeated) => isRepeated(parentCallId));
  }

  #giveUp(id: string, reason: string): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    const refusal: ApprovalDecision = { decision: "deny", reason };
    waiting.settle(refusal);
    this.#track(this.#closeQuestion(id, waiting.request, refusal));
  }

  async #closeQuestion(id: string, request: ApprovalRequest, refusal: ApprovalDecision): Promise<void> {
    const { approvals } = this.#store;
    const expiry = Math.round(request.expiresAt);
    if (Date.now() >= expiry - EARLY) await approvals.expire(Math.max(Date.now(), expiry));
    else await approvals.decide(id, refusal, SERVER);
    const approval = await approvals.get(id);
    if (approval !== undefined) this.#tell(approval);
  }

  /** What is kept and shown of a question: the arguments with their secrets masked. */
  #shownOf(request: ApprovalRequest): ApprovalRequest {
    const { input, details } = request;
    return {
      ...request,
      input: this.#mask(input),
      message: String(redact(request.message, { values: this.#secrets() })),
      ...(details === undefined ? {} : { details: this.#mask(details) }),
    };
  }

  async #decisionOf(answer: Answer, { input, stage, toolName }: ApprovalRequest): Promise<ApprovalDecision> {
    const said = answer.reason === undefined ? {} : { reason: answer.reason };
    if (answer.decision === "deny") return { decision: "deny", ...said };
    if (answer.arguments === undefined) return { decision: "allow", ...said };
    if (stage === "during") {
      throw new UnfitAnswer(
        `"${toolName}" is running and only asks whether it may go on: its arguments stay.`,
      );
    }
    // An object stays one.
    const edited = restoreMasked(answer.arguments, this.#mask(input), input) as Record<string, unknown>;
    const issues = (await this.#check?.(toolName, edited)) ?? [];
    if (issues.length > 0) {
      throw new UnfitAnswer(`The edited arguments do not fit the schema of "${toolName}".`, issues);
    }
    return { decision: "allow", ...said, arguments: edited };
  }

  #masked(decision: ApprovalDecision): ApprovalDecision {
    if (decision.decision === "deny" || decision.arguments === undefined) return decision;
    return { ...decision, arguments: this.#mask(decision.arguments) };
  }

  #mask(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
    const copy = redact(value, { values: this.#secrets() });
    // An object stays one, unless it could not be read at all.
    return typeof copy === "object" && copy !== null ? (copy as Record<string, unknown>) : {};
  }

  #track(writing: Promise<unknown>): void {
    const settled = writing.catch((error) => {
      this.#logger.error(
        `An approval could not be written: ${error instanceof Error ? error.message : error}`,
      );
    });
    this.#writing.add(settled);
    void settled.then(() => this.#writing.delete(settled));
  }

  #tell(approval: StoredApproval): void {
    for (const listener of this.#listeners) {
      try {
        listener(approval);
      } catch (error) {
        this.#logger.error("A listener to approvals failed:", error);
      }
    }
  }
}

const STOPPING = "the server is stopping";
/** What the id of a call that is made anew ends with. */
export const RESUMED = "-resumed";

/** Of masked arguments nothing is left to make a call with, or to know it by. */
function canBeMadeAnew({ stage, input }: ApprovalRequest, shown: ApprovalRequest): boolean {
  return stage === "before" && isDeepStrictEqual(shown.input, input);
}

/** Short enough to be typed. */
function newId(): string {
  return randomBytes(6).toString("hex");
}

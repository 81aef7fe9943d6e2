import { randomBytes } from "node:crypto";
import {
  type ApprovalDecision,
  type ApprovalPolicy,
  type ApprovalRequest,
  type ApprovalVerdict,
  type Logger,
  redact,
} from "@toolrack/core";
import type { ApprovalQuery, ApprovalRule, StoredApproval } from "../store/approvals/approval-store.ts";
import type { Page, Store } from "../store/store.ts";
import { restoreMasked } from "./restore-masked.ts";
import { ruleFor } from "./rule-for.ts";
import { settleOrphans } from "./settle-orphans.ts";

/** What a person says to a question. */
export interface Answer {
  readonly decision: "allow" | "deny";
  readonly reason?: string;
  /** With `allow`: run with these arguments instead. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** Makes the answer a rule for calls to come. */
  readonly rule?: Pick<ApprovalRule, "tool" | "input" | "sessionID">;
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
}

interface Waiting {
  readonly request: ApprovalRequest;
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
  readonly #waiting = new Map<string, Waiting>();
  readonly #writing = new Set<Promise<unknown>>();
  readonly #listeners = new Set<(approval: StoredApproval) => void>();
  #rules: readonly ApprovalRule[];
  #isStopping = false;

  private constructor({ store, logger, secrets = () => [] }: InboxParts, rules: readonly ApprovalRule[]) {
    this.#store = store;
    this.#logger = logger;
    this.#secrets = secrets;
    this.#rules = rules;
  }

  /** Closes what processes that are gone left open. Calls that were interrupted must have been settled before. */
  static async open(parts: InboxParts): Promise<ApprovalInbox> {
    await settleOrphans(parts.store, SERVER);
    return new ApprovalInbox(parts, await parts.store.approvals.listRules());
  }

  /** How the rack obtains consent. */
  get policy(): ApprovalPolicy {
    const rules = () => this.#rules;
    const verdict = (request: ApprovalRequest) => this.#verdict(request);
    return {
      // Without rules only dangerous tools ask, and the others are not held up by so much as a promise.
      get decide() {
        return rules().length === 0 ? undefined : verdict;
      },
      ask: (request, signal) => this.#ask(request, signal),
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

  /** Undefined when there is no such question. */
  async answer(id: string, answer: Answer, by: string): Promise<Answered | undefined> {
    const { approvals } = this.#store;
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) {
      await approvals.expire(Date.now());
      const approval = await approvals.get(id);
      return approval && { outcome: approval.state === "pending" ? "elsewhere" : "decided", approval };
    }
    const decision = this.#decisionOf(answer, waiting.request);
    const decided = await approvals.decide(id, this.#masked(decision), by);
    if (decided === undefined) return undefined;
    if (!decided.isAccepted) return { outcome: "decided", approval: decided.approval };
    try {
      // Before the call goes on: what it does next may be what the rule is for.
      if (answer.rule !== undefined) await this.addRule({ ...answer.rule, decision: answer.decision }, by);
    } finally {
      waiting.settle(decision);
      this.#tell(decided.approval);
    }
    return { outcome: "accepted", approval: decided.approval };
  }

  async addRule(
    rule: Pick<ApprovalRule, "tool" | "input" | "sessionID" | "decision">,
    by: string,
  ): Promise<ApprovalRule> {
    const whole = { ...rule, id: newId(), createdBy: by, createdAt: Date.now() };
    await this.#store.approvals.addRule(whole);
    this.#rules = [...this.#rules, whole];
    return whole;
  }

  async removeRule(id: string): Promise<boolean> {
    const isRemoved = await this.#store.approvals.removeRule(id);
    this.#rules = this.#rules.filter((rule) => rule.id !== id);
    return isRemoved;
  }

  /** Refuses what waits and all that is still to come: nobody can answer a server that is stopping. */
  stop(): void {
    this.#isStopping = true;
    for (const id of this.#waiting.keys()) this.#giveUp(id, STOPPING);
  }

  /** Stops, and resolves when everything is written. */
  async close(): Promise<void> {
    this.stop();
    while (this.#writing.size > 0) await Promise.all(this.#writing);
  }

  #verdict(request: ApprovalRequest): ApprovalVerdict {
    const rule = ruleFor(this.#rules, request);
    if (rule === undefined) return request.dangerous ? "ask" : "allow";
    if (rule.decision !== "deny") return rule.decision;
    return { decision: "deny", reason: `the approval rule ${rule.id} denies ${rule.tool}` };
  }

  async #ask(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision> {
    if (this.#isStopping) return { decision: "deny", reason: STOPPING };
    const id = newId();
    const { promise, resolve } = Promise.withResolvers<ApprovalDecision>();
    const giveUp = () => this.#giveUp(id, "the call ended before anybody answered");
    const writing = this.#store.approvals.add(id, this.#shownOf(request));
    this.#track(writing);
    const approval = await writing;
    this.#waiting.set(id, { request, settle: resolve });
    this.#tell(approval);
    signal.addEventListener("abort", giveUp, { once: true });
    // The call, or the server, may have ended while the question was being written.
    if (signal.aborted) giveUp();
    if (this.#isStopping) this.#giveUp(id, STOPPING);
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", giveUp);
      this.#waiting.delete(id);
    }
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
      ...(details === undefined ? {} : { details: this.#mask(details) }),
    };
  }

  #decisionOf(answer: Answer, { input }: ApprovalRequest): ApprovalDecision {
    const said = answer.reason === undefined ? {} : { reason: answer.reason };
    if (answer.decision === "deny") return { decision: "deny", ...said };
    if (answer.arguments === undefined) return { decision: "allow", ...said };
    const restored = restoreMasked(answer.arguments, this.#mask(input), input);
    // An object stays one.
    return { decision: "allow", ...said, arguments: restored as Record<string, unknown> };
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

/** Short enough to be typed. */
function newId(): string {
  return randomBytes(6).toString("hex");
}

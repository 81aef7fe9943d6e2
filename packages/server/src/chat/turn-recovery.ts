import { setTimeout as wait } from "node:timers/promises";
import type { ToolInfo } from "@toolrack/core";
import { type Grant, grantOfCaller } from "../access/index.ts";
import { callToolName, ownServer, RESUMED } from "../calls/index.ts";
import type { ChatMessage, ChatSession, StoredApproval, StoredCall } from "../store/index.ts";
import * as notices from "./notices.ts";
import type { ChatServices } from "./services.ts";
import { assistantBody } from "./sessions.ts";
import { stateOf } from "./tools.ts";
import { callEvent, failed, isSettled, openCalls, shownApproval, type ToolPart } from "./turn.ts";
import type { ActiveTurn } from "./turns.ts";

/** A call that waits for a person's answer. */
export interface WaitingCall {
  readonly part: ToolPart;
  readonly approvalId: string;
  /** The question is about an inner call. After approval, the outer call is made again. */
  readonly isNested: boolean;
}

/** A turn that continues when people have answered. */
interface WaitingTurn {
  readonly session: ChatSession;
  readonly grant: Grant;
  readonly waiting: readonly WaitingCall[];
}

/** How often the store is read for answers given in another process, in milliseconds. */
const POLL_INTERVAL = 2_000;
/** How long an approved call may take to appear in the records, in milliseconds. */
const RESUME_TIMEOUT = 60_000;
const PAGE = 500;

/** Finds the outcome of the calls of a turn whose process has ended. No call is made twice. */
export class TurnRecovery {
  readonly #services: ChatServices;
  /** Aborted when the server stops. */
  readonly #leaving: AbortSignal;

  constructor(services: ChatServices, leaving: AbortSignal) {
    this.#services = services;
    this.#leaving = leaving;
  }

  /**
   * Fills in the message's parts from the records. Returns the turn when some of its calls wait for a person.
   * `settled`: every call has an answer, and the turn has ended.
   */
  async examine(message: ChatMessage): Promise<WaitingTurn | "settled"> {
    const { store } = this.#services;
    const open = openCalls(assistantBody(message).parts);
    const session = await store.chat.getSession(message.sessionId);
    const grant = session && (await grantOfCaller(session.owner, store.tokens));
    const questions = open.length === 0 ? [] : await this.#questions(message.sessionId);
    const waiting: WaitingCall[] = [];
    for (const part of open) {
      const found = grant && (await this.#waitingOf(part, questions));
      const own = questions.find(({ callId }) => callId === part.callId);
      if (found !== undefined) waiting.push(found);
      else if (own?.state === "denied" || own?.state === "expired")
        part.state = failed(part, refusalOf(part, own));
      else if (part.started) await this.#settle(part, questions);
    }
    if (waiting.length > 0 && session !== undefined && grant !== undefined)
      return { session, grant, waiting };
    // Closes questions about calls that will not be made.
    const calls = new Set(open.map(({ callId }) => callId));
    for (const { id, state, callId, parentCallId = "" } of questions) {
      if (state === "pending" && (calls.has(callId) || calls.has(parentCallId)))
        await this.#deny(id, "the conversation that it belongs to cannot go on");
    }
    for (const part of open) if (!isSettled(part)) part.state = failed(part, notices.neverRun);
    return "settled";
  }

  /** Resolves when every question is answered and the approved calls have ended. */
  async decided(turn: ActiveTurn, waiting: readonly WaitingCall[]): Promise<void> {
    const signal = AbortSignal.any([turn.stopping, this.#leaving]);
    try {
      await Promise.all(waiting.map((call) => this.#decidedOne(call, turn, signal)));
    } catch (thrown) {
      if (turn.stopping.aborted) {
        for (const { approvalId } of waiting) await this.#deny(approvalId, "the turn was stopped");
      }
      throw thrown;
    }
  }

  async #decidedOne(
    { part, approvalId, isNested }: WaitingCall,
    turn: ActiveTurn,
    signal: AbortSignal,
  ): Promise<void> {
    const { approvals } = this.#services;
    const { sessionId } = turn.message;
    // Readers know the call by the id that it was announced with.
    const { callId } = part;
    let agreedAt: number | undefined;
    let shown: StoredApproval["state"] | undefined;
    while (!isSettled(part)) {
      // Subscribes before reading, so that no change is missed.
      const change = this.#nextChange(approvalId, signal);
      change.catch(() => {});
      const approval = await approvals.get(approvalId);
      if (approval !== undefined && approval.state !== shown) {
        shown = approval.state;
        turn.feed.publish({ type: "approval", approval: shownApproval(approval) });
      }
      if (isNested && approval?.state !== "pending") await this.#closeOthers(sessionId, callId);
      if (approval === undefined || approval.state === "denied" || approval.state === "expired") {
        part.state = isNested
          ? await this.#interrupted(part, refusedInside(approval), await this.#questions(sessionId))
          : failed(part, refusalOf(part, approval));
      } else if (approval.state === "allowed" && isNested) {
        // The tool may have changed since.
        if (isRepeatable(this.#services.registry.get(part.name)))
          return this.#beginAgain(part, approval, turn);
        part.state = await this.#interrupted(part, notices.serverEnded, await this.#questions(sessionId));
      } else if (approval.state === "allowed") {
        agreedAt ??= Date.now();
        await this.#takeResumed(part, agreedAt);
      }
      if (isSettled(part)) turn.feed.publish({ type: "state", callId, name: part.name, state: part.state });
      else await change;
    }
  }

  /** Closes the other questions of the call: if it is made again, it asks again. */
  async #closeOthers(sessionId: string, callId: string): Promise<void> {
    for (const { id, parentCallId, state } of await this.#questions(sessionId)) {
      if (parentCallId === callId && state === "pending")
        await this.#deny(id, "the call that asked was interrupted");
    }
  }

  /** The call is made again together with the remaining calls, and is already approved. */
  #beginAgain(part: ToolPart, approval: StoredApproval, turn: ActiveTurn): void {
    const { callId, name } = part;
    const again = `${callId}${RESUMED}`;
    const state = failed(part, notices.madeAgain(again));
    part.callId = again;
    part.started = undefined;
    part.state = { status: "pending", input: {}, raw: part.arguments };
    const takeBack = this.#services.approvals.reuse(approval, again);
    void turn.done.then(takeBack);
    turn.feed.publish({ type: "state", callId, name, state });
    turn.feed.publish(callEvent(part));
  }

  async #takeResumed(part: ToolPart, agreedAt: number): Promise<void> {
    const resumed = `${part.callId}${RESUMED}`;
    const call = await this.#services.store.calls.get(resumed);
    if (call?.outcome === "running") return;
    if (call !== undefined) {
      part.callId = resumed;
      part.state = settledState(part, call);
    } else if (Date.now() - agreedAt > RESUME_TIMEOUT) part.state = failed(part, notices.notResumed);
  }

  /** Resolves at the next change of the approval, or after a while, because another process may have changed it. */
  async #nextChange(approvalId: string, signal: AbortSignal): Promise<void> {
    const { approvals, registry, recorder } = this.#services;
    const { promise, resolve } = Promise.withResolvers<void>();
    const unsubscribe = [
      approvals.subscribe(({ id }) => {
        if (id === approvalId) resolve();
      }),
      registry.subscribe((event) => {
        if (event.type !== "record" || !event.record.callId.endsWith(RESUMED)) return;
        // The recorder gets the same event, so it must have handled it before the flush.
        setImmediate(() => recorder.flush().then(resolve));
      }),
    ];
    const timer = new AbortController();
    try {
      await Promise.race([
        promise,
        wait(POLL_INTERVAL, undefined, { signal: AbortSignal.any([signal, timer.signal]) }),
      ]);
    } finally {
      timer.abort();
      for (const end of unsubscribe) end();
    }
    signal.throwIfAborted();
  }

  async #settle(part: ToolPart, questions: readonly StoredApproval[]): Promise<void> {
    const call = await this.#services.store.calls.get(part.callId);
    part.state = isKnown(call)
      ? settledState(part, call)
      : await this.#interrupted(part, notices.serverEnded, questions);
  }

  /** The state of a call that was interrupted. It lists the inner calls that are on record. */
  async #interrupted(
    part: ToolPart,
    why: string,
    questions: readonly StoredApproval[],
  ): Promise<ToolPart["state"]> {
    const { items } = await this.#services.store.calls.list({ root: part.callId, limit: PAGE });
    const made = items.filter(({ callId }) => callId !== part.callId).reverse();
    if (made.length === 0) return failed(part, notices.outcomeUnknown);
    const outcomes = made.map((call) => `"${call.toolName}" ${describeOutcome(call, questions)}`);
    return failed(part, notices.interruptedChain(part.name, outcomes, why));
  }

  /** The open question of the call, if the call can still be made after approval. */
  async #waitingOf(part: ToolPart, questions: readonly StoredApproval[]): Promise<WaitingCall | undefined> {
    const own = questions.find(({ callId }) => callId === part.callId);
    if (own !== undefined)
      return (await this.#isOpen(own)) ? { part, approvalId: own.id, isNested: false } : undefined;
    const inner = questions.find(
      ({ parentCallId, state }) => parentCallId === part.callId && state === "pending",
    );
    // A question whose call cannot be made again is already closed.
    return inner && { part, approvalId: inner.id, isNested: true };
  }

  /** Also true for a question that was approved a moment ago and whose call is being made again. */
  async #isOpen({ state, callId }: StoredApproval): Promise<boolean> {
    if (state === "pending") return true;
    if (state !== "allowed") return false;
    const { approvals, store } = this.#services;
    return approvals.isRepeating(callId) || (await store.calls.get(`${callId}${RESUMED}`)) !== undefined;
  }

  /** All questions of the session that were asked before a call ran, newest first. */
  async #questions(session: string): Promise<readonly StoredApproval[]> {
    const { approvals } = this.#services;
    // Closes questions that cannot be resumed any more.
    await approvals.refresh();
    const found: StoredApproval[] = [];
    let cursor: string | undefined;
    do {
      const page = await approvals.list({ session, limit: PAGE, ...(cursor && { cursor }) });
      found.push(...page.items);
      cursor = page.next;
    } while (cursor !== undefined);
    return found.filter(({ stage }) => stage === "before");
  }

  async #deny(approvalId: string, reason: string): Promise<void> {
    await this.#services.approvals.answer(approvalId, { decision: "deny", reason }, ownServer);
  }
}

/** Whether the record has the end of the call. */
function isKnown(call: StoredCall | undefined): call is StoredCall {
  return call !== undefined && call.outcome !== "running" && call.outcome !== "interrupted";
}

function settledState(part: ToolPart, call: StoredCall): ToolPart["state"] {
  return isKnown(call)
    ? stateOf({ record: call, result: call.result })
    : failed(part, notices.outcomeUnknown);
}

/** The outcome of an inner call, as text. */
function describeOutcome(call: StoredCall, questions: readonly StoredApproval[]): string {
  const { callId, outcome, error } = call;
  if (outcome === "completed") return "was completed";
  if (
    questions.some(
      (question) => question.callId === callId && question.stage === "before" && question.state !== "allowed",
    )
  )
    return "was not run, because nobody had agreed to it";
  if (outcome === "error") return `failed (${error?.code ?? "error"})`;
  return "was under way, and it is not known whether it did its work";
}

function refusedInside({ toolName, state, reason }: Partial<StoredApproval> = {}): string {
  const reasonText = reason === undefined ? "" : ` (${reason})`;
  const answer = state === "denied" ? `a person said no${reasonText}` : "nobody answered in time";
  return `the server ended while it waited for consent to call "${toolName ?? "a tool"}", and ${answer}`;
}

/** The same text as for a call that is refused without a restart. */
function refusalOf({ name }: ToolPart, approval: StoredApproval | undefined): string {
  if (approval?.state === "denied") {
    const because = approval.reason ? `: ${approval.reason}` : ", without giving a reason";
    return `Running "${name}" was refused${because}. It did not run. Do not repeat the call unchanged.`;
  }
  return `"${name}" was not run: nobody answered the question in time.`;
}

/** Whether an interrupted call of the tool may be repeated without doing anything twice. */
export function isRepeatable(info: ToolInfo | undefined): boolean {
  if (info === undefined) return false;
  const { readOnly, idempotent } = info.metadata;
  // `call_tool` only calls another tool, which waits for approval and so has not run.
  return readOnly === true || idempotent === true || info.name === callToolName;
}

import { setTimeout as wait } from "node:timers/promises";
import { RESUMED } from "../../approvals/approval-inbox.ts";
import { type Grant, grantOf, masterGrant } from "../../auth/grant.ts";
import type { StoredApproval } from "../../store/approvals/approval-store.ts";
import type { ChatMessage, ChatSession } from "../../store/chat/chat-store.ts";
import type { StoredCall } from "../../store/store.ts";
import type { ActiveTurn } from "./active-turn.ts";
import { assistantBody } from "./chat-message-body.ts";
import type { ChatParts } from "./chat-parts.ts";
import { isSettled, isTool, type ToolPart } from "./turn/message-part.ts";
import { neverRun, notResumed, outcomeUnknown } from "./turn/notices.ts";
import { failed, stateOf } from "./turn/run-tool-call.ts";
import type { TurnEvent } from "./turn/turn-event.ts";
import { shownApproval } from "./turn/turn-loop.ts";

/** A call that waits for a person's answer. */
export interface WaitingCall {
  readonly part: ToolPart;
  readonly approvalId: string;
}

export type Examined =
  | { readonly kind: "settled" }
  | {
      readonly kind: "waiting";
      readonly session: ChatSession;
      readonly grant: Grant;
      readonly waiting: readonly WaitingCall[];
    };

/** How often it is looked for an answer that another process took. */
const LOOKING = 2_000;
/** How long a call that was agreed to may take to begin. */
const PATIENCE = 60_000;
const PAGE = 500;

/** Finds out what became of the calls of a turn whose process has ended. No call is made twice. */
export class TurnRecovery {
  readonly #parts: ChatParts;

  constructor(parts: ChatParts) {
    this.#parts = parts;
  }

  /**
   * Puts what is known into the message's parts. `waiting`: some calls wait for a person, and the turn can go on when
   * they have answered. `settled`: every call has an answer, and the turn has ended.
   */
  async examine(message: ChatMessage): Promise<Examined> {
    const { store } = this.#parts;
    const open = assistantBody(message)
      .parts.filter(isTool)
      .filter((part) => !part.client && !isSettled(part));
    const session = await store.chat.getSession(message.sessionId);
    const grant = session === undefined ? undefined : await this.#grantOf(session.owner);
    const questions = open.length === 0 ? [] : await this.#questions();
    const waiting: WaitingCall[] = [];
    for (const part of open) {
      const question = questions.find(({ callId }) => callId === part.callId);
      if (question !== undefined && grant !== undefined && (await this.#isOpen(question))) {
        waiting.push({ part, approvalId: question.id });
      } else if (question?.state === "denied" || question?.state === "expired") {
        part.state = failed(part, refusalOf(part, question));
      } else if (part.started) await this.#settle(part);
    }
    if (waiting.length > 0 && session !== undefined && grant !== undefined) {
      return { kind: "waiting", session, grant, waiting };
    }
    for (const part of open) if (!isSettled(part)) part.state = failed(part, neverRun);
    return { kind: "settled" };
  }

  /** Resolves when every question is answered and the calls that were agreed to have ended. */
  async decided(
    turn: ActiveTurn,
    waiting: readonly WaitingCall[],
    emit: (event: TurnEvent) => void,
  ): Promise<void> {
    const signal = AbortSignal.any([turn.stopping.signal, turn.leaving.signal]);
    try {
      await Promise.all(waiting.map((call) => this.#decidedOne(call, signal, emit)));
    } catch (thrown) {
      if (turn.stopping.signal.aborted) await this.#withdraw(waiting);
      throw thrown;
    }
  }

  async #decidedOne(
    { part, approvalId }: WaitingCall,
    signal: AbortSignal,
    emit: (event: TurnEvent) => void,
  ) {
    const { approvals } = this.#parts;
    // Readers know it by the id that it was announced with.
    const { callId } = part;
    let agreedAt: number | undefined;
    let shown: StoredApproval["state"] | undefined;
    while (!isSettled(part)) {
      // Listened for before it is looked, so that nothing falls in between.
      const change = this.#nextChange(approvalId, signal);
      change.catch(() => {});
      const approval = await approvals.get(approvalId);
      if (approval !== undefined && approval.state !== shown) {
        shown = approval.state;
        emit({ type: "approval", approval: shownApproval(approval) });
      }
      if (approval === undefined || approval.state === "denied" || approval.state === "expired") {
        part.state = failed(part, refusalOf(part, approval));
      } else if (approval.state === "allowed") {
        agreedAt ??= Date.now();
        await this.#takeResumed(part, agreedAt);
      }
      if (isSettled(part)) emit({ type: "state", callId, name: part.name, state: part.state });
      else await change;
    }
  }

  async #takeResumed(part: ToolPart, agreedAt: number): Promise<void> {
    const resumed = `${part.callId}${RESUMED}`;
    const call = await this.#parts.store.calls.get(resumed);
    if (call?.outcome === "running") return;
    if (call !== undefined) {
      part.callId = resumed;
      part.state = settledState(part, call);
    } else if (Date.now() - agreedAt > PATIENCE) part.state = failed(part, notResumed);
  }

  /** Told by the inbox where that is asked, and looked for where it is not. */
  async #nextChange(approvalId: string, signal: AbortSignal): Promise<void> {
    const { approvals, registry, recorder } = this.#parts;
    const { promise, resolve } = Promise.withResolvers<void>();
    const unsubscribe = [
      approvals.subscribe(({ id }) => {
        if (id === approvalId) resolve();
      }),
      registry.subscribe((event) => {
        if (event.type !== "record" || !event.record.callId.endsWith(RESUMED)) return;
        // Who keeps the record is told of it at the same time.
        setImmediate(() => recorder.flush().then(resolve));
      }),
    ];
    const timer = new AbortController();
    try {
      await Promise.race([
        promise,
        wait(LOOKING, undefined, { signal: AbortSignal.any([signal, timer.signal]) }),
      ]);
    } finally {
      timer.abort();
      for (const end of unsubscribe) end();
    }
    signal.throwIfAborted();
  }

  async #settle(part: ToolPart): Promise<void> {
    const call = await this.#parts.store.calls.get(part.callId);
    part.state = call === undefined ? failed(part, outcomeUnknown) : settledState(part, call);
  }

  /** Also one that somebody agreed to a moment ago, whose call is being made anew. */
  async #isOpen({ state, callId }: StoredApproval): Promise<boolean> {
    if (state === "pending") return true;
    return state === "allowed" && (await this.#parts.store.calls.get(`${callId}${RESUMED}`)) !== undefined;
  }

  async #questions(): Promise<readonly StoredApproval[]> {
    const { items } = await this.#parts.approvals.list({ limit: PAGE });
    return items.filter(({ stage }) => stage === "before");
  }

  async #withdraw(waiting: readonly WaitingCall[]): Promise<void> {
    for (const { approvalId } of waiting) {
      await this.#parts.approvals.answer(
        approvalId,
        { decision: "deny", reason: "the turn was stopped" },
        "toolrack",
      );
    }
  }

  async #grantOf(owner: string): Promise<Grant | undefined> {
    if (owner === masterGrant.id) return masterGrant;
    const token = (await this.#parts.store.tokens.list()).find(({ id }) => id === owner);
    if (token === undefined || (token.expiresAt !== undefined && token.expiresAt <= Date.now()))
      return undefined;
    return grantOf(token);
  }
}

function settledState(part: ToolPart, call: StoredCall): ToolPart["state"] {
  if (call.outcome === "running" || call.outcome === "interrupted") return failed(part, outcomeUnknown);
  return stateOf({ record: call, result: call.result });
}

function refusalOf({ name }: ToolPart, approval: StoredApproval | undefined): string {
  if (approval?.state === "denied") {
    return `"${name}" was not run: a person said no${approval.reason === undefined ? "" : ` (${approval.reason})`}.`;
  }
  return `"${name}" was not run: nobody answered the question in time.`;
}

import { setTimeout as wait } from "node:timers/promises";
import type { ToolInfo } from "@toolrack/core";
import { type RecalledCall, recallCalls } from "@toolrack/core/internal";
import { type Grant, grantOfCaller } from "../access/index.ts";
import { callToolName, ownServer, RESUMED, runToolName } from "../calls/index.ts";
import type { ChatMessage, ChatSession, StoredApproval, StoredCall } from "../store/index.ts";
import type { ActiveTurn } from "./active-turns.ts";
import * as notices from "./model-messages.ts";
import type { ChatServices } from "./services.ts";
import { assistantBody } from "./sessions.ts";
import { stateOf } from "./tools.ts";
import { approvalEvent, callEvent, failed, isSettled, openCalls, stateEvent, type ToolPart } from "./turn.ts";

export interface WaitingCall {
  readonly part: ToolPart;
  /** Undefined for a run of code, which goes on by itself. */
  readonly approvalId?: string;
  /** The question is about an inner call that this call made. After approval, this call is made again. */
  readonly isNested: boolean;
}

/** A turn that continues when people have answered the questions about its calls. */
interface WaitingTurn {
  readonly session: ChatSession;
  readonly grant: Grant;
  readonly waiting: readonly WaitingCall[];
}

/** How often the store is read for people's answers and for outcomes of approved calls, in milliseconds. */
const POLL_INTERVAL = 500;
/** How long an approved call may take to appear in the records, in milliseconds. */
const RESUME_TIMEOUT = 60_000;
const PAGE = 500;

/**
 * Finds the outcome of the calls of a turn whose process has ended. Never repeats a call that could do
 * something twice.
 */
export class TurnRecovery {
  readonly #services: ChatServices;
  /** Aborted when the server stops. */
  readonly #leaving: AbortSignal;

  constructor(services: ChatServices, leaving: AbortSignal) {
    this.#services = services;
    this.#leaving = leaving;
  }

  /**
   * Fills in the states of the message's open calls from the records. Returns the turn when some of its calls
   * wait for a person. `settled`: no call is open any more, and the turn does not go on.
   */
  async examine(message: ChatMessage): Promise<WaitingTurn | "settled"> {
    const { store } = this.#services;
    const open = openCalls(assistantBody(message).parts);
    const session = await store.chat.getSession(message.sessionId);
    const grant = session && (await grantOfCaller(session.owner, store.tokens));
    const questions = open.length === 0 ? [] : await this.#questions(message.sessionId);
    const waiting: WaitingCall[] = [];
    for (const part of open) {
      if (grant && (await this.#goesOn(part))) {
        waiting.push({ part, isNested: false });
        continue;
      }
      const own = questions.find(({ callId }) => callId === part.callId);
      // A question about an inner call whose outer call cannot be made again is already closed.
      const inner = questions.find((one) => one.parentCallId === part.callId && one.state === "pending");
      const asked = own ?? inner;
      if (grant && asked && (asked === inner || (await this.#isOpen(asked))))
        waiting.push({ part, approvalId: asked.id, isNested: asked !== own });
      else if (own?.state === "denied" || own?.state === "expired")
        part.state = failed(part, refusalOf(part, own));
      else if (part.started) {
        const call = await store.calls.get(part.callId);
        part.state = isEnded(call)
          ? stateOf({ record: call, result: call.result })
          : await this.#interrupted(part, notices.serverEnded, questions);
      }
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

  /** Resolves when every question is answered, and every approved call has ended or will be made again. */
  async decided(turn: ActiveTurn, waiting: readonly WaitingCall[]): Promise<void> {
    const signal = AbortSignal.any([turn.stopping, this.#leaving]);
    try {
      await Promise.all(waiting.map((call) => this.#decidedOne(call, turn, signal)));
    } catch (thrown) {
      if (turn.stopping.aborted) {
        for (const { part, approvalId } of waiting) {
          if (approvalId !== undefined) await this.#deny(approvalId, "the turn was stopped");
          else this.#services.registry.cancel(part.callId, "the turn was stopped");
        }
      }
      throw thrown;
    }
  }

  async #decidedOne(
    { part, approvalId, isNested }: WaitingCall,
    { message: { sessionId }, feed, done }: ActiveTurn,
    signal: AbortSignal,
  ): Promise<void> {
    const { approvals, registry } = this.#services;
    // Readers know the call by the id that it was announced with.
    const { callId } = part;
    if (approvalId === undefined) {
      await this.#untilEnded(part, signal);
      return feed.publish(stateEvent(part));
    }
    let agreedAt: number | undefined;
    let shown: StoredApproval["state"] | undefined;
    for (;;) {
      const approval = await approvals.get(approvalId);
      if (approval !== undefined && approval.state !== shown) feed.publish(approvalEvent(approval));
      shown = approval?.state;
      if (isNested && shown !== "pending") {
        const questions = await this.#closeOthers(sessionId, callId);
        // The tool may have changed since the question was asked.
        const isRepeated = shown === "allowed" && isRepeatable(registry.get(part.name));
        if (approval !== undefined && isRepeated) {
          const takeBack = approvals.reuse(approval, `${callId}${RESUMED}`);
          void done.then(takeBack);
          // The engine makes this call again with the remaining ones; its inner call is then already
          // approved.
          feed.publish(
            stateEvent({ ...part, state: failed(part, notices.madeAgain(`${callId}${RESUMED}`)) }),
          );
          part.callId = `${callId}${RESUMED}`;
          part.started = undefined;
          part.state = { status: "pending", input: {}, raw: part.arguments };
          feed.publish(callEvent(part));
          return;
        }
        const why = shown === "allowed" ? notices.serverEnded : refusedInside(approval);
        part.state = await this.#interrupted(part, why, questions);
      } else if (shown === "allowed") {
        agreedAt ??= Date.now();
        await this.#takeResumed(part, agreedAt);
      } else if (shown !== "pending") part.state = failed(part, refusalOf(part, approval));
      if (isSettled(part)) return feed.publish(stateEvent({ ...part, callId }));
      await wait(POLL_INTERVAL, undefined, { signal });
    }
  }

  /**
   * Closes the other questions about inner calls of the call: when the call is made again, it asks them
   * again. Returns all questions of the session.
   */
  async #closeOthers(sessionId: string, callId: string): Promise<readonly StoredApproval[]> {
    const questions = await this.#questions(sessionId);
    for (const { id, parentCallId, state } of questions) {
      if (parentCallId === callId && state === "pending")
        await this.#deny(id, "the call that asked was interrupted");
    }
    return questions;
  }

  /** Whether the call runs code that goes on after the restart, under its id. */
  async #goesOn({ name, callId, started }: ToolPart): Promise<boolean> {
    if (name !== runToolName || !started) return false;
    return (await this.#services.store.calls.get(callId))?.outcome === "running";
  }

  async #untilEnded(part: ToolPart, signal: AbortSignal): Promise<void> {
    for (;;) {
      const call = await this.#services.store.calls.get(part.callId);
      const isRunning = call?.outcome === "running";
      if (isEnded(call)) part.state = stateOf({ record: call, result: call.result });
      else if (!isRunning) part.state = failed(part, notices.outcomeUnknown);
      if (isSettled(part)) return;
      await wait(POLL_INTERVAL, undefined, { signal });
    }
  }

  /** Takes over the outcome of a call that was made anew after its approval, once that call has ended. */
  async #takeResumed(part: ToolPart, agreedAt: number): Promise<void> {
    const resumed = `${part.callId}${RESUMED}`;
    const call = await this.#services.store.calls.get(resumed);
    if (call?.outcome === "running") return;
    if (call !== undefined) {
      part.callId = resumed;
      part.state = isEnded(call)
        ? stateOf({ record: call, result: call.result })
        : failed(part, notices.outcomeUnknown);
    } else if (Date.now() - agreedAt > RESUME_TIMEOUT) part.state = failed(part, notices.notResumed);
  }

  /** The error state of a call that was interrupted. Its text lists the inner calls that are on record. */
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

  /** Whether the question waits for its answer, or was approved and its call is or was made again. */
  async #isOpen({ state, callId }: StoredApproval): Promise<boolean> {
    if (state !== "allowed") return state === "pending";
    const { approvals, store } = this.#services;
    return approvals.isRepeating(callId) || (await store.calls.get(`${callId}${RESUMED}`)) !== undefined;
  }

  /** All questions of the session that were asked before a call ran, newest first. */
  async #questions(session: string): Promise<readonly StoredApproval[]> {
    const { approvals } = this.#services;
    // Closes questions whose calls cannot be resumed any more.
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

/** The outcome of an inner call, as text. */
function describeOutcome(
  { callId, outcome, error }: StoredCall,
  questions: readonly StoredApproval[],
): string {
  if (outcome === "completed") return "was completed";
  if (questions.some((question) => question.callId === callId && question.state !== "allowed"))
    return "was not run, because nobody had agreed to it";
  if (outcome === "error" || outcome === "cancelled") return `failed (${error?.code ?? "error"})`;
  return "was under way, and it is not known whether it did its work";
}

function refusedInside({ toolName, state, reason }: Partial<StoredApproval> = {}): string {
  const reasonText = reason === undefined ? "" : ` (${reason})`;
  const answer = state === "denied" ? `a person said no${reasonText}` : "nobody answered in time";
  return `the server ended while it waited for consent to call "${toolName ?? "a tool"}", and ${answer}`;
}

/** The same text as for a call that is refused without a restart. */
function refusalOf({ name }: ToolPart, approval: StoredApproval | undefined): string {
  if (approval?.state !== "denied") return `"${name}" was not run: nobody answered the question in time.`;
  const because = approval.reason ? `: ${approval.reason}` : ", without giving a reason";
  return `Running "${name}" was refused${because}. It did not run. Do not repeat the call unchanged.`;
}

/** Whether an interrupted call of the tool may be repeated without doing anything twice. */
export function isRepeatable(info: ToolInfo | undefined): boolean {
  if (info === undefined) return false;
  const { readOnly, idempotent } = info.metadata;
  // `toolrack_call` only calls another tool, which waits for approval and so has not run.
  return readOnly === true || idempotent === true || info.name === callToolName;
}

/** How many calls loop detection looks back. */
const MOST_RECALLED = 24;

type Sources = Pick<ChatServices, "registry" | "store" | "logger">;

/**
 * Restores the memory of loop detection from the call records, for a session whose earlier calls were made in
 * another process. `callIds`: exactly these calls, oldest first; default: the last calls of the session.
 * Never rejects.
 */
export async function restoreLoopMemory(
  sources: Sources,
  sessionID: string,
  owner: string,
  callIds?: readonly string[],
): Promise<void> {
  const { registry, store, logger } = sources;
  try {
    const known = callIds?.slice(-MOST_RECALLED) ?? (await lastCalls(store, sessionID));
    const calls = await Promise.all(known.map((callId) => recall(sources, callId)));
    const recalled = calls.filter((call) => call !== undefined);
    registry.restoreLoopState(sessionID, recallCalls(recalled), owner);
  } catch (error) {
    // Loop detection is a guard and must not make the conversation fail.
    logger.warn("Loop detection does not remember a conversation that goes on:", error);
  }
}

/** What came before a person let the session go on no longer counts. */
async function lastCalls({ calls, loopReleases }: Sources["store"], session: string): Promise<string[]> {
  const since = await loopReleases.latest(session);
  const { items } = await calls.list({ session, top: true, limit: MOST_RECALLED, ...(since && { since }) });
  return items.map(({ callId }) => callId).reverse();
}

async function recall({ registry, store }: Sources, callId: string): Promise<RecalledCall | undefined> {
  const record = await store.calls.get(callId);
  if (!isEnded(record)) return undefined;
  const { result, resultSize, flags, toolName } = record;
  const metadata = registry.get(toolName)?.metadata ?? {};
  if (flags?.truncated !== true) return { record, result, metadata };
  // The result may be stored on another node; then loop detection does not learn of the call.
  const whole = await store.calls.readResult(callId, 0, resultSize).catch(() => undefined);
  return whole && { record, result: { ...result, content: whole.text }, metadata };
}

/** Whether the call is on record as ended, with a known outcome. */
function isEnded(call: StoredCall | undefined): call is StoredCall {
  return call !== undefined && call.outcome !== "running" && call.outcome !== "interrupted";
}

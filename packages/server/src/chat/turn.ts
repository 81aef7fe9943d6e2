import { isDeepStrictEqual } from "node:util";
import type { ProgressUpdate, RackEvent, ToolState } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import type { Reach } from "../http/wire/index.ts";
import type { StoredApproval } from "../store/index.ts";
import type { ModelEndpoint, ModelMessage, ModelTool, ModelUsage } from "./model.ts";
import * as notices from "./notices.ts";

/** The input of a turn, which lasts from one user message to the end of the answer. */
export interface Turn {
  readonly id: string;
  readonly sessionID: string;
  readonly reach: Reach;
  readonly endpoint: ModelEndpoint;
  readonly history: readonly ModelMessage[];
  /** Other members of the provider request, such as `temperature`. */
  readonly body?: Readonly<Record<string, unknown>>;
  readonly clientTools?: readonly ModelTool[];
  /** The topic of the conversation: decides which tools are offered when not all fit. */
  readonly query: string;
  /** Names of the tools that were chosen for the conversation before. */
  readonly chosen?: readonly string[] | undefined;
  /** The parts so far. The engine appends to it. */
  readonly parts: MessagePart[];
  /** Tokens that a resumed turn used before. */
  readonly usage?: ModelUsage | undefined;
  /** The model's ids of calls whose results were already removed from the history. */
  readonly compacted?: Iterable<string>;
  /** Maps the model's id of a call in the history to the rack's. */
  readonly callIdOf?: (toolCallId: string) => string | undefined;
  /** Ends the turn and cancels its calls. */
  readonly signal: AbortSignal;
  /** Trace headers for the calls and the provider: `traceparent`, `tracestate`, `baggage`. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>> | undefined;
  readonly emit: (event: TurnEvent) => void;
  /** Stores the parts. Awaited before a call is made, so that recovery knows which calls may have run. */
  readonly save?: () => Promise<void>;
}

/** The limits of a turn, as far as the config sets no others. */
export const usualLimits = {
  /** Requests to the model. */
  maxRounds: 50,
  /** Time, without the time that people take to answer. */
  maxSeconds: 900,
  /** Tokens of all requests. */
  maxTokens: 2_000_000,
  /** Characters of one answer: text, reasoning and arguments together. No model of today writes as much. */
  maxAnswer: 4_000_000,
};

export type TurnLimits = Readonly<typeof usualLimits>;

export type TurnEnd = {
  /**
   * `stop`: the model was done. `client_tools`: the client is to run calls. `length`, `content_filter`: the provider
   * cut the answer. `limit`: a limit of the rack. `loop`: loop detection. `stopped`: a person stopped it.
   * `interrupted`: the server ended. `error`: the model did not answer.
   */
  readonly reason:
    | ("stop" | "client_tools" | "length" | "content_filter" | "limit" | "loop" | "stopped")
    | ("interrupted" | "error");
  /** For people, when the reason alone is not enough. */
  readonly message?: string;
  /** Set for an error. */
  readonly code?: string;
  /** For an error: seconds after which a retry makes sense. */
  readonly retryAfter?: number;
  /** For an error: the provider's own details, such as its `code`. */
  readonly details?: Readonly<Record<string, unknown>>;
};

/** The part of an approval that a conversation shows. */
export type ShownApproval = Pick<
  StoredApproval,
  "id" | "callId" | "toolName" | "displayName" | "input" | "message" | "state" | "expiresAt" | "reason"
>;

/**
 * The events of a turn, in order. A session's turn begins with `turn`; `userMessageId` is the message that is answered,
 * and not set for a resumed turn. The last event is `end`.
 */
export type TurnEvent = Readonly<
  | { type: "turn"; sessionId: string; messageId: string; userMessageId?: string }
  /** `logprobs`: of a text, if the client asked for them. */
  | { type: "text" | "reasoning" | "refusal"; text: string; logprobs?: unknown }
  | ({ type: "call" } & Pick<ToolPart, "id" | "callId" | "name" | "displayName" | "arguments" | "client">)
  | { type: "state"; callId: string; name: string; state: ToolState }
  | { type: "progress"; callId: string; update: ProgressUpdate }
  | { type: "approval"; approval: ShownApproval }
  | { type: "loop"; callId: string; verdict: Extract<RackEvent, { type: "loop" }>["verdict"] }
  | { type: "retry"; attempt: number; waitMs: number; reason: string }
  | { type: "compacted"; ids: readonly string[] }
  | { type: "usage"; round: number; usage: ModelUsage; total: ModelUsage }
  /** The ids are set for a session's turn. */
  | { type: "end"; end: TurnEnd; sessionId?: string; messageId?: string; usage?: ModelUsage | undefined }
>;

/** A numbered event. Numbers begin at 1. */
export interface FeedEntry {
  readonly number: number;
  readonly type: TurnEvent["type"];
  readonly data: TurnEvent;
}

/** The events of one turn, for readers that may join late or reconnect. The oldest entries are dropped. */
export class TurnFeed {
  /** Unique, even among feeds of the same turn in other processes, which number events differently. */
  readonly id = uuid();
  readonly #entries: FeedEntry[] = [];
  readonly #listeners = new Set<(entry: FeedEntry) => void>();
  readonly #most: number;
  #last = 0;

  constructor(most = 5_000) {
    this.#most = most;
  }

  get last(): number {
    return this.#last;
  }

  get isFollowed(): boolean {
    return this.#listeners.size > 0;
  }

  publish(data: TurnEvent): void {
    const entry = { number: ++this.#last, type: data.type, data };
    this.#entries.push(entry);
    // Drops entries in large steps, because every step copies the rest.
    if (this.#entries.length > this.#most * 1.25) this.keep(this.#most);
    for (const listener of this.#listeners) listener(entry);
  }

  keep(count: number): void {
    this.#entries.splice(0, Math.max(0, this.#entries.length - count));
  }

  /** Whether all entries after the number are still kept. */
  knowsAfter(number: number): boolean {
    const oldest = this.#entries[0]?.number ?? this.#last + 1;
    return number <= this.#last && number + 1 >= oldest;
  }

  /** Calls the listener for all entries after the number, and for new ones until the returned function is called. */
  follow(after: number, listener: (entry: FeedEntry) => void): () => void {
    for (const entry of this.#entries) if (entry.number > after) listener(entry);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** The events that explain how the parts changed, for readers that see only the stored parts. */
export function eventsBetween(before: readonly MessagePart[], after: readonly MessagePart[]): TurnEvent[] {
  return after.flatMap((part, at): TurnEvent[] => {
    const earlier = before[at];
    if (part.type === "tool") {
      const known = earlier?.type === "tool" ? earlier.state : undefined;
      const hasChanged = known ? !isDeepStrictEqual(known, part.state) : part.state.status !== "pending";
      return [...(known ? [] : [callEvent(part)]), ...(hasChanged ? [stateEvent(part)] : [])];
    }
    const known = earlier?.type === part.type ? earlier.text : "";
    // Text only grows, so the new part is its end.
    const text = part.text.startsWith(known) ? part.text.slice(known.length) : "";
    return text === "" ? [] : [{ type: part.type, text }];
  });
}

export function callEvent(part: ToolPart): TurnEvent {
  const { id, callId, name, displayName, arguments: written, client } = part;
  return { type: "call", id, callId, name, displayName, arguments: written, ...(client && { client }) };
}

export function stateEvent({ callId, name, state }: ToolPart): TurnEvent {
  return { type: "state", callId, name, state };
}

export function approvalEvent(approval: StoredApproval): TurnEvent {
  const { id, callId, toolName, displayName, input, message, state, expiresAt, reason } = approval;
  const shown = { id, callId, toolName, displayName, input, message, state, expiresAt, reason };
  return { type: "approval", approval: shown };
}

/** A part of the assistant's answer. Parts of one round came in one answer of the model. Plain JSON. */
export type MessagePart = TextPart | ToolPart;

export interface TextPart {
  readonly type: "text" | "reasoning" | "refusal";
  readonly round: number;
  text: string;
}

export interface ToolPart {
  readonly type: "tool";
  readonly round: number;
  /** The model's id of the call. */
  readonly id: string;
  /** The rack's id, which finds the record and the whole result. Empty for a tool of the client. */
  callId: string;
  /** The tool's name as the model wrote it. */
  readonly name: string;
  readonly displayName: string;
  /** The arguments as the model wrote them, or the input of a `custom` tool. */
  readonly arguments: string;
  /** Set when the call is not a `function`: `custom`, or the type that the client declared. */
  readonly kind?: string;
  /** The client runs the tool and sends the result. */
  readonly client?: true;
  readonly echo?: Echo;
  /** Set before the call is made, so that recovery knows that it may have run. */
  started?: true | undefined;
  state: ToolState;
}

/**
 * Extra members of a call that the provider needs back in later rounds of the turn, such as thought signatures. They
 * are sent to no other provider.
 */
export interface Echo {
  readonly provider: string;
  /** Extra members of the call. */
  readonly call?: Readonly<Record<string, unknown>>;
  /** Extra members of the message; kept with the first call of a round. */
  readonly message?: Readonly<Record<string, unknown>>;
  /** Name of the message member for the round's reasoning; kept with the first call of a round. */
  readonly reasoning?: string;
}

export function isTool(part: MessagePart): part is ToolPart {
  return part.type === "tool";
}

export function isSettled({ state }: ToolPart): boolean {
  return state.status === "completed" || state.status === "error";
}

export function textOfParts(parts: readonly MessagePart[], type: TextPart["type"] = "text"): string {
  return parts.map((part) => (part.type === type ? part.text : "")).join("");
}

/** Unfinished calls of the rack's tools. */
export function openCalls(parts: readonly MessagePart[]): ToolPart[] {
  return parts.filter(isTool).filter((part) => !part.client && !isSettled(part));
}

/** Gives every open call an error as its answer, because providers refuse unanswered calls. Returns those calls. */
export function settleOpenCalls(parts: readonly MessagePart[]): ToolPart[] {
  const open = openCalls(parts);
  for (const part of open) part.state = failed(part, notices.stoppedCall);
  return open;
}

/** The error state of a call. */
export function failed({ state }: Pick<ToolPart, "state">, error: string): ToolState {
  const now = Date.now();
  const start = "time" in state ? state.time.start : now;
  return { status: "error", input: state.input, error, time: { start, end: now } };
}

/** The number of the round that comes after the parts. */
export function nextRound(parts: readonly MessagePart[]): number {
  return (parts.at(-1)?.round ?? 0) + 1;
}

export function appendText(
  { parts, emit }: Pick<Turn, "parts" | "emit">,
  type: TextPart["type"],
  round: number,
  text: string,
  logprobs?: unknown,
): void {
  if (text === "") return;
  const last = parts.at(-1);
  if (last?.type === type && last.round === round) last.text += text;
  else parts.push({ type, round, text });
  emit({ type, text, ...(logprobs === undefined ? {} : { logprobs }) });
}

/** The separator between the texts of two rounds. */
export function separator(before: string): string {
  return before === "" || before.endsWith("\n\n") ? "" : before.endsWith("\n") ? "\n" : "\n\n";
}

import { isDeepStrictEqual } from "node:util";
import type { ProgressUpdate, RackEvent, ToolState } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import type { Reach } from "../http/wire/index.ts";
import type { StoredApproval } from "../store/index.ts";
import type { ModelEndpoint, ModelMessage, ModelTool, ModelUsage } from "./model.ts";
import * as notices from "./model-messages.ts";

/** The input of a turn, which lasts from one user message to the end of the answer. */
export interface Turn {
  readonly id: string;
  readonly sessionID: string;
  /** The session is not stored, and was made for this turn alone. */
  readonly isPassingSession?: boolean;
  readonly reach: Reach;
  readonly endpoint: ModelEndpoint;
  readonly history: readonly ModelMessage[];
  /** Further members of the request to the provider, such as `temperature`. */
  readonly body?: Readonly<Record<string, unknown>>;
  readonly clientTools?: readonly ModelTool[];
  /**
   * The id under which calls are handed to the client, in hexadecimal digits. Default: a new one. A function for a client
   * that uses the older `functions`, whose calls have no ids; see `fromFunctions`.
   */
  readonly handoffId?:
    | string
    | ((call: { readonly name: string; readonly arguments: string }) => string)
    | undefined;
  /** Names of the tools that an earlier turn of the conversation chose. */
  readonly chosen?: readonly string[] | undefined;
  /** The parts of the assistant message so far. The engine appends to this array. */
  readonly parts: MessagePart[];
  /** Tokens that a resumed turn used before it was interrupted. */
  readonly usage?: ModelUsage | undefined;
  /** The `Compactor`'s keys of results and images that were already removed from the history. */
  readonly compacted?: Iterable<string>;
  /** Maps the model's id of a call in the history to the rack's. */
  readonly callIdOf?: (toolCallId: string) => string | undefined;
  /** Aborting it ends the turn and cancels the turn's calls. */
  readonly signal: AbortSignal;
  /**
   * The headers of the request that asked for the turn. The calls get them all, the provider those of a trace:
   * `traceparent`, `tracestate`, `baggage`.
   */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>> | undefined;
  readonly emit: (event: TurnEvent) => void;
  /** Stores the parts. Awaited before a call is made, so that recovery knows which calls may have run. */
  readonly save?: () => Promise<void>;
}

export type TurnEnd = {
  /**
   * `stop`: the model was done. `client_tools`: the model called tools that the client must run. `length`,
   * `content_filter`: the provider cut the answer. `limit`: a limit of the rack was reached. `loop`: loop
   * detection stopped the turn. `stopped`: a person stopped the turn, its client disconnected, or its token
   * was withdrawn. `interrupted`: the server ended. `error`: the provider or the server failed.
   */
  readonly reason:
    | ("stop" | "client_tools" | "length" | "content_filter" | "limit" | "loop" | "stopped")
    | ("interrupted" | "error");
  /** For people, when the reason alone is not enough. */
  readonly message?: string;
  /** For an error: its code. */
  readonly code?: string;
  /** For an error: seconds after which a retry makes sense. */
  readonly retryAfter?: number;
  /** For an error: the provider's own details, such as its `code`. */
  readonly details?: Readonly<Record<string, unknown>>;
};

/** What people and clients are told of a turn that has failed. */
export function whyFailed({ reason, message }: TurnEnd): string {
  if (reason === "interrupted") return "The server stopped before the answer was finished.";
  return message ?? "The model did not answer.";
}

/** The part of an approval that a conversation shows. */
export type ShownApproval = Pick<
  StoredApproval,
  | ("id" | "callId" | "toolName" | "displayName" | "input" | "message" | "state" | "expiresAt" | "reason")
  | "arguments"
>;

/**
 * The events of a turn, in order. The turn of a session begins with `turn` and ends with `end`.
 * `userMessageId`: the id of the message that the turn answers; not set for a resumed turn.
 */
export type TurnEvent = Readonly<
  | { type: "turn"; sessionId: string; messageId: string; userMessageId?: string }
  /** `logprobs`: log probabilities of the text's tokens, if the client asked for them. */
  | { type: "text" | "reasoning" | "refusal"; text: string; logprobs?: unknown }
  | ({ type: "call" } & Pick<ToolPart, "id" | "callId" | "name" | "displayName" | "arguments" | "client">)
  | { type: "state"; callId: string; name: string; state: ToolState }
  | { type: "progress"; callId: string; update: ProgressUpdate }
  | { type: "approval"; approval: ShownApproval }
  | { type: "loop"; callId: string; verdict: Extract<RackEvent, { type: "loop" }>["verdict"] }
  | ({ type: "model" } & ModelRequestFacts)
  | { type: "retry"; attempt: number; waitMs: number; reason: string }
  | { type: "compacted"; ids: readonly string[] }
  | { type: "usage"; round: number; usage: ModelUsage; total: ModelUsage }
  /** `sessionId` and `messageId` are set when the turn belongs to a stored session. */
  | { type: "end"; end: TurnEnd; sessionId?: string; messageId?: string; usage?: ModelUsage | undefined }
>;

/** Which model was asked in a round, and what it was shown. Plain JSON. */
export interface ModelRequestFacts {
  readonly round: number;
  readonly provider: string;
  readonly model: string;
  /** How many messages and how many tools the model was sent. */
  readonly messages: number;
  readonly tools: number;
  /** How many old results and images were replaced by a line of text, because the conversation is long. */
  readonly compacted?: number;
  /** How many images were replaced by a line of text, because the model does not accept images. */
  readonly images?: number;
  /** Why the model that should have answered did not, if this one was asked instead. */
  readonly instead?: string;
}

/** A numbered event. Numbers begin at 1. */
export interface FeedEntry {
  readonly number: number;
  readonly type: TurnEvent["type"];
  readonly data: TurnEvent;
}

/**
 * The events of one turn, for readers that may join late or reconnect. When there are too many, the oldest
 * are dropped.
 */
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
    // Text only grows, so the text that was added stands at its end.
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
  // The arguments as the person who agreed changed them, under the same name as in `/api/approvals`.
  const { arguments: edited } = approval;
  return { type: "approval", approval: { ...shown, ...(edited && { arguments: edited }) } };
}

/**
 * A part of the assistant message that a turn writes. A turn has several rounds: in each, the model responds
 * once, and the parts of that response have the same `round`. Plain JSON.
 */
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
  /** The rack's id of the call, which finds its record and whole result. Empty for a client's tool. */
  callId: string;
  /** The tool's name as the model wrote it. */
  readonly name: string;
  readonly displayName: string;
  /** The arguments as the model wrote them, or the input of a `custom` tool. */
  readonly arguments: string;
  /** The arguments had secrets, which are masked here. Such a call is made only by the turn that was told of it. */
  readonly masked?: true;
  /** Set when the call is not a `function`: `custom`, or the type that the client declared. */
  readonly kind?: string;
  /** The client runs the tool and sends the result. */
  readonly client?: true;
  readonly echo?: Echo;
  /** The model reads the outcome as `{success, data}` or `{success, error}`: the tool belongs to a skill. */
  readonly envelope?: true;
  /** Set before the call is made, so that recovery knows that it may have run. */
  started?: true | undefined;
  state: ToolState;
}

/**
 * Members beyond those of Chat Completions that a provider put on a call or on the message with the call,
 * such as thought signatures. The provider needs them back in later rounds of the turn. They are sent to no
 * other provider.
 */
export interface Echo {
  readonly provider: string;
  /** The members that the provider put on the call. */
  readonly call?: Readonly<Record<string, unknown>>;
  /**
   * The members that the provider put on the message with the round's calls. Only the round's first call has
   * them.
   */
  readonly message?: Readonly<Record<string, unknown>>;
  /**
   * The message member in which the provider sent the round's reasoning and wants it back. Only the round's
   * first call has this name.
   */
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

/** What clients that ask for it are told of the calls of the rack's tools. */
export function shownCalls(parts: readonly MessagePart[]): object[] {
  const own = parts.filter(isTool).filter(({ client }) => !client);
  return own.map(({ callId, name, displayName, arguments: written, state: { status } }) => {
    return { callId, name, displayName, arguments: written, status };
  });
}

/** Unfinished calls of the rack's tools. */
export function openCalls(parts: readonly MessagePart[]): ToolPart[] {
  return parts.filter(isTool).filter((part) => !part.client && !isSettled(part));
}

/**
 * Ends every open call with an error, because providers refuse a history with calls that have no result.
 * Returns those calls.
 */
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

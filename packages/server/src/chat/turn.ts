import { isDeepStrictEqual } from "node:util";
import type { ProgressUpdate, RackEvent, ToolState } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import type { Reach } from "../http/wire/index.ts";
import type { StoredApproval } from "../store/index.ts";
import type { ModelEndpoint, ModelMessage, ModelTool, ModelUsage } from "./model.ts";
import * as notices from "./notices.ts";
import type { OfferedTools } from "./tools.ts";

type LoopVerdict = Extract<RackEvent, { type: "loop" }>["verdict"];

/** What is left of a question when somebody is shown it in a conversation. */
export type ShownApproval = Pick<
  StoredApproval,
  "id" | "callId" | "toolName" | "displayName" | "input" | "message" | "state" | "expiresAt" | "reason"
>;

/** Why a turn ended. */
export type TurnEnd = {
  /**
   * `stop`: the model had said all. `client_tools`: the client is to run calls. `length`, `content_filter`: the provider
   * cut it. `limit`: a limit of the rack. `loop`: it went in circles. `stopped`: a person stopped it. `interrupted`: the
   * server ended. `error`: the model did not answer.
   */
  readonly reason:
    | "stop"
    | "client_tools"
    | "length"
    | "content_filter"
    | "limit"
    | "loop"
    | "stopped"
    | "interrupted"
    | "error";
  /** For a person, when the reason alone does not say it. */
  readonly message?: string;
  /** Of an error. */
  readonly code?: string;
  /** Of an error: seconds after which asking again makes sense. */
  readonly retryAfter?: number;
  /** Of an error: what the provider said of it in its own terms, such as its `code`. */
  readonly details?: Readonly<Record<string, unknown>>;
};

/** What happens in a turn, in its order. */
export type TurnEvent =
  | {
      /** First, of a turn of a session. */
      readonly type: "turn";
      readonly sessionId: string;
      readonly messageId: string;
      /** The message that is answered, unless the turn is taken up again. */
      readonly userMessageId?: string;
    }
  | {
      readonly type: "text" | "reasoning" | "refusal";
      readonly text: string;
      /** Of a text, where the client asked the provider for them. */
      readonly logprobs?: unknown;
    }
  | ({ readonly type: "call" } & Readonly<
      Pick<ToolPart, "id" | "callId" | "name" | "displayName" | "arguments" | "client">
    >)
  | { readonly type: "state"; readonly callId: string; readonly name: string; readonly state: ToolState }
  | { readonly type: "progress"; readonly callId: string; readonly update: ProgressUpdate }
  | { readonly type: "approval"; readonly approval: ShownApproval }
  | { readonly type: "loop"; readonly callId: string; readonly verdict: LoopVerdict }
  | { readonly type: "retry"; readonly attempt: number; readonly waitMs: number; readonly reason: string }
  | { readonly type: "compacted"; readonly ids: readonly string[] }
  | { readonly type: "usage"; readonly round: number; readonly usage: ModelUsage; readonly total: ModelUsage }
  | {
      /** Last. */
      readonly type: "end";
      readonly end: TurnEnd;
      /** Of a turn of a session. */
      readonly sessionId?: string;
      readonly messageId?: string;
      readonly usage?: ModelUsage | undefined;
    };

/** One thing that happened, numbered from 1. */
export interface FeedEntry {
  readonly number: number;
  readonly type: TurnEvent["type"];
  readonly data: TurnEvent;
}

/** What happens in one turn, for readers that may come late or come back. The oldest entries give way. */
export class TurnFeed {
  /** No other feed has it, not even one of the same turn in another process, which counts differently. */
  readonly id = uuid();
  readonly #entries: FeedEntry[] = [];
  readonly #listeners = new Set<(entry: FeedEntry) => void>();
  readonly #most: number;
  #last = 0;

  constructor(most = 5_000) {
    this.#most = most;
  }

  /** The number of the latest entry. */
  get last(): number {
    return this.#last;
  }

  /** Whether anybody follows it. */
  get isFollowed(): boolean {
    return this.#listeners.size > 0;
  }

  publish(data: TurnEvent): void {
    const entry = { number: ++this.#last, type: data.type, data };
    this.#entries.push(entry);
    // In large steps, because each moves all that is left.
    if (this.#entries.length > this.#most * 1.25) this.keep(this.#most);
    for (const listener of this.#listeners) listener(entry);
  }

  /** Forgets all but the latest. */
  keep(count: number): void {
    this.#entries.splice(0, Math.max(0, this.#entries.length - count));
  }

  /** Whether all that came after the number is still known. */
  knowsAfter(number: number): boolean {
    const oldest = this.#entries[0]?.number ?? this.#last + 1;
    return number <= this.#last && number + 1 >= oldest;
  }

  /** Tells what came after the number, then all that comes, until the function that it returns is called. */
  follow(after: number, listener: (entry: FeedEntry) => void): () => void {
    for (const entry of this.#entries) if (entry.number > after) listener(entry);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** What must have happened for the parts of an answer to become others: for a reader who sees only what is stored. */
export function eventsBetween(before: readonly MessagePart[], after: readonly MessagePart[]): TurnEvent[] {
  return after.flatMap((part, at) => {
    const earlier = before[at];
    if (part.type === "tool") return eventsOfCall(earlier?.type === "tool" ? earlier : undefined, part);
    const known = earlier?.type === part.type ? earlier.text : "";
    // Text only grows.
    const text = part.text.startsWith(known) ? part.text.slice(known.length) : "";
    return text === "" ? [] : [{ type: part.type, text }];
  });
}

function eventsOfCall(before: ToolPart | undefined, part: ToolPart): TurnEvent[] {
  const { callId, name, state } = part;
  const events: TurnEvent[] = before === undefined ? [callEvent(part)] : [];
  const hasChanged =
    before === undefined ? state.status !== "pending" : !isDeepStrictEqual(before.state, state);
  return hasChanged ? [...events, { type: "state", callId, name, state }] : events;
}

/** What readers are told of a call that the model asks for. */
export function callEvent({
  id,
  callId,
  name,
  displayName,
  arguments: written,
  client,
}: ToolPart): TurnEvent {
  return { type: "call", id, callId, name, displayName, arguments: written, ...(client && { client }) };
}

/**
 * A part of what an assistant said and did in a turn. Parts of one round came in one answer of the model. Plain JSON.
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
  /** The rack's, by which its record and its whole result are found. Empty for a tool of the client. */
  callId: string;
  /** As the model wrote it. */
  readonly name: string;
  readonly displayName: string;
  /** As the model wrote them; of a `custom` tool, its input. */
  readonly arguments: string;
  /** What kind of call it is, where it is none of a `function`: `custom`, or what the client calls its tool. */
  readonly kind?: string;
  /** The tool is the client's: it runs it and brings the result. */
  readonly client?: true;
  /** What its provider wants to read again with it; see `Echo`. */
  readonly echo?: Echo;
  /** Set before the call is made, so that whoever finds it later knows that it may have run. */
  started?: true | undefined;
  state: ToolState;
}

export function isTool(part: MessagePart): part is ToolPart {
  return part.type === "tool";
}

export function isSettled({ state }: ToolPart): boolean {
  return state.status === "completed" || state.status === "error";
}

/** Text of the parts that a reader is shown as the answer. */
export function textOfParts(parts: readonly MessagePart[], type: TextPart["type"] = "text"): string {
  return parts.map((part) => (part.type === type ? part.text : "")).join("");
}

/** The calls of the rack's tools that have not ended. */
export function openCalls(parts: readonly MessagePart[]): ToolPart[] {
  return parts.filter(isTool).filter((part) => !part.client && !isSettled(part));
}

/** Every call gets an answer, or no provider would take the conversation any more. Answers with those that had none. */
export function settleOpenCalls(parts: readonly MessagePart[]): ToolPart[] {
  const open = openCalls(parts);
  for (const part of open) part.state = failed(part, notices.stoppedCall);
  return open;
}

export function shownApproval(approval: StoredApproval): ShownApproval {
  const { id, callId, toolName, displayName, input, message, state, expiresAt, reason } = approval;
  return { id, callId, toolName, displayName, input, message, state, expiresAt, reason };
}

/** The state of a call that ended without the rack. */
export function failed({ state }: Pick<ToolPart, "state">, error: string): ToolState {
  const now = Date.now();
  const start = "time" in state ? state.time.start : now;
  return { status: "error", input: state.input, error, time: { start, end: now } };
}

/**
 * What a provider said beside a call and asks for in the next rounds of the same turn, such as signatures of thoughts.
 * Nobody else is sent it.
 */
export interface Echo {
  readonly provider: string;
  /** More members of the call. */
  readonly call?: Readonly<Record<string, unknown>>;
  /** More members of the message; with the first call of a round. */
  readonly message?: Readonly<Record<string, unknown>>;
  /** The member of the message that holds the round's reasoning; with the first call of a round. */
  readonly reasoning?: string;
}

/** The number of the round that comes after the parts. */
export function nextRound(parts: readonly MessagePart[]): number {
  return (parts.at(-1)?.round ?? 0) + 1;
}

/** Adds what was said to the turn, and tells of it. */
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

/** What stands between the text of one round and that of the next. */
export function separator(before: string): string {
  return before === "" || before.endsWith("\n\n") ? "" : before.endsWith("\n") ? "\n" : "\n\n";
}

/** All that a turn is given: from one message of a person to the end of the answer. */
export interface Turn {
  readonly id: string;
  readonly sessionID: string;
  readonly reach: Reach;
  readonly endpoint: ModelEndpoint;
  /** What the model is told before the turn. */
  readonly history: readonly ModelMessage[];
  /** What else is said to the provider, such as `temperature`. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** Tools that the client runs itself. */
  readonly clientTools?: readonly ModelTool[];
  /** What the conversation is about: decides which tools are offered when not all can be. */
  readonly query: string;
  /** The tools that were chosen for the conversation before. */
  readonly chosen?: readonly string[] | undefined;
  /** The turn as it is so far. The engine adds to it. */
  readonly parts: MessagePart[];
  /** Tokens that the turn took before it was taken up again. */
  readonly usage?: ModelUsage | undefined;
  /** The calls whose results were taken out of the history before, by the model's ids. */
  readonly compacted?: Iterable<string>;
  /** The rack's id of a call in the history, by the model's. */
  readonly callIdOf?: (toolCallId: string) => string | undefined;
  /** Ends the turn and cancels its calls. */
  readonly signal: AbortSignal;
  /** What carries a trace on, to the calls and to the provider: `traceparent`, `tracestate`, `baggage`. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>> | undefined;
  readonly emit: (event: TurnEvent) => void;
  /** Keeps the parts, or only waits. Awaited before a call is made, so that what may have happened is known afterwards. */
  readonly save?: () => Promise<void>;
}

/** A turn with all that the engine itself adds to it. */
export interface OpenTurn extends Turn {
  readonly body: Readonly<Record<string, unknown>>;
  readonly clientTools: readonly ModelTool[];
  readonly offered: OfferedTools;
  readonly limits: TurnLimits;
  /** Tokens that the model can read at a time. */
  readonly contextTokens: number;
  /** The server ends: the turn is left as it is, and its calls too. */
  readonly leaving: AbortSignal;
}

export interface TurnLimits {
  readonly maxRounds: number;
  readonly maxSeconds: number;
  readonly maxTokens: number;
  /** Characters of one answer of the model. */
  readonly maxAnswer: number;
}

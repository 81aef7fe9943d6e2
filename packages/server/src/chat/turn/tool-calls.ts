import { type ToolState, toOpenAIToolMessage } from "@toolrack/core";
import { CallRefused, type EndedCall } from "../../calls/index.ts";
import type { StoredApproval, StoredCall } from "../../store/index.ts";
import type { DeltaMerger, Shown } from "../model/deltas.ts";
import type { ModelToolCall } from "../model/providers.ts";
import { estimateTokens, type ToolsService } from "../tools.ts";
import type { ToolPart } from "./events.ts";
import * as notices from "./notices.ts";
import { noName, unknownTool, writtenThere } from "./notices.ts";
import type { Turn } from "./turn-loop.ts";

type Verdict = NonNullable<NonNullable<EndedCall["record"]["flags"]>["loop"]>;

/**
 * Makes the call that a model asked for, and puts what came of it into its part. Never rejects for anything that the
 * model can read about. Answers with what loop detection said.
 */
export async function runToolCall(
  part: ToolPart,
  turn: Turn,
  tools: ToolsService,
  signal: AbortSignal,
): Promise<Verdict | undefined> {
  const settle = (state: ToolState) => {
    part.state = state;
    turn.emit({ type: "state", callId: part.callId, name: part.name, state });
  };
  if (part.name === "") {
    settle(failed(part, noName));
    return undefined;
  }
  const { id, callId, round } = part;
  const call = turn.offered.restore({ id, name: part.name, arguments: part.arguments });
  try {
    const ended = await tools.runTools(call.name, call.arguments, {
      reach: turn.reach,
      callId,
      sessionID: turn.sessionID,
      messageID: `${turn.id}.${round}`,
      signal,
      ...(turn.headers === undefined ? {} : { headers: turn.headers }),
      watcher: {
        state: (state) => {
          if (state.status === "pending" || state.status === "running") settle(state);
        },
        progress: (update) => turn.emit({ type: "progress", callId, update }),
      },
    });
    settle(explained(ended, part, turn, tools));
    const loop = ended.record.flags?.loop;
    if (loop !== undefined) turn.emit({ type: "loop", callId, verdict: loop });
    return loop;
  } catch (thrown) {
    if (!(thrown instanceof CallRefused)) throw thrown;
    const isUnknown = thrown.code === "tool_not_found";
    settle(failed(part, isUnknown ? unknown(part, turn, tools) : thrown.message));
    return undefined;
  }
}

/** What a model that wrote the call itself needs to know beside what every caller is told. */
function explained(ended: EndedCall, part: ToolPart, turn: Turn, tools: ToolsService): ToolState {
  const state = stateOf(ended);
  const { error } = ended.result;
  if (state.status !== "error" || error === undefined) return state;
  if (error.code === "tool_not_found" && !/nearest/.test(state.error))
    return { ...state, error: unknown(part, turn, tools) };
  const problem = error.code === "invalid_arguments" ? whereBroken(part.arguments) : undefined;
  return problem === undefined ? state : { ...state, error: `${state.error} ${problem}` };
}

function unknown({ name }: ToolPart, { reach, offered, clientTools }: Turn, tools: ToolsService): string {
  return unknownTool(name, tools.nearest(reach, name), offered.tools.length + clientTools.length);
}

/** What was written where it stops to be JSON: the history has only arguments that are. */
function whereBroken(written: string): string | undefined {
  try {
    JSON.parse(written);
    return undefined;
  } catch (thrown) {
    const position = /position (\d+)/.exec(String(thrown))?.[1];
    // Other problems are told with the text around them.
    if (position === undefined) return undefined;
    const at = Number(position);
    return writtenThere(written.slice(Math.max(0, at - 60), at), written.slice(at, at + 40));
  }
}

/** The state of a call that ended without the rack. */
export function failed({ state }: Pick<ToolPart, "state">, error: string): ToolState {
  const now = Date.now();
  const start = "time" in state ? state.time.start : now;
  return { status: "error", input: state.input, error, time: { start, end: now } };
}

/** What the model reads of the result is what is kept. */
export function stateOf({ record, result }: Pick<EndedCall | StoredCall, "result"> & EndedRecord): ToolState {
  const { attachments, ...bare } = result;
  const text = toOpenAIToolMessage("", bare).content;
  const time = { start: record.timestamp, end: record.timestamp + Math.round(record.duration) };
  const input = record.parameters;
  if (result.type === "error") return { status: "error", input, error: text, time };
  return { status: "completed", input, output: text, ...(attachments ? { attachments } : {}), time };
}

interface EndedRecord {
  readonly record: Pick<EndedCall["record"], "parameters" | "timestamp" | "duration">;
}

/** Of a call that a tool made. */
export function whatBecameOf(call: StoredCall, questions: readonly StoredApproval[]): string {
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

export function refusedInside({ toolName, state, reason }: Partial<StoredApproval> = {}): string {
  const said = reason === undefined ? "" : ` (${reason})`;
  const answer = state === "denied" ? `a person said no${said}` : "nobody answered in time";
  return `the server ended while it waited for consent to call "${toolName ?? "a tool"}", and ${answer}`;
}

/** In the words of a call that was refused while its process lived. */
export function refusalOf({ name }: ToolPart, approval: StoredApproval | undefined): string {
  if (approval?.state === "denied") {
    const because = approval.reason ? `: ${approval.reason}` : ", without giving a reason";
    return `Running "${name}" was refused${because}. It did not run. Do not repeat the call unchanged.`;
  }
  return `"${name}" was not run: nobody answered the question in time.`;
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

/** What the provider wants to read again with a call. `merger`: the answer, for its first call. */
export function echoOf(
  call: ModelToolCall,
  merger: DeltaMerger | undefined,
  provider: string,
): Echo | undefined {
  const { id: _id, type: _type, function: _function, custom: _custom, ...more } = call;
  const { reasoningField: reasoning, reasoningDetails: details = [] } = merger ?? {};
  const echo = {
    ...(Object.keys(more).length === 0 ? {} : { call: more }),
    ...(details.length === 0 ? {} : { message: { reasoning_details: details } }),
    ...(reasoning === undefined ? {} : { reasoning }),
  };
  return Object.keys(echo).length === 0 ? undefined : { provider, ...echo };
}

interface AnswerLimits {
  /** Characters of text, reasoning and arguments together. */
  readonly maxAnswer: number;
  readonly maxTokens: number;
  /** Tokens that the turn took before. */
  readonly usedTokens: number;
}

/** The answer went over a limit while it came. The message says over which. */
export class AnswerOverLimit extends Error {
  override readonly name = "AnswerOverLimit";
}

/** Calls that one answer may begin: every one of them is kept and answered. */
const MOST_BEGUN = 1_000;
/** So many characters are counted at a time: rounding up each of many short pieces would add up. */
const COUNTED_AT_ONCE = 2_000;

/** Measures an answer while it comes, so that one without end fills neither the memory nor the store. */
export class AnswerMeter {
  readonly #limits: AnswerLimits;
  #characters = 0;
  #tokens = 0;
  #uncounted = "";

  constructor(limits: AnswerLimits) {
    this.#limits = limits;
  }

  /** Characters that may still come. */
  get left(): number {
    return Math.max(0, this.#limits.maxAnswer - this.#characters);
  }

  /** About what the answer took so far. */
  get tokens(): number {
    return this.#tokens + estimateTokens(this.#uncounted);
  }

  /** Says what is too much, once it is. `begun`: how many calls it has asked for. */
  add({ text, reasoning, refusal, written, kept }: Shown, begun: number): AnswerOverLimit | undefined {
    const { maxAnswer, maxTokens, usedTokens } = this.#limits;
    const said = text + reasoning + refusal + written;
    this.#characters += said.length + kept;
    if (this.#characters > maxAnswer) return new AnswerOverLimit(notices.answerLimit(maxAnswer));
    if (begun > MOST_BEGUN) return new AnswerOverLimit(notices.callLimit(MOST_BEGUN));
    this.#uncounted += said;
    if (this.#uncounted.length >= COUNTED_AT_ONCE) {
      this.#tokens += estimateTokens(this.#uncounted);
      this.#uncounted = "";
    }
    const used = usedTokens + this.#tokens;
    return used > maxTokens ? new AnswerOverLimit(notices.tokenLimit(used, maxTokens)) : undefined;
  }
}

import type { IncomingMessage, ServerResponse } from "node:http";
import type { RouteRequest } from "../../http/wire/index.ts";
import { callerGone, json, jsonText, openEventStream, sent } from "../../http/wire/index.ts";
import type { CompletionRequest } from "../completion-request.ts";
import { CompletionRuns, type CompletionWork, type RequestIdentity } from "../completion-runs.ts";
import type { Completion } from "../completions.ts";
import { waitsForApproval } from "../model-messages.ts";
import { requestedReach } from "../tools.ts";
import type { ShownApproval, TurnEvent } from "../turn.ts";
import { MOST_WAITING } from "./chat-stream.ts";
import { type ChatRouteParts, errorOfEnd, requireChat } from "./route-errors.ts";

/** What is run for a request, unless the same request is known. */
interface WantedRun {
  readonly runs: CompletionRuns;
  readonly identity: RequestIdentity;
  readonly work: CompletionWork;
}

/** Writes an answer in one of OpenAI's forms. */
interface AnswerForm {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /** Undefined for a client that does not stream. */
  readonly stream: AnswerStream | undefined;
  readonly toWhole: (completion: Completion) => unknown;
}

/**
 * What a request to `/v1` asks for beside its content: the tools and the model that answer it, and whether the client wants
 * to be told of the tools that are run. Throws `ChatError` and `ProviderError`.
 */
export async function wantedBy(
  parts: ChatRouteParts,
  { body: { model, toolrack }, grant, incoming }: RouteRequest<unknown, unknown, WantedMembers>,
) {
  const chat = requireChat(parts);
  const reach = requestedReach(parts, grant, toolrack?.expert ?? header(incoming, "x-toolrack-expert"));
  const isAsked = /^(1|true|on)$/i.test(header(incoming, "x-toolrack-events") ?? "");
  const endpoint = await chat.providers.resolve(model ?? undefined);
  const { headers } = incoming;
  return { chat, reach, endpoint, headers, tellsEvents: toolrack?.events === true || isAsked };
}

type WantedMembers = Pick<CompletionRequest, "model" | "toolrack">;

/** Undefined for a header that is missing or empty. */
function header({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

export function runsOf({ registry, store, logger, chat }: ChatRouteParts): CompletionRuns {
  return new CompletionRuns(registry, store.chat, logger, chat?.joinsRepeats);
}

/** Answers a request to `/v1`, streamed or not. A request that comes again joins the first. */
export async function serveRun(
  { settings: { heartbeat } }: Pick<ChatRouteParts, "settings">,
  { runs, identity, work }: WantedRun,
  { incoming, outgoing, stream, toWhole }: AnswerForm,
): Promise<unknown> {
  const gone = callerGone(incoming, outgoing);
  let alive: NodeJS.Timeout | undefined;
  try {
    const known = runs.find(identity);
    const run = known ?? runs.begin(identity, work);
    // Clients do not come back to a stream that has begun, unless they have an idempotency key.
    const mayReturn = () => identity.isKeyed || stream === undefined || !outgoing.headersSent;
    const reader = { gone: gone.signal, outgoing, mayReturn };
    if (stream !== undefined) {
      alive = setInterval(stream.keepAlive, heartbeat);
      // A reader that joins a running request gets the whole answer at the end.
      const isTold = known === undefined;
      return stream.end(
        await run.read({ ...reader, tell: isTold ? (event) => stream.tell(event) : undefined }),
        isTold,
      );
    }
    const tell = (event: TurnEvent) => {
      alive ??= waitForPerson(event, outgoing, heartbeat);
    };
    const completion = await run.read({ ...reader, tell });
    if (outgoing.headersSent) {
      outgoing.end(jsonText(toWhole(completion)));
      return sent;
    }
    const error = errorOfEnd(completion.end);
    if (error !== undefined && !completion.hasActed) throw error;
    return toWhole(completion);
  } finally {
    clearInterval(alive);
    gone.release();
  }
}

/**
 * Sends the headers when a person is asked whether a call may be made, because clients that do not stream give up when they
 * get none for minutes. Returns the timer that goes on with white space, which means nothing before JSON.
 */
export function waitForPerson(
  event: TurnEvent,
  outgoing: ServerResponse,
  heartbeat: number,
): NodeJS.Timeout | undefined {
  if (event.type !== "approval" || event.approval.state !== "pending") return undefined;
  outgoing.writeHead(200, { "Content-Type": json, "X-Toolrack-Approval": event.approval.id });
  outgoing.write("\n");
  return setInterval(() => outgoing.destroyed || outgoing.write("\n"), heartbeat);
}

/**
 * Tokens that come within so many milliseconds of the last write go out together. Models that people wait for are slower,
 * so that each of their tokens goes out at once.
 */
const GATHERING = 1;
/** The same while a turn of the event loop takes longer than `BUSY`. Nobody sees such a pause. */
const BUSY_GATHERING = 50;
const BUSY = 4;

/**
 * Measures how long a turn of the event loop takes. When turns are long, answers that have begun are written less often, so
 * that others begin earlier: of 200 that come at once, 95 of 100 begin within 66 ms instead of 77.
 */
class LoopTurn {
  #began = 0;
  #last = 0;

  /** The pause between two writes of an answer, in milliseconds. Called in each turn that may write. */
  gathering(now: number): number {
    if (this.#began === 0) {
      this.#began = now;
      setImmediate(this.#end);
    }
    return this.#last > BUSY ? BUSY_GATHERING : GATHERING;
  }

  readonly #end = (): void => {
    this.#last = performance.now() - this.#began;
    this.#began = 0;
  };
}

const loopTurn = new LoopTurn();

/**
 * Writes an answer as events. The stream opens with the first output or call, so that an early failure still gets its own
 * HTTP status.
 */
export abstract class AnswerStream {
  protected readonly outgoing: ServerResponse;
  /** The client expects JSON: only the last text is told, and which text is last is known at the end. */
  protected readonly isJson: boolean;
  /** Written together, because one write costs as much as many tokens. */
  #unwritten = "";
  #writtenAt = Number.NEGATIVE_INFINITY;
  #isOpen = false;
  #isCorked = false;

  constructor(outgoing: ServerResponse, isJson: boolean) {
    this.outgoing = outgoing;
    this.isJson = isJson;
  }

  abstract tell(event: TurnEvent): void;

  /**
   * Writes the end of the answer. `isTold`: the events were already streamed as they happened, so they are not sent
   * again.
   */
  abstract end(completion: Completion, isTold: boolean): typeof sent;

  /** Sends the first events. */
  protected abstract begin(): void;

  /** Adds a paragraph that the rack wrote, not the model. */
  protected abstract paragraph(text: string): void;

  readonly keepAlive = (): void => {
    this.open();
    this.send(": alive\n\n");
  };

  /** Tells a client that knows nothing of tools why the answer does not go on. */
  protected question({ id, toolName, displayName, state }: ShownApproval): void {
    if (state !== "pending") return;
    const line = waitsForApproval(displayName || toolName, id);
    this.open();
    // Text of ours would break the JSON, but a comment is read by nobody's parser.
    if (this.isJson) this.send(`: ${line.replaceAll("\n", " ")}\n\n`);
    else this.paragraph(`[${line}]`);
  }

  protected open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    // The head of the answer and its first events go out in one write; see `#flush`.
    this.outgoing.cork();
    this.#isCorked = true;
    if (!this.outgoing.headersSent) openEventStream(this.outgoing);
    this.begin();
  }

  protected send(text: string): void {
    if (this.#unwritten === "") {
      const now = performance.now();
      const pause = this.#writtenAt + loopTurn.gathering(now) - now;
      if (pause > 0) setTimeout(this.#flush, Math.ceil(pause));
      else process.nextTick(this.#flush);
    }
    this.#unwritten += text;
  }

  protected close(): typeof sent {
    if (!this.outgoing.destroyed) this.outgoing.end(this.#taken());
    return sent;
  }

  readonly #flush = (): void => {
    const text = this.#taken();
    if (text === "" || this.outgoing.destroyed) return;
    // What is written now may be long. Only what was left unread before shows that a reader is too slow.
    if (this.outgoing.writableLength > MOST_WAITING) return void this.outgoing.destroy();
    // `cork` and `uncork` make Node write at once. Without them it would write only in a later turn of the event
    // loop.
    if (!this.#isCorked) this.outgoing.cork();
    this.#isCorked = false;
    this.#writtenAt = performance.now();
    this.outgoing.write(text);
    this.outgoing.uncork();
  };

  #taken(): string {
    const text = this.#unwritten;
    this.#unwritten = "";
    return text;
  }
}

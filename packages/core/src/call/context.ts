import { cannotAskCaller } from "../error/messages.ts";
import { ToolExecutionError } from "../error/tool-error.ts";
import { hashValue } from "../schema/hash.ts";
import type {
  AskRequest,
  CallClient,
  ClientMethod,
  ElicitAnswer,
  ElicitRequest,
  Logger,
  ProgressUpdate,
  RegistryView,
  ToolClient,
  ToolContext,
  ToolInfo,
} from "../tool/types.ts";
import type { LogLevel } from "./events.ts";
import type { CallFrame } from "./frame.ts";
import type { Mask } from "./mask.ts";
import { ask } from "./stages/approve.ts";
import { shownInput, sourceOf, updateState } from "./state.ts";
import { pausing } from "./time.ts";

const frameKey = Symbol("frame");

/** The call behind a context, also behind a copy of one or one that stands in front of it. */
export function frameOf(context: unknown): CallFrame | undefined {
  // Nobody else has the symbol.
  return (context as { [frameKey]?: CallFrame } | null | undefined)?.[frameKey];
}

export function isCallContext(context: unknown): boolean {
  return frameOf(context) !== undefined;
}

/**
 * Tells listeners what the tool behind a context said by other means than its logger, such as a console. Does nothing
 * for a context that is not of a call, and for one whose call has ended. Never throws.
 */
export function logLine(context: unknown, level: LogLevel, ...values: unknown[]): void {
  const frame = frameOf(context);
  if (frame !== undefined) tellLog(frame, level, values);
}

const noEnvironment: Readonly<Record<string, string>> = Object.freeze({});
const noExtra: Readonly<Record<string, unknown>> = Object.freeze({});

/**
 * The context that a tool is given. Everything is made when it is asked for: a tool that looks at its input
 * only pays for nothing else. The functions are closures, so that destructuring them works.
 */
export class FrameContext implements ToolContext {
  // A symbol, not a private field: a host may put its own context in front of this one by inheritance. Declared only: to
  // define a field by a key that is looked up is slow.
  declare readonly [frameKey]: CallFrame;
  declare readonly input: Record<string, unknown>;

  constructor(frame: CallFrame) {
    this[frameKey] = frame;
    this.input = frame.input;
  }

  get callId(): string {
    return this[frameKey].callId;
  }
  get sessionID(): string {
    return this[frameKey].sessionID;
  }
  get messageID(): string {
    return inherited(this[frameKey], "messageID") ?? "";
  }
  get signal(): AbortSignal {
    return this[frameKey].signal;
  }
  get tool(): ToolInfo {
    return this[frameKey].tool.info;
  }
  get registry(): RegistryView {
    return this[frameKey].host.view(this[frameKey]);
  }
  get caller(): string {
    return this[frameKey].caller;
  }
  get env(): Readonly<Record<string, string>> {
    return this[frameKey].options.env ?? noEnvironment;
  }
  get logger(): Logger {
    const frame = this[frameKey];
    return callLogger(frame, inherited(frame, "logger") ?? frame.host.settings.logger);
  }
  get idempotencyKey(): string {
    const { sessionID, callId, input } = this[frameKey];
    return hashValue([sessionID, callId, this[frameKey].toolName, input]);
  }

  get metadata(): ToolContext["metadata"] {
    const frame = this[frameKey];
    return (update) => {
      frame.touch();
      updateState(frame, update);
    };
  }

  get progress(): ToolContext["progress"] {
    const frame = this[frameKey];
    return (update, total, message) => {
      frame.touch();
      const { events } = frame.host;
      if (frame.ended || !events.wanted) return;
      events.emit({
        type: "progress",
        callId: frame.callId,
        toolName: frame.toolName,
        // A copy of the same shape.
        update: maskOf(frame).shown(toProgress(update, total, message)) as ProgressUpdate,
      });
    };
  }

  get call(): ToolContext["call"] {
    const frame = this[frameKey];
    return (name, input, options) => frame.host.callChild(frame, name, input, options ?? noExtra);
  }

  get ask(): ToolContext["ask"] {
    const frame = this[frameKey];
    return (request: string | AskRequest) =>
      typeof request === "string" ? ask(frame, request) : ask(frame, request.message, request.details);
  }

  get client(): ToolClient | undefined {
    const frame = this[frameKey];
    const client = inherited(frame, "client");
    return client === undefined ? undefined : new PatientClient(frame, client);
  }

  get elicit(): ToolContext["elicit"] {
    const frame = this[frameKey];
    const client = this.client;
    return async (request: string | ElicitRequest) => {
      const refusal = () =>
        new ToolExecutionError(cannotAskCaller(frame.toolName), { toolName: frame.toolName });
      if (client === undefined) throw refusal();
      const { message, schema = { type: "object", properties: {} } } =
        typeof request === "string" ? { message: request } : request;
      const params = { mode: "form", message, requestedSchema: schema };
      const canBeAsked = client.can("elicitation/create", params);
      try {
        // One that cannot be asked is asked all the same: what is to be said of that may be its own business.
        return (await client.request("elicitation/create", params, frame.signal)) as ElicitAnswer;
      } catch (thrown) {
        throw canBeAsked ? thrown : refusal();
      }
    };
  }

  get callID(): string {
    return this[frameKey].callId;
  }
  get abort(): AbortSignal {
    return this[frameKey].signal;
  }
  get agent(): string {
    return inherited(this[frameKey], "agent") ?? "";
  }
  get directory(): string {
    return inherited(this[frameKey], "directory") ?? this[frameKey].host.settings.directory;
  }
  get worktree(): string {
    return inherited(this[frameKey], "worktree") ?? this.directory;
  }
  get messages(): readonly unknown[] {
    return inherited(this[frameKey], "messages") ?? [];
  }
  get extra(): Readonly<Record<string, unknown>> {
    return inherited(this[frameKey], "extra") ?? noExtra;
  }
}

type Inherited =
  | "client"
  | "messageID"
  | "logger"
  | "agent"
  | "directory"
  | "worktree"
  | "messages"
  | "extra";

/** A child sees what its caller was told, unless it was told something else itself. Secrets are not inherited. */
function inherited<Key extends Inherited>(frame: CallFrame, key: Key): CallFrame["options"][Key] {
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    const value = at.options[key];
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Time in which the caller thinks about a question is not the tool's time. */
class PatientClient implements ToolClient {
  readonly #frame: CallFrame;
  readonly #client: CallClient;

  constructor(frame: CallFrame, client: CallClient) {
    this.#frame = frame;
    this.#client = client;
  }

  get name(): string {
    return this.#client.name ?? "";
  }

  get logLevel(): string | undefined {
    return this.#client.logLevel;
  }

  can(...asked: Parameters<CallClient["can"]>): boolean {
    return this.#client.can(...asked);
  }

  async request(
    method: ClientMethod,
    params: object = {},
    signal: AbortSignal = this.#frame.signal,
  ): Promise<unknown> {
    using _ = pausing(this.#frame);
    return await this.#client.request(method, params, signal);
  }

  notify(method: string, params: object): void {
    if (this.#frame.ended) return;
    this.#frame.touch();
    this.#client.notify(method, params);
  }
}

function toProgress(update: ProgressUpdate | number, total?: number, message?: string): ProgressUpdate {
  if (typeof update !== "number") return update;
  return {
    progress: update,
    ...(total === undefined ? {} : { total }),
    ...(message === undefined ? {} : { message }),
  };
}

/** Characters of a line that listeners are told. */
const LONGEST_LINE = 2_000;
/** Characters that are masked before a line is cut, which could leave one half of a secret. */
const LONGEST_MASKED = 64 * 1024;

/** A logger whose lines are also told to whoever listens, as what this call said. */
function callLogger(frame: CallFrame, logger: Logger): Logger {
  const at =
    (level: LogLevel) =>
    (...values: unknown[]): void => {
      logger[level](...values);
      tellLog(frame, level, values);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Tells listeners a line of the call, secrets masked. Never throws; nothing is told of a call that has ended. */
function tellLog(frame: CallFrame, level: LogLevel, values: readonly unknown[]): void {
  const { events } = frame.host;
  if (frame.ended || !events.wanted) return;
  const mask = maskOf(frame);
  // Values are masked by their keys too, before they are a text.
  const text = values.map((value) => textOf(value, mask)).join(" ");
  if (text.trim() === "") return;
  events.emit({
    type: "log",
    callId: frame.callId,
    toolName: frame.toolName,
    level,
    text: text.length > LONGEST_LINE ? `${text.slice(0, LONGEST_LINE)}…` : text,
    at: Date.now(),
  });
}

/** Hides what is secret on the rack, and the secrets of the arguments. */
function maskOf(frame: CallFrame): Mask {
  return frame.host.settings.secrets().and(shownInput(frame, sourceOf(frame)).found);
}

function textOf(value: unknown, mask: Mask): string {
  const said = value instanceof Error ? errorText(value) : value;
  const plain = mask.shown(typeof said === "string" ? said.slice(0, LONGEST_MASKED) : said);
  return typeof plain === "string" ? plain : (JSON.stringify(plain) ?? "undefined");
}

/** Its author may have put anything in these places. */
function errorText(error: Error): string {
  try {
    return `${error.name}: ${error.message}`;
  } catch {
    return "[unreadable]";
  }
}

/**
 * Acts when the call is aborted, at once when it has been. Answers how to stop waiting for it. The same as listening to
 * the context's signal, for those that are in the way of every call: making a signal costs more than most tools.
 */
export function whenAborted(
  context: Pick<ToolContext, "signal">,
  act: (reason: unknown) => void,
): () => void {
  const frame = frameOf(context);
  if (frame === undefined || frame.onAbort !== undefined || frame.abortReason !== undefined) {
    return listen(context.signal, act);
  }
  frame.onAbort = act;
  return () => {
    if (frame.onAbort === act) frame.onAbort = undefined;
  };
}

function listen(signal: AbortSignal, act: (reason: unknown) => void): () => void {
  const onAbort = () => act(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return () => signal.removeEventListener("abort", onAbort);
}

/**
 * Says that the call waits for its turn and has done nothing yet: it need not report anything meanwhile, and if its time
 * runs out, nothing of it stands. Answers how to say that its turn has come.
 */
export function waitingForTurn(context: Pick<ToolContext, "signal">): () => void {
  const frame = frameOf(context);
  if (frame === undefined) return () => {};
  frame.waitsForTurn = true;
  return () => {
    frame.waitsForTurn = false;
    if (frame.ended) return;
    frame.lastActivity = performance.now();
    frame.host.deadlines.watch(frame);
  };
}

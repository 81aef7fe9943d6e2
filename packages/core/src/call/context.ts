import { cannotAskCaller } from "../error/messages.ts";
import { ToolExecutionError } from "../error/tool-error.ts";
import { hashValue } from "../schema/hash.ts";
import type {
  AskRequest,
  CallClient,
  ElicitAnswer,
  ElicitRequest,
  Logger,
  ProgressUpdate,
  RegistryView,
  ToolClient,
  ToolContext,
  ToolInfo,
  ToolState,
} from "../tool/types.ts";
import type { CallFrame } from "./call-frame.ts";
import type { LogLevel } from "./events.ts";
import type { Mask } from "./mask.ts";
import { redact } from "./redact.ts";
import type { CallOptions } from "./settings.ts";
import { ask } from "./stages/approve.ts";
import { shownInput, updateState } from "./state.ts";
import { pausing, readClock } from "./time.ts";

const frameKey = Symbol("frame");

/** The call behind a context, a copy of a context, an object that inherits from one, or a member that it made. */
export function frameOf(context: unknown): CallFrame | undefined {
  // The cast is safe: only this file has the symbol, so nobody else can set a member under it.
  return (context as { [frameKey]?: CallFrame } | null | undefined)?.[frameKey];
}

export function isCallContext(context: unknown): boolean {
  return frameOf(context) !== undefined;
}

/**
 * Emits a log line for the call of a context, for lines that do not come from the context's logger, such as
 * those of `console`. Does nothing if the context has no call or its call has ended. Never throws.
 */
export function logLine(context: unknown, level: LogLevel, ...values: unknown[]): void {
  const frame = frameOf(context);
  if (frame !== undefined) emitLog(frame, level, values);
}

const noEnvironment: Readonly<Record<string, string>> = Object.freeze({});
const noExtra: Readonly<Record<string, unknown>> = Object.freeze({});
const noMessages: readonly unknown[] = Object.freeze([]);

/**
 * The context of a tool. Members are made on first use, so that a tool pays only for what it reads. The functions are
 * closures, so that destructuring works.
 */
export class FrameContext implements ToolContext {
  // A symbol, not a private field, because a host may pass an object that inherits from this one. Only declared,
  // because defining a field by a computed key is slow.
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
    const frame = this[frameKey];
    return frame.options.env ?? frame.environment ?? noEnvironment;
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
    return ofFrame(frame, (update: Partial<ToolState>) => {
      touch(frame);
      updateState(frame, update);
    });
  }

  get progress(): ToolContext["progress"] {
    const frame = this[frameKey];
    return (update, total, message) => {
      touch(frame);
      const { events } = frame.host;
      if (frame.ended || !events.wanted) return;
      events.emit({
        type: "progress",
        callId: frame.callId,
        toolName: frame.toolName,
        // The cast is safe: masking changes texts, not the shape of the value.
        update: redact(typeof update === "number" ? { progress: update, total, message } : update, {
          mask: maskOf(frame),
        }) as ProgressUpdate,
      });
    };
  }

  get call(): ToolContext["call"] {
    const frame = this[frameKey];
    return (name, input, options) => frame.host.callChild(frame, name, input, options ?? noExtra);
  }

  get ask(): ToolContext["ask"] {
    const frame = this[frameKey];
    return (request: string | AskRequest) => {
      const { message, details } = typeof request === "string" ? { message: request } : request;
      // The process that admitted the call has the people to ask, and the policy.
      return frame.admitted === undefined
        ? ask(frame, message, details)
        : frame.admitted.link.ask(message, details);
    };
  }

  get client(): ToolClient | undefined {
    const frame = this[frameKey];
    const client = inherited(frame, "client");
    return client === undefined ? undefined : pausingClient(frame, client);
  }

  get elicit(): ToolContext["elicit"] {
    const frame = this[frameKey];
    const client = this.client;
    return async (request: string | ElicitRequest) => {
      const refusal = () =>
        new ToolExecutionError(cannotAskCaller(frame.shownName), { toolName: frame.toolName });
      if (client === undefined) throw refusal();
      const { message, schema = { type: "object", properties: {} } } =
        typeof request === "string" ? { message: request } : request;
      const params = { mode: "form", message, requestedSchema: schema };
      const canBeAsked = client.can("elicitation/create", params);
      try {
        // Asks even a client that says it cannot be asked, because the client may then report the missing
        // ability to the caller in its own protocol. The tool gets the refusal.
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
    return inherited(this[frameKey], "messages") ?? noMessages;
  }
  get extra(): Readonly<Record<string, unknown>> {
    return inherited(this[frameKey], "extra") ?? noExtra;
  }
}

/** Remembers that a call's context made this member, so that `overriddenIn` knows it again. */
function ofFrame<Member extends object>(frame: CallFrame, member: Member): Member {
  return Object.defineProperty(member, frameKey, { value: frame });
}

/** The members that are made on first use. The others are a context's own. */
const lazyKeys = Object.getOwnPropertyNames(FrameContext.prototype).filter((name) => name !== "constructor");

/**
 * Makes a context that can be spread: its members count as its own, and are still made on first use. Own getters would
 * have to be defined anew for every call, which takes longer than most tools.
 */
export const spreading: ProxyHandler<FrameContext> = {
  ownKeys: (context) => [...new Set([...Reflect.ownKeys(context), ...lazyKeys])],
  getOwnPropertyDescriptor: (context, key) => {
    const own = Reflect.getOwnPropertyDescriptor(context, key);
    if (own !== undefined || typeof key === "symbol" || !lazyKeys.includes(key)) return own;
    return { get: () => Reflect.get(context, key), enumerable: true, configurable: true };
  },
};

/** The beginning of a function that takes nothing, only members, or one parameter. The group is the parameter's name. */
const parameterOf =
  /^(?:async\b\s*)?(?:(?:function\b)?\s*[\w$]*\s*\(\s*(?:\{[\w$\s,:]*\}|(\w+))?\s*\)|(\w+)\s*=>)/;
/**
 * Source text of functions that can reach their context without naming it (`arguments`, `eval`), or that cannot be
 * analysed.
 */
const hidden = /\barguments\b|\beval\b|\[native code\]|\\u/;

/**
 * Whether a function may copy its context or hand it on, so that it needs one that can be copied. False if it only takes members out of it: `({ input }) => …`,
 * or `ctx.input` wherever it names its `ctx`.
 */
export function mayKeepContext(run: unknown): boolean {
  const code = String(run);
  const head = parameterOf.exec(code);
  if (head === null || hidden.test(code)) return true;
  const [begin, name = head[2]] = head;
  if (name === undefined) return false;
  const uses = code.slice(begin.length).split(new RegExp(`(?<![\\w$])${name}(?![\\w$])`));
  return uses.slice(1).some((after) => !/^\s*\??\.\s*\w/.test(after));
}

/** What an author may change in a copy of a context. Permissions are not among it: a child never has more. */
const overridable = [
  "callId",
  "sessionID",
  "messageID",
  "signal",
  "caller",
  "env",
  "agent",
  "directory",
  "worktree",
  "messages",
  "extra",
] as const;

/** The members of a copy of a context that differ from the context itself, as options for a call. */
export function overriddenIn(copy: Partial<ToolContext>): CallOptions {
  const frame = frameOf(copy);
  if (frame === undefined) return {};
  const original = new FrameContext(frame);
  const changed = overridable.filter((key) => copy[key] !== undefined && copy[key] !== original[key]);
  const { metadata, logger } = copy;
  return {
    ...(Object.fromEntries(changed.map((key) => [key, copy[key]])) as CallOptions), // The same members have the same types.
    ...(metadata !== undefined && frameOf(metadata) === undefined && { metadata }),
    ...(logger !== undefined && frameOf(logger) === undefined && { logger }),
  };
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

/** An option of the call or of the nearest call above it. Secrets are not inherited. */
function inherited<Key extends Inherited>(frame: CallFrame, key: Key): CallFrame["options"][Key] {
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    const value = at.options[key];
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Wraps a client so that the tool's time limits stop while the caller answers a question. */
function pausingClient(frame: CallFrame, client: CallClient): ToolClient {
  return {
    get name() {
      return client.name ?? "";
    },
    get logLevel() {
      return client.logLevel;
    },
    can: (...asked) => client.can(...asked),
    async request(method, params = {}, signal = frame.signal) {
      using _ = pausing(frame);
      return await client.request(method, params, signal);
    },
    notify(method, params) {
      if (frame.ended) return;
      touch(frame);
      client.notify(method, params);
    },
  };
}

/** The most characters of a log line. */
const LONGEST_LINE = 2_000;
/**
 * The most characters of a text that are masked before the line is cut: cutting to the line's length first
 * could leave half a secret.
 */
const LONGEST_MASKED = 64 * 1024;

/** A logger that also emits each line as an event of this call. */
function callLogger(frame: CallFrame, logger: Logger): Logger {
  const at =
    (level: LogLevel) =>
    (...values: unknown[]): void => {
      logger[level](...values);
      emitLog(frame, level, values);
    };
  return ofFrame(frame, { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") });
}

/** Emits a log line with secrets masked. Never throws; does nothing after the call has ended. */
function emitLog(frame: CallFrame, level: LogLevel, values: readonly unknown[]): void {
  const { events } = frame.host;
  if (frame.ended || !events.wanted) return;
  const mask = maskOf(frame);
  // Values are masked before they become text, because the mask also looks at keys such as `password`.
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

/** A mask for the rack's secrets and for the secrets in the call's arguments. */
function maskOf(frame: CallFrame): Mask {
  return frame.host.settings.secrets().and(shownInput(frame).found);
}

function textOf(value: unknown, mask: Mask): string {
  const said = value instanceof Error ? errorText(value) : value;
  const plain = redact(typeof said === "string" ? said.slice(0, LONGEST_MASKED) : said, { mask });
  return typeof plain === "string" ? plain : (JSON.stringify(plain) ?? "undefined");
}

/** The members of a thrown error may be getters that throw. */
function errorText(error: Error): string {
  try {
    return `${error.name}: ${error.message}`;
  } catch {
    return "[unreadable]";
  }
}

/**
 * Calls `act` when the call is aborted, or at once if it is already aborted. Returns a function that stops
 * waiting. Does the same as listening to the context's signal, without making a signal, which costs more than
 * most tools.
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
 * Shortens the call's time limit to so many milliseconds from its start. As with any limit, waiting for a person does not
 * count.
 */
export function limitTime(context: Pick<ToolContext, "signal">, limit: number): void {
  const frame = frameOf(context);
  if (frame === undefined || frame.ended) return;
  frame.deadline = Math.min(frame.deadline, frame.startedAt + frame.waitedInRun + limit);
  frame.host.deadlines.watch(frame, readClock());
}

/**
 * Marks the call as waiting for its turn: its idle limit stops, and a timeout reports that nothing was done. Returns a
 * function that ends the waiting.
 */
export function waitingForTurn(context: Pick<ToolContext, "signal">): () => void {
  const frame = frameOf(context);
  if (frame === undefined) return () => {};
  frame.waitsForTurn = true;
  return () => {
    frame.waitsForTurn = false;
    if (frame.ended) return;
    frame.lastActivity = readClock();
    frame.host.deadlines.watch(frame, frame.lastActivity);
  };
}

/** Restarts the idle limit, because the tool has shown that it is working. */
function touch(frame: CallFrame): void {
  if (frame.idleLimit > 0) frame.lastActivity = readClock();
}

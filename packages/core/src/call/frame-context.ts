import { cannotAskCaller } from "../error/messages.ts";
import { ToolExecutionError } from "../error/tool-error.ts";
import type { RegistryView } from "../registry/view.ts";
import { hashValue } from "../schema/hash-value.ts";
import type { CallClient, ClientMethod, ElicitAnswer, ElicitRequest, ToolClient } from "../tool/client.ts";
import type { AskRequest, Logger, ProgressUpdate, ToolContext } from "../tool/context.ts";
import type { ToolInfo } from "../tool/info.ts";
import { callLogger, type LogLevel, tellLog } from "./call-log.ts";
import type { CallFrame } from "./frame.ts";
import { pausing } from "./pausing.ts";
import { redact } from "./redact.ts";
import { ask } from "./stages/approve.ts";
import { updateState } from "./state-of.ts";
import { shownInput, sourceOf } from "./visible-input.ts";

const frameKey = Symbol("frame");

/** The call behind a context, also behind a copy of one or one that stands in front of it. */
export function frameOf(context: unknown): CallFrame | undefined {
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
  readonly input: Record<string, unknown>;

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
        update: redact(toProgress(update, total, message), {
          known: frame.host.settings.secrets(),
          values: shownInput(frame, sourceOf(frame)).found,
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

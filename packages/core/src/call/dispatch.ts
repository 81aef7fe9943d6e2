import { type ToolErrorResponse, toolErrorCodes } from "../error/codes.ts";
import { ToolError } from "../error/tool-error.ts";
import type { ToolResult } from "../tool/result.ts";
import type {
  ClientMethod,
  ProgressUpdate,
  ToolClient,
  ToolContext,
  ToolInfo,
  ToolState,
} from "../tool/types.ts";
import type { CallFrame } from "./call-frame.ts";
import { readClock, toEpoch } from "./clock.ts";
import { FrameContext } from "./context.ts";
import type { CallFlags, LogLevel } from "./events.ts";
import type { CallOptions } from "./settings.ts";
import { isWithinReach } from "./stages/access-checks.ts";
import { ask } from "./stages/approve.ts";
import { shownInput, stateChanged, updateState } from "./state.ts";

/**
 * Has calls of some tools performed by other processes. The process that a call came to admits it: it resolves, checks
 * and asks for consent. Another one performs it: it runs the tool and records the call.
 */
export interface CallDispatcher {
  /** The lane of a tool; undefined for a tool that runs here. Asked for every call. Must not throw. */
  laneOf(tool: ToolInfo): string | undefined;
  /**
   * Resolves once, when the call has ended elsewhere and is on record. Rejects when it certainly did not begin
   * elsewhere: then the call fails with that error and is recorded here.
   */
  submit(lane: string, call: HandedCall): Promise<PerformedCall>;
}

/** A call that was admitted, as plain JSON: all that another process needs to perform it. */
export interface AdmittedCall {
  readonly callId: string;
  readonly toolName: string;
  /** Validated. */
  readonly input: Record<string, unknown>;
  readonly isLarge: boolean;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Milliseconds since the epoch; absent when there is no limit. */
  readonly deadline?: number | undefined;
  readonly parentCallId?: string | undefined;
  readonly depth: number;
  readonly options: Pick<
    CallOptions,
    | "sessionID"
    | "messageID"
    | "caller"
    | "tid"
    | "agent"
    | "directory"
    | "worktree"
    | "messages"
    | "extra"
    | "env"
  >;
  readonly permissions: readonly string[];
  /** The names of the tools that the caller may use; absent when it may use all. */
  readonly reach?: readonly string[] | undefined;
  /** Secrets in the arguments of the calls above it. */
  readonly secrets: readonly string[];
  readonly flags?: CallFlags | undefined;
  readonly client?: ClientView | undefined;
}

/** What is known of the caller that can be asked questions. */
export interface ClientView {
  readonly name: string;
  readonly logLevel?: string | undefined;
  /** The questions that it can answer, such as `elicitation/create url` with its mode. */
  readonly can: readonly string[];
}

/** How a call ended that another process performed. Plain JSON. */
export interface PerformedCall {
  readonly result: ToolResult;
  /** Set when the call failed. */
  readonly error?: ToolErrorResponse | undefined;
  readonly flags?: CallFlags | undefined;
}

/** By what a performed call reaches the process that admitted it. */
export interface CallLink {
  /** Resolves with the result, also of a call that failed: then its `error` is set. */
  call(name: string, input: unknown, options: CallOptions): Promise<ToolResult>;
  /** Rejects when the answer is no. */
  ask(message: string, details: Readonly<Record<string, unknown>> | undefined): Promise<void>;
  request(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown>;
  notify(method: string, params: object): void;
}

const questions: readonly (readonly [ClientMethod, string?])[] = [
  ["elicitation/create"],
  ["elicitation/create", "form"],
  ["elicitation/create", "url"],
  ["sampling/createMessage"],
  ["roots/list"],
];

/** An admitted call in the hands of a dispatcher. None of its methods does anything after the call has ended. */
export class HandedCall {
  readonly #frame: CallFrame;
  /** Called once, when the call is cancelled or its time is over. The dispatcher must then settle it soon. */
  onAbort: ((reason: ToolError) => void) | undefined;

  constructor(frame: CallFrame) {
    this.#frame = frame;
  }

  get callId(): string {
    return this.#frame.callId;
  }
  get tool(): ToolInfo {
    return this.#frame.tool.info;
  }
  /** The caller, when it can be asked. */
  get client(): ToolClient | undefined {
    return new FrameContext(this.#frame).client;
  }

  /** Makes the plain form of the call. Not made before it is needed, because it takes a copy of the arguments. */
  admitted(): AdmittedCall {
    const frame = this.#frame;
    const { callId, toolName, input, isLarge, parent, depth, options, permissions, flags } = frame;
    const context: ToolContext = new FrameContext(frame);
    const { env, messages, directory, worktree } = options;
    return {
      ...{ callId, toolName, input, isLarge, depth, permissions, flags },
      createdAt: toEpoch(frame.createdAt),
      deadline: Number.isFinite(frame.deadline) ? toEpoch(frame.deadline) : undefined,
      parentCallId: parent?.callId,
      options: {
        sessionID: frame.sessionID,
        messageID: context.messageID,
        caller: frame.caller,
        agent: context.agent,
        extra: context.extra,
        ...{ tid: frame.tid, directory, worktree, messages, env },
      },
      reach: this.#reach(),
      secrets: parent === undefined ? [] : [...shownInput(parent).found],
      client: viewOf(context.client),
    };
  }

  #reach(): readonly string[] | undefined {
    const frame = this.#frame;
    const isLimited = (at: CallFrame | undefined): boolean =>
      at !== undefined && (at.options.allow !== undefined || isLimited(at.parent));
    if (!isLimited(frame)) return undefined;
    return frame.host
      .view(frame)
      .getAll()
      .flatMap((tool) => (isWithinReach(tool, frame) ? [tool.name] : []));
  }

  /** Says what the call waits for, or that it waits for nothing any more. */
  waits(title: string | undefined): void {
    const frame = this.#frame;
    if (frame.ended || frame.title === title) return;
    frame.title = title;
    stateChanged(frame);
  }

  /** Another process has begun to run the tool. `grace`: milliseconds more that it has to say that the time is over. */
  began(grace: number): void {
    const frame = this.#frame;
    if (frame.ended || frame.status === "running") return;
    frame.status = "running";
    frame.waitsForTurn = false;
    frame.startedAt = readClock();
    frame.title = undefined;
    frame.deadline += grace;
    frame.host.deadlines.watch(frame);
    stateChanged(frame);
  }

  state(update: Partial<ToolState>): void {
    updateState(this.#frame, update);
  }

  progress(update: ProgressUpdate): void {
    new FrameContext(this.#frame).progress(update);
  }

  log(level: LogLevel, text: string, at: number): void {
    const { ended, host, callId, toolName } = this.#frame;
    if (!ended) host.events.emit({ type: "log", callId, toolName, level, text, at });
  }

  /** Asks a person, by the approval policy of this process. */
  ask(message: string, details: Readonly<Record<string, unknown>> | undefined): Promise<void> {
    return ask(this.#frame, message, details);
  }

  /** Makes a call as a child of this one, with no more rights than it has. Never rejects. */
  call(name: string, input: unknown, options: CallOptions): Promise<ToolResult> {
    const { host } = this.#frame;
    return host.callChild(this.#frame, name, input, options).catch((thrown: ToolError) => {
      const error = thrown.toResponse();
      return { content: error.message, type: "error" as const, error };
    });
  }
}

/** Hands an admitted call over. Its time limit counts from now on, also while it waits in a queue. */
export function dispatch(frame: CallFrame, dispatcher: CallDispatcher, lane: string): Promise<PerformedCall> {
  const { tool, options, host, parent } = frame;
  const limits = [tool.info.metadata.timeout ?? host.settings.timeout, options.timeout ?? 0].filter(
    (limit) => limit > 0,
  );
  frame.lastActivity = readClock();
  if (limits.length > 0) frame.deadline = frame.lastActivity + Math.min(...limits);
  if (parent !== undefined) frame.deadline = Math.min(frame.deadline, parent.deadline);
  // A timeout says that nothing was done, until another process has begun.
  frame.waitsForTurn = true;
  // A call that failed before it began anywhere has no start, but the limit is counted from here.
  frame.dispatchedAt = frame.lastActivity;
  host.deadlines.watch(frame);
  const handed = new HandedCall(frame);
  frame.handed = handed;
  return dispatcher.submit(lane, handed).finally(() => {
    frame.handed = undefined;
  });
}

/** Makes the error of a call again from its plain form. */
export function revivedError(error: ToolErrorResponse): ToolError {
  const { code, message, recoverable, details } = error;
  const { toolName, input, cause, thrown: _, ...data } = details ?? { toolName: "", input: {} };
  const known = code in toolErrorCodes ? code : "execution_failed";
  return new ToolError(known, message, { toolName, input, cause, data, recoverable });
}

function viewOf(client: ToolClient | undefined): ClientView | undefined {
  if (client === undefined) return undefined;
  const can = questions.filter(([method, mode]) =>
    client.can(method, mode === undefined ? undefined : { mode }),
  );
  return { name: client.name ?? "", logLevel: client.logLevel, can: can.map((one) => one.join(" ")) };
}

/** The caller as a performed call sees it. */
export function linkedClient(view: ClientView, link: CallLink): NonNullable<CallOptions["client"]> {
  return {
    name: view.name,
    logLevel: view.logLevel,
    can: (method, params) => {
      const mode = params !== undefined && "mode" in params ? ` ${String(params.mode)}` : "";
      return view.can.includes(method + mode);
    },
    request: (method, params, signal) => link.request(method, params, signal),
    notify: (method, params) => link.notify(method, params),
  };
}

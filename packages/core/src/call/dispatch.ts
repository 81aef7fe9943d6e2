import type { ToolError } from "../error/tool-error.ts";
import type { ToolResult } from "../tool/result.ts";
import type {
  ClientMethod,
  ProgressUpdate,
  ToolClient,
  ToolContext,
  ToolInfo,
  ToolState,
} from "../tool/types.ts";
import type {
  AdmittedCall,
  CallDispatcher,
  CallLink,
  ClientView,
  HandedCall,
  PerformedCall,
} from "./admitted-call.ts";
import type { CallFrame, FrameDispatcher } from "./call-frame.ts";
import { FrameContext } from "./context.ts";
import type { LogLevel } from "./events.ts";
import type { CallOptions } from "./settings.ts";
import { isWithinReach } from "./stages/admission.ts";
import { ask } from "./stages/approve.ts";
import { shownInput, stateChanged, updateState } from "./state.ts";
import { readClock, toEpoch } from "./time.ts";

/*
 * How calls are handed over to other processes, for `ToolRegistry.dispatchTo`. Programs without lanes do not load it.
 */

const questions: readonly (readonly [ClientMethod, string?])[] = [
  ["elicitation/create"],
  ["elicitation/create", "form"],
  ["elicitation/create", "url"],
  ["sampling/createMessage"],
  ["roots/list"],
];

/** A call of this registry that another process performs. */
class FrameHandedCall implements HandedCall {
  readonly #frame: CallFrame;
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
  get client(): ToolClient | undefined {
    return new FrameContext(this.#frame).client;
  }

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

  waits(title: string | undefined): void {
    const frame = this.#frame;
    if (frame.ended || frame.title === title) return;
    frame.title = title;
    stateChanged(frame);
  }

  began(grace: number): void {
    const frame = this.#frame;
    if (frame.ended || frame.status === "running") return;
    frame.status = "running";
    frame.waitsForTurn = false;
    frame.startedAt = readClock();
    frame.title = undefined;
    frame.deadline += grace;
    frame.host.deadlines.watch(frame, frame.startedAt);
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

  ask(message: string, details: Readonly<Record<string, unknown>> | undefined): Promise<void> {
    return ask(this.#frame, message, details);
  }

  call(name: string, input: unknown, options: CallOptions): Promise<ToolResult> {
    const { host } = this.#frame;
    return host.callChild(this.#frame, name, input, options).catch((thrown: ToolError) => {
      const error = thrown.toResponse();
      return { content: error.message, type: "error" as const, error };
    });
  }
}

/** What `ToolRegistry.dispatchTo` is given, so that the dispatcher gets the calls of its lanes. */
export function handOver(dispatcher: CallDispatcher): FrameDispatcher {
  return {
    laneOf: (tool) => dispatcher.laneOf(tool),
    dispatch: (frame, lane) => dispatch(frame, dispatcher, lane),
  };
}

/** Hands an admitted call over. Its time limit counts from now on, also while it waits in a queue. */
function dispatch(frame: CallFrame, dispatcher: CallDispatcher, lane: string): Promise<PerformedCall> {
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
  host.deadlines.watch(frame, frame.lastActivity);
  const handed = new FrameHandedCall(frame);
  frame.handed = handed;
  return dispatcher.submit(lane, handed).finally(() => {
    frame.handed = undefined;
  });
}

function viewOf(client: ToolClient | undefined): ClientView | undefined {
  if (client === undefined) return undefined;
  const can = questions.filter(([method, mode]) =>
    client.can(method, mode === undefined ? undefined : { mode }),
  );
  return { name: client.name ?? "", logLevel: client.logLevel, can: can.map((one) => one.join(" ")) };
}

/** The caller as a performed call sees it, for `CallLink.client`. */
export function linkedClient(
  view: ClientView,
  link: Pick<CallLink, "request" | "notify">,
): NonNullable<CallOptions["client"]> {
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

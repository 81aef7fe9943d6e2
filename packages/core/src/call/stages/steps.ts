import {
  badOutput,
  callerGone,
  callerUnknown,
  disabled,
  notFound,
  outOfReach,
  permissionDenied,
  takenDown,
  tooDeep,
} from "../../error/messages.ts";
import {
  LoopBlockedError,
  PermissionDeniedError,
  ToolDisabledError,
  ToolExecutionError,
  ToolNotFoundError,
} from "../../error/tool-error.ts";
import { loopMessage } from "../../loop/loop-messages.ts";
import type { SchemaOutcome } from "../../schema/types.ts";
import { toResult } from "../../tool/to-result.ts";
import type { ToolInfo } from "../../tool/types.ts";
import { FrameContext } from "../context.ts";
import type { CallFrame } from "../frame.ts";
import { maskValue } from "../mask.ts";
import { stateChanged } from "../state.ts";

/**
 * Finds the tool. The list that the caller was shown decides what a name means; what has been switched off or
 * taken down since then is refused all the same.
 */
export function resolve(frame: CallFrame): void {
  const { host, name, options } = frame;
  const current = host.find(name);
  const entry = current === undefined ? undefined : (options.snapshot?.find(name) ?? current);
  if (entry === undefined || current === undefined) {
    const suggestions = host.nearest(name);
    throw new ToolNotFoundError(notFound(name, suggestions, host.toolCount), {
      toolName: name,
      input: frame.raw,
      data: { suggestions },
    });
  }
  frame.entry = entry;
  if (current !== entry) frame.current = current;
  if (current.info.disabled) {
    throw new ToolDisabledError(disabled(entry.info.name, current.info.metadata.disabledReason), {
      toolName: entry.info.name,
      input: frame.raw,
    });
  }
  if (frame.depth > host.settings.maxDepth) {
    throw new ToolExecutionError(tooDeep(entry.info.name, host.settings.maxDepth), {
      toolName: entry.info.name,
      input: frame.raw,
    });
  }
}

/** Refuses a tool that is outside the caller's limits, before anything of it, such as its schema, shows. */
export function reach(frame: CallFrame): void {
  const { parent, options } = frame;
  if (options.allow === undefined && parent === undefined) return;
  const { info } = frame.tool;
  if (options.allow?.(info) !== false && (parent === undefined || isWithinReach(info, parent))) return;
  throw new PermissionDeniedError(outOfReach(info.name, parent?.toolName), {
    toolName: info.name,
    input: frame.raw,
  });
}

/** Whether a call may reach a tool on behalf of those above it: no limit of theirs keeps it out, as far as none of them vouches for it. */
export function isWithinReach(tool: ToolInfo, from: CallFrame): boolean {
  for (let at: CallFrame | undefined = from; at !== undefined; at = at.parent) {
    if (at.entry?.info.metadata.calls?.some((pattern) => covers(pattern, tool.name))) return true;
    if (at.options.allow?.(tool) === false) return false;
  }
  return true;
}

/** Compares what the tool asks for with what the caller holds. */
export function permit(frame: CallFrame): void {
  const { info } = frame.tool;
  const required = requiredBy(frame);
  if (required === undefined || required.length === 0) return;
  const missing = required.filter(
    (permission) => !frame.permissions.some((held) => covers(held, permission)),
  );
  if (missing.length === 0) return;
  throw new PermissionDeniedError(permissionDenied(info.name, missing), {
    toolName: info.name,
    input: frame.input,
    data: { missing },
  });
}

function requiredBy({ tool, current }: CallFrame): readonly string[] | undefined {
  const own = tool.info.metadata.permissions;
  const since = current?.info.metadata.permissions;
  return since === undefined ? own : [...new Set([...(own ?? []), ...since])];
}

/** `file:*` covers `file:read`; `*` covers everything. */
export function covers(held: string, permission: string): boolean {
  if (!held.includes("*")) return held === permission;
  const parts = held.split("*");
  const first = parts[0]!;
  const last = parts.at(-1)!;
  if (!permission.startsWith(first) || permission.length < first.length + last.length) return false;
  let from = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = permission.indexOf(part, from);
    if (found === -1) return false;
    from = found + part.length;
  }
  return permission.length - last.length >= from && permission.endsWith(last);
}

/** Asks loop detection whether the session repeats itself. A detector that fails lets the call pass. */
export function guard(frame: CallFrame): void {
  if (!frame.host.sessions.watches(frame)) return;
  const verdict = frame.host.sessions.assessNext(frame);
  if (verdict === undefined || verdict.action === "none" || verdict.action === "nudge") return;
  frame.flag().loop = verdict;
  throw new LoopBlockedError(loopMessage(verdict), {
    toolName: frame.toolName,
    input: frame.input,
    data: { verdict },
    recoverable: verdict.action !== "stop",
  });
}

/** Runs the tool, with its time limits watched from here on. */
export function run(frame: CallFrame): Promise<unknown> | undefined {
  const { implementation } = frame.tool;
  start(frame);
  if (frame.ended) return; // Somebody who was told of the start cancelled it.
  const output = implementation.run(new FrameContext(frame) as never);
  if (!isThenable(output)) {
    frame.output = output;
    return;
  }
  return Promise.resolve(output);
}

function start(frame: CallFrame): void {
  const { metadata } = frame.tool.info;
  // What came before took no time worth asking for, unless somebody wants to know.
  const now = frame.waited || frame.host.events.wanted ? performance.now() : frame.createdAt;
  frame.status = "running";
  frame.startedAt = now;
  frame.lastActivity = now;
  frame.timeLimit = shortest(metadata.timeout ?? frame.host.settings.timeout, frame.options.timeout);
  frame.idleLimit = metadata.idleTimeout ?? 0;
  if (frame.timeLimit > 0) frame.deadline = now + frame.timeLimit;
  // A child never outlives the time that its parent has left.
  if (frame.parent !== undefined) frame.deadline = Math.min(frame.deadline, frame.parent.deadline);
  frame.host.deadlines.watch(frame);
  stateChanged(frame);
}

/** Zero and nothing both mean "no limit". */
function shortest(own: number, callers: number | undefined): number {
  if (callers === undefined || callers <= 0) return own;
  return own > 0 ? Math.min(own, callers) : callers;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function"
  );
}

/**
 * Makes a result of what the tool returned and holds it to the output schema. An error that the tool returned
 * is an error in every record, like one that it threw.
 */
export function check(frame: CallFrame): Promise<void> | undefined {
  if (frame.host.events.wanted) frame.ranAt = performance.now();
  const draft = toResult(frame.output);
  frame.output = undefined;
  frame.draft = draft;
  if (draft.title !== undefined) frame.title = draft.title;
  if (draft.type === "error") {
    throw new ToolExecutionError(draft.content || "The tool reported an error without saying which.", {
      toolName: frame.toolName,
      input: frame.input,
      data: { returned: true },
    });
  }
  const { output } = frame.tool;
  if (output === undefined) return;
  const outcome = output.validate(draft.structured);
  if (outcome instanceof Promise) return outcome.then((settled) => hold(frame, settled));
  hold(frame, outcome);
}

function hold(frame: CallFrame, outcome: SchemaOutcome): void {
  if (outcome.ok) return;
  const message = badOutput(frame.toolName, outcome.issues);
  if (frame.tool.info.metadata.outputCheck === "warn") {
    frame.flag().outputMismatch = message;
    return;
  }
  throw new ToolExecutionError(message, {
    toolName: frame.toolName,
    input: frame.input,
    data: { issues: outcome.issues },
  });
}

/**
 * Hides known secrets from whoever reads the result. A call made by another tool keeps them: its reader is a program,
 * which may need them; what others are told of it is masked on the way.
 */
export function mask(frame: CallFrame): void {
  const { draft, parent, host } = frame;
  if (draft === undefined || parent !== undefined) return;
  frame.draft = maskValue(draft, host.settings.secrets());
}

/**
 * Looks again at what let the call in, after a person has thought about it: that may have taken hours. What runs is the
 * version that was agreed to, also where the rack has a newer one.
 */
export async function recheck(frame: CallFrame): Promise<void> {
  const why = await whyWithdrawn(frame);
  if (why !== undefined) {
    throw new PermissionDeniedError(callerGone(frame.toolName, why), {
      toolName: frame.toolName,
      input: frame.input,
    });
  }
  requireStanding(frame);
}

/** Throws when the tool is gone or switched off, or out of reach of the caller by now. */
export function requireStanding(frame: CallFrame): void {
  const { toolName, input } = frame;
  const before = frame.current ?? frame.tool;
  const now = frame.host.find(before.info.name);
  // Another tool may have taken the name for an alias of its own.
  if (now === undefined || now.key !== before.key) {
    throw new ToolNotFoundError(takenDown(toolName), { toolName, input, data: { suggestions: [] } });
  }
  if (now !== frame.entry) frame.current = now;
  if (now.info.disabled) {
    throw new ToolDisabledError(disabled(toolName, now.info.metadata.disabledReason), { toolName, input });
  }
  reach(frame);
  permit(frame);
}

/** Who made the first call of a chain is behind all of them. */
async function whyWithdrawn(frame: CallFrame): Promise<string | undefined> {
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    const why = await whyWithdrawnFrom(at);
    if (why !== undefined) return why;
  }
  return undefined;
}

async function whyWithdrawnFrom({ callId, options, host }: CallFrame): Promise<string | undefined> {
  try {
    return await options.withdrawn?.(callId);
  } catch (thrown) {
    // What failed there is for whoever runs the rack, not for the caller.
    host.settings.logger.error(`It is not known whether the caller of ${callId} is still there:`, thrown);
    return callerUnknown;
  }
}

import {
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
import type { ToolInfo } from "../../tool/types.ts";
import type { CallFrame } from "../call-frame.ts";

/**
 * Finds the tool. The list that the caller was shown decides what a name means, but a tool that was disabled or removed
 * since then is refused.
 */
export function resolve(frame: CallFrame): void {
  const { host, name, options } = frame;
  const current = host.find(name);
  const entry = current === undefined ? undefined : (options.snapshot?.find(name) ?? current);
  if (entry === undefined || current === undefined) {
    const suggestions = host.nearest(name);
    throw frame.refusal(ToolNotFoundError, notFound(name, suggestions, host.toolCount()), {
      data: { suggestions },
    });
  }
  frame.entry = entry;
  if (current !== entry) frame.current = current;
  if (current.info.disabled) refuseDisabled(frame, current.info);
  const { maxDepth } = host.settings;
  if (frame.depth > maxDepth) throw frame.refusal(ToolExecutionError, tooDeep(frame.shownName, maxDepth));
}

function refuseDisabled(frame: CallFrame, now: ToolInfo): void {
  if (!now.disabled) return;
  throw frame.refusal(ToolDisabledError, disabled(frame.shownName, now.metadata.disabledReason));
}

/** Refuses a tool that the caller may not use, before an error can reveal its schema. */
export function reach(frame: CallFrame): void {
  const { parent, options } = frame;
  if (options.allow === undefined && parent === undefined) return;
  const { info } = frame.tool;
  if (options.allow?.(info) !== false && (parent === undefined || isWithinReach(info, parent))) return;
  throw frame.refusal(PermissionDeniedError, outOfReach(info.name, parent?.shownName));
}

/**
 * Whether a call may use a tool. Asks the `allow` of the call and of each call above it, up to the first call
 * whose tool lists the wanted tool in `metadata.calls`.
 */
export function isWithinReach(tool: ToolInfo, from: CallFrame): boolean {
  for (let at: CallFrame | undefined = from; at !== undefined; at = at.parent) {
    if (at.entry?.info.metadata.calls?.some((pattern) => covers(pattern, tool.name))) return true;
    if (at.options.allow?.(tool) === false) return false;
  }
  return true;
}

/** Refuses a call whose caller lacks a permission that the tool requires. */
export function permit(frame: CallFrame): void {
  const { info } = frame.tool;
  const own = info.metadata.permissions;
  const since = frame.current?.info.metadata.permissions;
  const required = since === undefined ? own : [...new Set([...(own ?? []), ...since])];
  if (required === undefined || required.length === 0) return;
  const missing = required.filter(
    (permission) => !frame.permissions.some((held) => covers(held, permission)),
  );
  if (missing.length === 0) return;
  throw frame.refusal(PermissionDeniedError, permissionDenied(frame.shownName, missing), {
    data: { missing },
  });
}

/** `file:*` covers `file:read`; `*` covers everything. */
export function covers(held: string, permission: string): boolean {
  return held.includes("*") ? hasParts(permission, held.split("*")) : held === permission;
}

/** Whether the text begins with the first part, ends with the last, and has the others in between, in their order. */
export function hasParts(text: string, parts: readonly string[]): boolean {
  const [first = "", ...rest] = parts;
  const last = rest.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return text.length - at >= last.length && text.endsWith(last);
}

/** Refuses a call that loop detection blocks. A failing detector lets the call pass. */
export function guard(frame: CallFrame): void {
  if (frame.sessionID === "" || !frame.host.sessions.watches(frame)) return;
  const verdict = frame.host.sessions.assessNext(frame);
  if (verdict === undefined || verdict.action === "none" || verdict.action === "nudge") return;
  frame.flag().loop = verdict;
  const recoverable = verdict.action !== "stop";
  throw frame.refusal(LoopBlockedError, loopMessage(verdict), { data: { verdict }, recoverable });
}

/**
 * Repeats the admission checks after a person's consent, which may have taken hours. The approved version runs, even if
 * the rack has a newer one.
 */
export async function recheck(frame: CallFrame): Promise<void> {
  // Asks for each call of the chain, up to the first, whether its caller may still have anything run.
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    const why = await whyWithdrawn(at);
    if (why !== undefined) throw frame.refusal(PermissionDeniedError, callerGone(frame.shownName, why));
  }
  requireStanding(frame);
}

/** Throws when the tool is meanwhile gone, disabled or out of the caller's reach. */
export function requireStanding(frame: CallFrame): void {
  const before = frame.current ?? frame.tool;
  const now = frame.host.find(before.info.name);
  // Another tool may now have the name as an alias.
  if (now === undefined || now.key !== before.key) {
    throw frame.refusal(ToolNotFoundError, takenDown(frame.shownName), { data: { suggestions: [] } });
  }
  if (now !== frame.entry) frame.current = now;
  refuseDisabled(frame, now.info);
  reach(frame);
  permit(frame);
}

async function whyWithdrawn({ callId, options, host }: CallFrame): Promise<string | undefined> {
  try {
    return await options.withdrawn?.(callId);
  } catch (thrown) {
    // The operator finds the failure in the log; the caller is only told that there was one.
    host.settings.logger.error(`It is not known whether the caller of ${callId} is still there:`, thrown);
    return callerUnknown;
  }
}

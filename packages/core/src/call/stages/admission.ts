import {
  brokenSchema,
  callerGone,
  callerUnknown,
  disabled,
  invalidArguments,
  notAnObject,
  notFound,
  notJson,
  outOfReach,
  permissionDenied,
  takenDown,
  tooDeep,
  tooIntricate,
  tooLarge,
} from "../../error/messages.ts";
import {
  InvalidArgumentError,
  LoopBlockedError,
  PermissionDeniedError,
  ToolDisabledError,
  ToolExecutionError,
  ToolNotFoundError,
} from "../../error/tool-error.ts";
import { loopMessage } from "../../loop/loop-messages.ts";
import { tooMuchJson } from "../../schema/copy.ts";
import { isJsonText } from "../../schema/json.ts";
import type { SchemaOutcome } from "../../schema/types.ts";
import { reasonOf } from "../../schema/visit.ts";
import type { ToolInfo } from "../../tool/types.ts";
import type { CallFrame } from "../call-frame.ts";

/*
 * What a call has to pass before its tool runs: resolve, reach, validate, permit, guard, in this order. The functions of
 * each stage stand below it.
 */

/**
 * Finds the tool. The list that the caller was shown decides what a name means, but a tool that was disabled or removed
 * since then is refused.
 */
export function resolve(frame: CallFrame): void {
  const { host, name, options } = frame;
  const current = host.catalog.find(name);
  const entry = current === undefined ? undefined : (options.snapshot?.find(name) ?? current);
  if (entry === undefined || current === undefined) {
    const suggestions = host.nearest(name);
    throw frame.refusal(ToolNotFoundError, notFound(name, suggestions, host.catalog.size), {
      data: { suggestions },
    });
  }
  frame.entry = entry;
  frame.toolName = entry.info.name;
  if (current !== entry) frame.current = current;
  if (current.info.disabled) throw refuseDisabled(frame, current.info);
  const { maxDepth } = host.settings;
  if (frame.depth > maxDepth) throw frame.refusal(ToolExecutionError, tooDeep(frame.shownName, maxDepth));
}

function refuseDisabled(frame: CallFrame, now: ToolInfo): ToolDisabledError {
  return frame.refusal(ToolDisabledError, disabled(frame.shownName, now.metadata.disabledReason));
}

/** Refuses a tool that the caller may not use, before an error can reveal its schema. */
export function reach(frame: CallFrame): void {
  const { parent, options } = frame;
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

/** Characters. Longer texts are not repaired. */
const LONGEST_REPAIR = 256 * 1024;

/**
 * Turns the input into arguments that fit the schema. Text that is not JSON never runs as `{}`: it is repaired only if
 * the repaired value fits, never for a dangerous tool, and the record says so.
 */
export function validate(frame: CallFrame): Promise<void> | undefined {
  const { raw } = frame;
  let value: unknown = raw ?? {};
  if (typeof raw === "string") {
    const { maxArguments } = frame.host.settings;
    if (raw.length > maxArguments) throw refuse(frame, tooLarge(frame.shownName, raw.length, maxArguments));
    const excess = tooMuchJson(raw);
    if (excess !== undefined) throw refuse(frame, tooIntricate(frame.shownName, excess));
    try {
      value = raw.trim() === "" ? {} : (JSON.parse(raw) ?? {});
    } catch (thrown) {
      return repair(frame, raw, reasonOf(thrown));
    }
    // Models sometimes encode the object twice.
    if (typeof value === "string" && value.trimStart().startsWith("{"))
      return repair(frame, value, "a quoted text");
  }
  if (typeof value !== "object" || Array.isArray(value)) {
    const kind = Array.isArray(value) ? "list" : typeof value === "string" ? "text" : typeof value;
    throw refuse(frame, notAnObject(frame.shownName, `a ${kind}`));
  }
  const outcome = outcomeOf(frame, value);
  if (outcome instanceof Promise) return outcome.then((settled) => accept(frame, settled));
  accept(frame, outcome);
}

/** Validates arguments by the tool's schema. Also used for arguments that a person edited. */
export function outcomeOf(frame: CallFrame, value: unknown): SchemaOutcome | Promise<SchemaOutcome> {
  const { schema, info } = frame.tool;
  const strict = info.metadata.strict ?? frame.host.settings.strict;
  try {
    const outcome = schema.validate(value, strict ? { strict } : undefined);
    return outcome instanceof Promise ? outcome.catch((thrown) => fault(frame, thrown)) : outcome;
  } catch (thrown) {
    return fault(frame, thrown);
  }
}

/** An unusable schema is the tool's fault, not the caller's. */
function fault(frame: CallFrame, thrown: unknown): never {
  const problem = reasonOf(thrown);
  const message = brokenSchema(frame.shownName, problem);
  throw frame.refusal(ToolExecutionError, message, { cause: thrown, recoverable: false });
}

export function accept(frame: CallFrame, outcome: SchemaOutcome): void {
  if (!outcome.ok) throw misfit(frame, outcome);
  if (outcome.dropped?.length) frame.flag().dropped = outcome.dropped;
  // The validator gets an object and returns one, unless the schema's author transforms it.
  frame.input = outcome.value as Record<string, unknown>;
  frame.isLarge = outcome.isLarge === true;
}

function misfit(frame: CallFrame, { issues }: Extract<SchemaOutcome, { ok: false }>): InvalidArgumentError {
  const message = invalidArguments(frame.shownName, issues);
  return refuse(frame, customMessage(frame, message, issues) ?? message, { issues });
}

function customMessage(frame: CallFrame, message: string, issues: SchemaIssues): string | undefined {
  try {
    return frame.tool.implementation.formatValidationError?.({ message, issues });
  } catch {
    return undefined; // A failing formatter must not hide the issues.
  }
}

type SchemaIssues = Extract<SchemaOutcome, { ok: false }>["issues"];

async function repair(frame: CallFrame, text: string, problem: string): Promise<void> {
  const refusal = refuse(frame, notJson(frame.shownName, problem));
  if (frame.tool.info.metadata.dangerous === true || text.length > LONGEST_REPAIR) throw refusal;
  const mended = await parseRepaired(text);
  if (typeof mended !== "object" || mended === null || Array.isArray(mended)) throw refusal;
  const outcome = await outcomeOf(frame, mended);
  if (!outcome.ok) throw refusal;
  // Without this check, a repaired text such as `{bad` would run the tool with the arguments `{}`.
  const kept = Object.keys(mended).some((key) => Object.hasOwn(outcome.value as object, key)); // Valid, so an object.
  if (!kept && !isJsonText(text)) throw refusal;
  frame.flag().repaired = true;
  accept(frame, outcome);
}

async function parseRepaired(text: string): Promise<unknown> {
  const { jsonrepair } = await import("jsonrepair");
  try {
    return JSON.parse(jsonrepair(text));
  } catch {
    return undefined;
  }
}

function refuse(frame: CallFrame, message: string, data?: Record<string, unknown>): InvalidArgumentError {
  return frame.refusal(InvalidArgumentError, message, { data });
}

/**
 * Parses arguments that came as JSON text before anything else looks at them, so that refused calls are recorded,
 * masked and counted alike. Other texts stay, and validation reports them.
 */
export function readArguments(frame: CallFrame): void {
  const { raw, host } = frame;
  if (typeof raw !== "string" || raw.length > host.settings.maxArguments) return;
  if (tooMuchJson(raw) !== undefined) return;
  try {
    const parsed: unknown = JSON.parse(raw);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) frame.raw = parsed;
  } catch {
    // Ignored here: validation, which comes next, reports the invalid text.
  }
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

/** Refuses a call of a session that loop detection blocks. A failing detector lets the call pass. */
export function guard(frame: CallFrame): void {
  if (!frame.host.sessions.watches(frame)) return;
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
  const now = frame.host.catalog.find(before.info.name);
  // Another tool may now have the name as an alias.
  if (now === undefined || now.key !== before.key) {
    throw frame.refusal(ToolNotFoundError, takenDown(frame.shownName), { data: { suggestions: [] } });
  }
  if (now !== frame.entry) frame.current = now;
  if (now.info.disabled) throw refuseDisabled(frame, now.info);
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

import {
  brokenSchema,
  invalidArguments,
  notAnObject,
  notJson,
  tooIntricate,
  tooLarge,
} from "../../error/messages.ts";
import { InvalidArgumentError, ToolExecutionError } from "../../error/tool-error.ts";
import { tooMuchJson } from "../../schema/copy.ts";
import { isJsonText } from "../../schema/json.ts";
import type { SchemaOutcome } from "../../schema/types.ts";
import type { CallFrame } from "../call-frame.ts";

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
      return repair(frame, raw, thrown instanceof Error ? thrown.message : String(thrown));
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
  const problem = thrown instanceof Error ? thrown.message : String(thrown);
  const message = brokenSchema(frame.shownName, problem);
  throw frame.refusal(ToolExecutionError, message, { cause: thrown, recoverable: false });
}

export function accept(frame: CallFrame, outcome: SchemaOutcome): void {
  if (!outcome.ok) throw misfit(frame, outcome);
  if (outcome.dropped !== undefined && outcome.dropped.length > 0) frame.flag().dropped = outcome.dropped;
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
  const kept = Object.keys(mended).some((key) => Object.hasOwn(outcome.value as object, key)); // Arguments that fit the schema are an object.
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

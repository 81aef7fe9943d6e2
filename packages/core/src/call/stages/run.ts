import { badOutput } from "../../error/messages.ts";
import { ToolExecutionError, withStackOf } from "../../error/tool-error.ts";
import { isLarge, parseJson, safeJsonSteps } from "../../schema/json.ts";
import { isPromise } from "../../schema/library-validator.ts";
import type { CompiledSchema, SchemaOutcome } from "../../schema/types.ts";
import type { RawResult } from "../../tool/result.ts";
import { toResult, toResultSteps } from "../../tool/to-result.ts";
import type { CallFrame } from "../call-frame.ts";
import { FrameContext, mayKeepContext, spreading } from "../context.ts";
import { keepResultKeys } from "../loop-sessions.ts";
import { Mask } from "../mask.ts";
import { atOnce, HIDDEN_JSON, maskSteps, REDACTED } from "../mask-steps.ts";
import type { CallMock, Environment } from "../settings.ts";
import { shownInput, stateChanged } from "../state.ts";
import { inTurns, oneByOne, readClock } from "../time.ts";

/** Asks whether something stands in for the tool in this call. */
export function mock(frame: CallFrame, stand: CallMock): void {
  const { input, depth, tool } = frame;
  frame.answer = stand.answer({ tool: tool.info, input, depth });
  if (frame.answer !== undefined) frame.flag().mocked = true;
}

/** Runs the tool, with its time limits watched from here on. */
export function run(frame: CallFrame): Promise<unknown> | undefined {
  const { tool } = frame;
  const { implementation, info } = tool;
  const { settings, events, deadlines } = frame.host;
  // The stages before took hardly any time, so the clock is read only if one of them waited or somebody
  // listens.
  const now = frame.waited || events.wanted ? readClock() : frame.createdAt;
  frame.status = "running";
  frame.startedAt = now;
  // Zero and nothing both mean "no limit".
  const own = info.metadata.timeout ?? settings.timeout;
  const callers = frame.options.timeout ?? 0;
  const timeLimit = own > 0 && callers > 0 ? Math.min(own, callers) : callers > 0 ? callers : own;
  const idleLimit = info.metadata.idleTimeout ?? 0;
  if (idleLimit > 0) {
    frame.idleLimit = idleLimit;
    frame.lastActivity = now;
  }
  if (timeLimit > 0) frame.deadline = now + timeLimit;
  // A child never outlives the time that its parent has left.
  if (frame.parent !== undefined) frame.deadline = Math.min(frame.deadline, frame.parent.deadline);
  deadlines.watch(frame, now);
  stateChanged(frame);
  if (frame.ended) return; // A listener that was told of the start cancelled the call.
  if (frame.answer !== undefined) {
    frame.output = frame.answer();
    return;
  }
  const source = frame.options.env === undefined ? settings.environment : undefined;
  const isAsked =
    source !== undefined && (info.metadata.environment !== undefined || source.tools.has(info.name));
  const environment = isAsked ? source.of(info) : undefined;
  tool.keepsContext ??= mayKeepContext(implementation.run);
  // The arguments have passed the schema, so they have the types that the tool declares.
  const plain = new FrameContext(frame);
  const context = tool.keepsContext ? new Proxy(plain, spreading) : plain;
  if (environment !== undefined) return runWith(frame, environment, context);
  const output = implementation.run(context);
  if (output instanceof Promise) return output;
  if (!isPromise(output)) {
    frame.output = output;
    return;
  }
  return Promise.resolve(output);
}

/** Runs the tool when its settings and secrets have come. A function of its own, because a closure costs every call. */
async function runWith(
  frame: CallFrame,
  environment: Promise<Environment>,
  context: FrameContext,
): Promise<unknown> {
  frame.environment = await environment;
  return frame.ended ? undefined : frame.tool.implementation.run(context);
}

/**
 * Makes a result of what the tool returned and checks it by the output schema. An error that the tool returned fails the
 * call, like one that it threw. What needs a closure has a function of its own: V8 makes room for one in every call (168 B).
 */
export function check(frame: CallFrame): Promise<void> | undefined {
  const { output } = frame;
  if (frame.host.events.wanted) frame.ranAt = readClock();
  frame.output = undefined;
  const isLong = typeof output === "string" ? output.length > LONG : isLarge(output);
  return isLong ? checkInSteps(frame, output) : checkResult(frame, toResult(output));
}

function checkInSteps(frame: CallFrame, output: unknown): Promise<void> {
  return oneByOne(async () => checkResult(frame, await inTurns(toResultSteps(output), frame)));
}

function checkResult(frame: CallFrame, draft: RawResult): Promise<void> | undefined {
  frame.draft = draft;
  if (draft.title !== undefined) frame.title = draft.title;
  if (draft.type === "error") {
    const message = draft.content || "The tool reported an error without saying which.";
    const { cause, ...kept } = draft;
    frame.draft = kept;
    const error = frame.refusal(ToolExecutionError, message, { cause, data: { returned: true } });
    throw withStackOf(cause, error);
  }
  const { output } = frame.tool;
  if (output !== undefined) return checkOutput(frame, draft, output);
  const isShort = draft.content.length <= LONG && draft.structuredText === undefined;
  return isShort ? undefined : readIfLong(frame, draft, false);
}

function checkOutput(frame: CallFrame, draft: RawResult, schema: CompiledSchema): Promise<void> | undefined {
  const outcome = schema.validate(structuredOf(frame, draft));
  const isParsed = frame.draft !== draft;
  const settle = (settled: SchemaOutcome) => {
    hold(frame, settled);
    return readIfLong(frame, draft, isParsed);
  };
  return outcome instanceof Promise ? outcome.then(settle) : settle(outcome);
}

/** `isParsed`: the structured value was read from the text. */
function readIfLong(
  frame: CallFrame,
  { content, structuredText }: RawResult,
  isParsed: boolean,
): Promise<void> | undefined {
  const isLong = content.length > LONG || (structuredText?.length ?? 0) > LONG;
  return isLong ? inTurns(longTextSteps(frame, isParsed), frame) : undefined;
}

/** Characters. A longer text is read in slices, or masking and hashing it would stop all other calls. */
const LONG = 1024 * 1024;

/** Does what `mask` and `bound` would do with long texts. */
function* longTextSteps(frame: CallFrame, isParsed: boolean): Generator<void, void> {
  const { isNested, host } = frame;
  const secrets = host.settings.secrets();
  // A text that a tool wrote may have other escapes than the JSON of its value.
  const structuredText = isParsed ? (yield* safeJsonSteps(frame.draft?.structured)).text : undefined;
  const given: RawResult = { ...frame.draft!, ...(isParsed && { structuredText }) };
  const json = given.structuredText ?? given.content;
  const isBulky = given.structured !== undefined && json.length > host.settings.maxStructured;
  const known = yield* maskedTexts(secrets, given);
  const isClean = known.content === given.content && known.structuredText === given.structuredText;
  if (isClean || !isNested) frame.cleanOf = secrets;
  const draft = { ...given, ...known };
  if (!isClean && !isNested && given.structured !== undefined) {
    // Where the text is hidden as a whole, the value that it was made of is too. A bulky one is not given out.
    const isHidden = isBulky || known.content === HIDDEN_JSON;
    draft.structured = isHidden ? REDACTED : secrets.apply(given.structured);
  }
  if (!isNested) frame.draft = draft;
  // Others than the caller can read what is kept, so the secrets of the arguments are masked in it.
  const kept = yield* maskedTexts(Mask.none.and(shownInput(frame).found), draft);
  frame.kept = { ...kept, isBulky, masked: secrets };
}

type Texts = Pick<RawResult, "content" | "structuredText">;

function* maskedTexts(mask: Mask, { type, content, structuredText }: RawResult): Generator<void, Texts> {
  const isJson = type === "json";
  if (structuredText === undefined) return { content: yield* maskSteps(mask, content, isJson) };
  const shown = yield* maskSteps(mask, structuredText, true);
  const isFound = isJson && shown !== structuredText;
  return { content: yield* maskSteps(mask, content, isJson, isFound), structuredText: shown };
}

/** The structured value of a result; for a tool that returns its data as JSON text, the value of the text. */
function structuredOf(frame: CallFrame, draft: RawResult): unknown {
  if (draft.structured !== undefined) return draft.structured;
  const structured = parseJson(draft.content);
  if (structured !== undefined) frame.draft = { ...draft, type: "json", structured };
  return structured;
}

function hold(frame: CallFrame, outcome: SchemaOutcome): void {
  if (outcome.ok) return;
  const message = badOutput(frame.shownName, outcome.issues);
  if ((frame.tool.info.metadata.outputCheck ?? "strict") !== "strict") {
    frame.flag().outputMismatch = message;
    return;
  }
  throw frame.refusal(ToolExecutionError, message, { data: { issues: outcome.issues } });
}

/** A call that failed has another text than the one that was read. */
export function isCleanOf(frame: CallFrame, secrets: Mask): boolean {
  return frame.cleanOf === secrets && frame.error === undefined;
}

/** The texts that were read in slices. Undefined for others, and when the call failed or the secrets changed since. */
export function keptTexts({ error, kept, host }: CallFrame): CallFrame["kept"] {
  return error === undefined && kept?.masked === host.settings.secrets() ? kept : undefined;
}

/**
 * Masks known secrets in the result. The result of a call made by another tool keeps them, because that tool
 * may need them; in its records and events they are masked separately.
 */
export function mask(frame: CallFrame): void {
  const { draft, isNested, host } = frame;
  if (draft === undefined || isNested) return;
  const secrets = host.settings.secrets();
  if (!secrets.isEmpty)
    frame.draft = secrets.inResult(draft, frame.cleanOf && isCleanOf(frame, secrets) ? "all" : undefined);
}

/**
 * Cuts a result that is too large for a model. The whole text is kept and can be read in pages by call id; a
 * structured value that is too large is left out of the result and appended to the kept text as JSON. The
 * result of a call made by another tool is not cut.
 */
export function bound(frame: CallFrame): void {
  const draft = frame.draft;
  if (draft === undefined) return;
  const isText =
    draft.structured === undefined && draft.attachments === undefined && draft.blocks === undefined;
  frame.isShort = isText && draft.content.length <= frame.host.settings.maxContent;
  // From a text that stays as it is, loop detection can compute its keys at any later time.
  if (!frame.isShort || frame.flags?.edited) boundParts(frame, draft);
}

function boundParts(frame: CallFrame, draft: RawResult): void {
  const { maxContent, maxStructured } = frame.host.settings;
  const long = frame.kept && keptTexts(frame);
  const { length: size } = draft.structuredText ?? draft.content;
  const isBulky = long?.isBulky ?? (draft.structured !== undefined && size > maxStructured);
  const fits = draft.content.length <= maxContent && !isBulky;
  if (!frame.isNested) keepResultKeys(frame, draft, fits);
  if (fits) return;
  // Others than the caller can read the kept text, so secrets are masked in it. In the result of a call that
  // no tool made, the `mask` stage has already masked the known ones.
  const secrets = frame.host.settings.secrets();
  const isMasked = !frame.isNested || isCleanOf(frame, secrets);
  const mask = (isMasked ? Mask.none : secrets).and(shownInput(frame).found);
  const { content, structuredText = content } = long ?? atOnce(maskedTexts(mask, draft));
  const { structured, structuredText: _, ...rest } = draft;
  // In most results with a structured value, the text is already its JSON.
  const isJson = !isBulky || content === structuredText;
  const whole = isJson ? content : content === "" ? structuredText : `${content}\n\n${structuredText}`;
  if (isBulky) frame.flag().truncated = true;
  if (frame.isNested) {
    frame.host.results.keep(frame.callId, whole, secrets);
    return;
  }
  const kept = structured === undefined || isBulky ? rest : { ...rest, structured };
  frame.draft = shorten(frame, { ...kept, content }, whole, secrets);
  frame.flag().truncated = true;
}

function shorten(frame: CallFrame, draft: RawResult, whole: string, secrets: Mask): RawResult {
  const { maxContent } = frame.host.settings;
  const { length } = draft.content;
  const kept = frame.host.results.keep(frame.callId, whole, secrets);
  const isLong = length > maxContent;
  const head = isLong ? cutPoint(whole, Math.floor(maxContent * 0.7)) : length;
  const tail = isLong ? cutPoint(whole, whole.length - Math.floor(maxContent * 0.3)) : whole.length;
  const hidden = tail - head;
  const where = kept
    ? `the whole result (${whole.length} characters) is kept as call ${frame.callId}; read on from offset ${head}`
    : `the whole result (${whole.length} characters) is too large to keep; ask for less`;
  const others = draft.blocks?.filter((block) => block.type !== "text");
  const shortened = `${whole.slice(0, head)}\n… ${hidden} characters left out here: ${where} …\n${whole.slice(tail)}`;
  return {
    ...draft,
    // The shortened content is no longer valid JSON, so it is a text now.
    type: draft.type === "json" ? "text" : draft.type,
    content: shortened,
    ...(others === undefined ? {} : { blocks: [{ type: "text", text: shortened }, ...others] }),
    metadata: { ...draft.metadata, truncated: { total: whole.length, head, tail, callId: frame.callId } },
  };
}

/** Moves a cut that would separate the two halves of a character. */
function cutPoint(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

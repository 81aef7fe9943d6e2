import { isDeepStrictEqual } from "node:util";
import {
  compileSchema,
  type ToolErrorResponse,
  type ToolInfo,
  type ToolRegistry,
  type ToolResult,
} from "@toolrack/core";
import { type Mask, redact } from "@toolrack/core/internal";
import { grantOf } from "../access/index.ts";
import { isRecord } from "../helpers/index.ts";
import type { CallStore, StoredCall, TokenStore } from "../store/index.ts";
import { idsIn, jsonOf, timesIn } from "./expectation.ts";
import { definitionOf, reachesOut } from "./mock.ts";
import {
  type Expectation,
  escapeReferences,
  fillReferences,
  type InnerCall,
  mapTexts,
  pointerStep,
  type RecordedTool,
  type SavedCall,
  type SavedCaller,
  secretReference,
} from "./saved-call.ts";

/** A call cannot become a test. The message says why, and what would help. */
export class UnwritableCall extends Error {
  override readonly name = "UnwritableCall";
  /** The place of the value that cannot be written down: `arguments/pin`, `calls/0/answer/data`. */
  readonly path: string | undefined;

  constructor(message: string, path?: string) {
    super(message);
    this.path = path;
  }
}

/** What is known of a call that has ended. Secrets in it may be masked already. */
export interface EndedCall {
  readonly toolName: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly result: ToolResult;
  readonly error?: ToolErrorResponse;
  readonly timestamp: number;
}

export interface RecordingParts {
  readonly calls: Pick<CallStore, "get" | "list" | "readResult">;
  readonly registry: Pick<ToolRegistry, "get" | "secretMask">;
  readonly tokens: Pick<TokenStore, "list">;
}

/** A test made from a record, with the tools that it needs as they are now. */
export interface RecordedTest {
  readonly test: SavedCall;
  readonly tools: Readonly<Record<string, RecordedTool>>;
}

/** How many calls a recorded call may have made. */
const MOST_INNER = 2_000;

/** Makes a test of a recorded call. Rejects with `UnwritableCall` when it cannot be one. */
export async function recordTest(
  callId: string,
  parts: RecordingParts,
  name?: string,
): Promise<RecordedTest> {
  const call = await readCall(callId, parts);
  const inner = await innerCallsOf(callId, parts);
  const as = await callerOf(call, parts);
  return toTest(call, inner, parts.registry, { ...(name !== undefined && { name }), ...(as && { as }) });
}

/** Reads a call that has ended, with the whole of its result. */
export async function readCall(callId: string, { calls }: RecordingParts): Promise<StoredCall> {
  const call = await calls.get(callId);
  if (call === undefined)
    throw new UnwritableCall(`There is no call "${callId}". \`toolrack logs --ids\` shows the last ones.`);
  if (call.outcome === "running") throw new UnwritableCall(`The call "${callId}" has not ended yet.`);
  if (call.outcome === "interrupted" || call.outcome === "cancelled")
    throw new UnwritableCall(`The call "${callId}" was ${call.outcome}, so nothing can be expected of it.`);
  const isWhole = call.flags?.truncated !== true && call.result.content.length >= call.resultSize;
  if (isWhole) return call;
  const page = await calls.readResult(callId, 0, Number.MAX_SAFE_INTEGER);
  return page === undefined ? call : { ...call, result: wholeResult(call.result, page.text) };
}

/** A result with its whole text. A structured value that was left out stands behind the text, as JSON on one line. */
export function wholeResult(result: ToolResult, text: string): ToolResult {
  const { truncated: _, ...metadata } = result.metadata ?? {};
  const { metadata: __, ...rest } = result;
  const whole = { ...rest, content: text, ...(Object.keys(metadata).length > 0 && { metadata }) };
  if (result.structured !== undefined || result.type === "error") return whole;
  const structured = jsonOf(text);
  if (structured !== undefined) return { ...whole, type: "json", structured };
  const end = text.lastIndexOf("\n\n");
  const behind = end === -1 ? undefined : jsonOf(text.slice(end + 2));
  return behind === undefined ? whole : { ...whole, content: text.slice(0, end), structured: behind };
}

/** The calls that a call made itself, in their order. */
async function innerCallsOf(callId: string, parts: RecordingParts): Promise<StoredCall[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await parts.calls.list({ parent: callId, limit: 500, ...(cursor && { cursor }) });
    ids.push(...page.items.map((item) => item.callId));
    cursor = page.next;
    if (ids.length > MOST_INNER)
      throw new UnwritableCall(`The call made more than ${MOST_INNER} others, too many for a test.`);
  } while (cursor !== undefined);
  const inner: StoredCall[] = [];
  for (const id of ids.reverse()) inner.push(await readCall(id, parts));
  return inner;
}

/** As whom a recorded call was made, if its token may not use all tools. */
async function callerOf(
  { owner, expert }: StoredCall,
  { tokens }: RecordingParts,
): Promise<SavedCaller | undefined> {
  const token =
    owner === undefined ? undefined : (await tokens.list()).find((one) => grantOf(one).caller === owner);
  const isLimited = token !== undefined && token.scopes.admin !== true;
  if (!isLimited && expert === undefined) return undefined;
  // A token reaches the tools of an expert through the expert, whatever its own patterns are.
  if (expert !== undefined) return { expert };
  return { tools: token?.scopes.tools ?? [] };
}

/** Makes a test of a call and of the calls that it made. */
export function toTest(
  call: EndedCall,
  inner: readonly EndedCall[],
  registry: RecordingParts["registry"],
  given: {
    readonly name?: string;
    readonly as?: SavedCaller;
    /** Further values that must not be written down. */
    readonly secrets?: ReadonlySet<string>;
  } = {},
): RecordedTest {
  const tool = registry.get(call.toolName);
  // The answer of a tool that calls another server is a recorded answer too.
  const asked = tool !== undefined && reachesOut(tool) ? [call, ...inner] : inner;
  const known = registry.secretMask.and(given.secrets ?? new Set());
  const writer = new Writer(known, [call, ...inner]);
  const args = writer.arguments(call.parameters, "arguments");
  if (call.error === undefined && tool !== undefined) requireFitting(args, tool);
  // A record keeps a text that was sent in place of arguments under this key.
  const isText = call.error?.code === "invalid_arguments" && Object.keys(args).join() === "raw";
  const sent = isText && typeof args.raw === "string" ? args.raw : args;
  const calls = asked.map((one, index) => innerCallOf(one, writer, `calls/${index}`));
  const expect = expectationOf(call, writer);
  const ignore = volatileIn(expect.snapshot ?? expect.contains, call, [args, calls]);
  const test: SavedCall = {
    name: given.name ?? nameFor(call.toolName, args),
    tool: call.toolName,
    arguments: sent,
    ...(given.as && { as: given.as }),
    ...(tool?.metadata.dangerous === true && call.error === undefined && { approve: true }),
    expect,
    ...(calls.length > 0 && { calls }),
    ...(ignore.length > 0 && { ignore }),
  };
  const tools = writer.tools(new Set([call.toolName, ...asked.map(({ toolName }) => toolName)]), registry);
  writer.requireClean(test, "");
  return { test, tools };
}

function expectationOf({ result, error }: EndedCall, writer: Writer): Expectation {
  if (error !== undefined)
    return {
      status: "error",
      code: error.code,
      contains: writer.value(error.message, "expect/contains") as string,
    }; // The writer turns a text into a text.
  return { status: "completed", snapshot: writer.value(resultValue(result), "expect/snapshot") };
}

/** The structured value of a result; without one, its text. */
export function resultValue({ structured, type, content }: ToolResult): unknown {
  return structured ?? (type === "json" ? (jsonOf(content) ?? content) : content);
}

/** A recorded call and its answer, in the shortest form that says it all. */
function innerCallOf(
  { toolName, parameters, result, error }: EndedCall,
  writer: Writer,
  path: string,
): InnerCall {
  const asked = { tool: toolName, arguments: writer.arguments(parameters, `${path}/arguments`) };
  if (error !== undefined) {
    const message = writer.value(error.message, `${path}/error`) as string; // The writer turns a text into a text.
    return { ...asked, error: { code: error.code, message } };
  }
  const { content, type, structured, blocks, attachments, metadata } = result;
  const isPlain = blocks === undefined && attachments === undefined && metadata === undefined;
  if (isPlain && type === "text" && structured === undefined)
    return { ...asked, answer: writer.value(content, `${path}/answer`) };
  if (isPlain && type === "json" && JSON.stringify(structured) === content)
    return { ...asked, answer: writer.value(structured, `${path}/answer`) };
  const whole = { content, type, structured, blocks, attachments, metadata };
  const kept = Object.fromEntries(Object.entries(whole).filter(([, value]) => value !== undefined));
  return { ...asked, result: writer.value(kept, `${path}/result`) as InnerCall["result"] }; // The writer changes only texts.
}

/** What a test tells of the answer to its own call, and its recorded inner calls: all that a recording can answer. */
export function answersOf({ tool, arguments: given, expect = {}, calls = [] }: SavedCall): InnerCall[] {
  const { status, code, equals, snapshot, contains } = expect;
  const own = { tool, ...(typeof given === "object" && { arguments: given }) };
  // The answer of a tool that calls another server is recorded like that of an inner call.
  const isOwn = (call: InnerCall) => call.tool === tool && isDeepStrictEqual(call.arguments ?? given, given);
  if (calls.some(isOwn)) return [...calls];
  if (status === "error" || code !== undefined) {
    const message = typeof contains === "string" ? contains : "The recorded call failed.";
    return [{ ...own, error: { message, ...(code && { code }) } }, ...calls];
  }
  const answer = equals ?? snapshot ?? contains;
  return answer === undefined ? [...calls] : [{ ...own, answer }, ...calls];
}

const hiddenText = "[redacted]";
/** What stands in a record for a part that could not be kept. */
const lostText = /^\[(?:circular|too deep|unreadable|function|symbol|\d+ bytes)\]$/;
const lostKey = "[too large]";

/** Writes values of records down without their secrets. */
class Writer {
  readonly #mask: Mask;
  /** Secrets that were found by the names of their places, also those that are too short to be looked for in texts. */
  readonly #found = new Set<string>();

  constructor(known: Mask, calls: readonly EndedCall[]) {
    for (const { parameters, result, error } of calls) {
      const values = [parameters, result.structured, jsonOf(result.content), result.content, error?.message];
      for (const value of [...values, result.blocks, result.metadata])
        redact(value, { mask: known, found: this.#found });
    }
    this.#found.delete(hiddenText);
    this.#mask = known.and(this.#found);
  }

  arguments(parameters: EndedCall["parameters"], path: string): Record<string, unknown> {
    const lost =
      findText(parameters, (text) => lostText.test(text)) ?? findKey(parameters, (key) => key === lostKey);
    if (lost !== undefined)
      throw new UnwritableCall(
        `${path}${lost} is not in the record. Write the test by hand.`,
        `${path}${lost}`,
      );
    return this.value(parameters, path) as Record<string, unknown>; // The writer turns an object into an object.
  }

  /** The value with references in place of what is secret. Throws for a secret that no reference can replace. */
  value(value: unknown, path: string): unknown {
    const shown = this.#mask.apply(redact(value, { mask: this.#mask }));
    const key = findKey(shown, (name) => name.includes(hiddenText));
    if (key !== undefined) throw unmaskable(`${path}${key}`, "It is the name of a member.");
    const lost = findText(shown, (text) => text === "[too deep]");
    if (lost !== undefined) throw unmaskable(`${path}${lost}`, "It is nested too deep to be looked through.");
    return mapTexts(shown, (text, at) => {
      if (!text.includes(hiddenText) && !isHiddenBytes(text)) return escapeReferences(text);
      if (/(?:^|\/)(?:data|blob)$/.test(at) || /^data:[^,]{0,200};base64,/i.test(text))
        throw unmaskable(`${path}${at}`, "Bytes with a part left out are no bytes.");
      const name = referenceName(`${path}${at}`);
      return escapeReferences(text).replaceAll(hiddenText, () => secretReference(name));
    });
  }

  /** The definitions of tools, for a rack that does not have them. */
  tools(names: ReadonlySet<string>, registry: RecordingParts["registry"]): Record<string, RecordedTool> {
    const found = [...names].flatMap((name): [string, RecordedTool][] => {
      const tool = registry.get(name);
      const definition = tool && definitionOf(tool);
      return definition === undefined ? [] : [[name, this.#mask.apply(definition)]];
    });
    return Object.fromEntries(found);
  }

  /** Throws when any part of the value still holds a secret. */
  requireClean(value: unknown, path: string): void {
    const holds = (text: string) => this.#mask.finds(text) || this.#found.has(text);
    const where =
      findText(value, holds) ??
      findKey(value, (key) => this.#mask.finds(key)) ??
      findNumber(value, (number) => holds(String(number)));
    if (where !== undefined) throw unmaskable(`${path}${where}`, "It is too short, or a number.");
  }
}

function isHiddenBytes(text: string): boolean {
  return text === "W3JlZGFjdGVkXQ==";
}

function unmaskable(path: string, why: string): UnwritableCall {
  const shown = path.replace(/^\//, "");
  return new UnwritableCall(
    `${shown} holds a secret that cannot be left out of the file. ${why} Write the test by hand, without it.`,
    shown,
  );
}

/** `arguments/headers/apiKey` → `HEADERS_API_KEY`. */
function referenceName(path: string): string {
  const steps = path
    .split("/")
    .filter((step) => !/^(?:arguments|expect|calls|answer|result|snapshot|contains)$/.test(step));
  const words = steps
    .join("_")
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9]+/g, "_");
  const name =
    words
      .replace(/^_+|_+$/g, "")
      .toUpperCase()
      .slice(-80) || "VALUE";
  return /^[A-Z_]/.test(name) ? name : `CALL_${name}`;
}

/** Throws when a hidden value stood where the tool takes no text. */
function requireFitting(args: Record<string, unknown>, tool: ToolInfo): void {
  const filled = fillReferences(args, standInValue);
  if (JSON.stringify(filled) === JSON.stringify(args)) return;
  const outcome = compileSchema(tool.parameters).validate(filled);
  if (outcome instanceof Promise || outcome.ok) return;
  const [issue] = outcome.issues;
  const path = `arguments/${issue?.path ?? ""}`;
  throw unmaskable(path, `No text can stand for it: ${issue?.message ?? ""}`);
}

/** What stands for a secret that is not set. Long enough to be masked where it shows. */
export function standInValue(name: string): string {
  return `stand-in-for-${name}`;
}

const LONGEST_NAME = 80;

function nameFor(tool: string, args: Record<string, unknown>): string {
  const shown = Object.entries(args).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const name = [tool, ...shown].join(" ").replace(/\s+/g, " ");
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
}

const NEAR = 10 * 60_000;

/** What of an expected value will differ from run to run: times about that of the call, and ids that nobody gave it. */
function volatileIn(expected: unknown, { timestamp }: EndedCall, given: readonly unknown[]): string[] {
  const [text, known] = [JSON.stringify(expected) ?? "", JSON.stringify(given)];
  const isNear = (time: string) => Math.abs(Date.parse(time) - timestamp) < NEAR && !known.includes(time);
  const epochs = text.match(/\b1\d{12}\b/g) ?? [];
  const hasTimes =
    timesIn(text).some(isNear) || epochs.some((time) => Math.abs(Number(time) - timestamp) < NEAR);
  const hasIds = idsIn(text).some((id) => !known.includes(id));
  return [...(hasIds ? ["ids"] : []), ...(hasTimes ? ["times"] : [])];
}

/** The JSON pointer of the first text for which `isMeant` is true. */
function findText(value: unknown, isMeant: (text: string) => boolean): string | undefined {
  return find(
    value,
    (one) => typeof one === "string" && isMeant(one),
    () => false,
  );
}

function findNumber(value: unknown, isMeant: (number: number) => boolean): string | undefined {
  return find(
    value,
    (one) => typeof one === "number" && isMeant(one),
    () => false,
  );
}

function findKey(value: unknown, isMeant: (key: string) => boolean): string | undefined {
  return find(value, () => false, isMeant);
}

function find(
  value: unknown,
  isValue: (value: unknown) => boolean,
  isKey: (key: string) => boolean,
  path = "",
): string | undefined {
  if (isValue(value)) return path;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    const here = `${path}/${pointerStep(key)}`;
    if (isRecord(value) && isKey(key)) return path;
    const found = find(item, isValue, isKey, here);
    if (found !== undefined) return found;
  }
  return undefined;
}

import { isDeepStrictEqual } from "node:util";
import { compileSchema, type ToolInfo, type ToolRegistry, type ToolResult } from "@toolrack/core";
import { grantOf } from "../access/index.ts";
import type { CallStore, StoredCall, TokenStore } from "../store/index.ts";
import { idsIn, jsonOf, timesIn } from "./expectation.ts";
import { reachesOut } from "./mock.ts";
import {
  type Expectation,
  fillReferences,
  type InnerCall,
  type RecordedTool,
  type SavedCall,
  type SavedCaller,
} from "./saved-call.ts";
import { type EndedCall, UnwritableCall, unmaskable, Writer } from "./writer.ts";

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

/** Answers to calls, with the tools as they are now. */
export interface RecordedAnswers {
  readonly calls: readonly InnerCall[];
  readonly tools: RecordedTest["tools"];
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

/** What a recorded call and the calls that it made were answered, for a rack that serves nothing else. */
export async function recordAnswers(
  callId: string,
  parts: Omit<RecordingParts, "tokens">,
): Promise<RecordedAnswers> {
  const { registry } = parts;
  const ended = [await readCall(callId, parts), ...(await innerCallsOf(callId, parts))];
  const writer = new Writer(registry.secretMask, ended);
  const calls = ended.map((one, index) => innerCallOf(one, writer, `calls/${index}`));
  writer.requireClean(calls, "calls");
  return { calls, tools: writer.tools(new Set(ended.map(({ toolName }) => toolName)), registry) };
}

/** Reads a call that has ended, with the whole of its result. */
async function readCall(callId: string, { calls }: Pick<RecordingParts, "calls">): Promise<StoredCall> {
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
async function innerCallsOf(callId: string, parts: Pick<RecordingParts, "calls">): Promise<StoredCall[]> {
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
  const ignore = volatileIn(expect.snapshot ?? expect.contains, call, args, calls);
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
  if (error !== undefined) {
    // The message about an unknown tool counts and names the others, of which a test may have less.
    const isOfRack = error.code === "tool_not_found";
    return {
      status: "error",
      code: error.code,
      ...(!isOfRack && { contains: writer.value(error.message, "expect/contains") }),
    };
  }
  const value = resultValue(result);
  // As a value, JSON in a text is compared member by member.
  const read = typeof value === "string" ? (jsonOf(value) ?? value) : value;
  return { status: "completed", snapshot: writer.value(read, "expect/snapshot") };
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
    const message = writer.value(error.message, `${path}/error`) as string; // A text stays one.
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
  return { ...asked, result: writer.value(kept, `${path}/result`) as InnerCall["result"] }; // The shape stays.
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

/**
 * What will differ from run to run: times about that of the call, and ids that nobody gave it. In the result, and in what
 * inner calls were asked.
 */
function volatileIn(
  expected: unknown,
  { timestamp }: EndedCall,
  given: unknown,
  calls: readonly InnerCall[],
): string[] {
  const answers = calls.map(({ arguments: _, ...answer }) => answer);
  const made = [
    ...calls.map((call, index) => ({ value: call.arguments, known: [given, answers.slice(0, index)] })),
    { value: expected, known: [given, answers] },
  ];
  const found = new Set<string>();
  for (const { value, known } of made) {
    const [text, before] = [JSON.stringify(value) ?? "", JSON.stringify(known)];
    const isNear = (time: string | number) => Math.abs(new Date(time).getTime() - timestamp) < NEAR;
    const times = [...timesIn(text), ...(text.match(/\b1\d{12}\b/g) ?? []).map(Number)];
    if (times.some((time) => isNear(time) && !before.includes(String(time)))) found.add("times");
    if (idsIn(text).some((id) => !before.includes(id))) found.add("ids");
  }
  return [...found].sort();
}

import type { JsonSchemaObject, ToolInfo, ToolRegistry } from "@toolrack/core";
import { isMetaTool, SCHEDULE_TOOL } from "../calls/index.ts";
import { originOf } from "../config/index.ts";
import { isRecord } from "../helpers/index.ts";
import { normalised, type Problem } from "./expectation.ts";
import { reachesOut } from "./mock.ts";
import type { RecordedTest } from "./recording.ts";
import type { TestRunner } from "./runner.ts";
import { pointerStep, referencesIn, type SavedCall } from "./saved-call.ts";
import { UnwritableCall } from "./writer.ts";

/** A test that is ready to be saved. */
export interface SettledTest extends RecordedTest {
  /** Whether it was run, and passed. One whose tool may change something is not run. */
  readonly tried: boolean;
}

/** Results that are random in several places show all of them only after some runs. */
const MOST_TRIALS = 4;
/** When more members than these come out otherwise, only the form of the result is expected. */
const MOST_IGNORED = 10;

/**
 * Tries a test that is about to be saved, where that can do no harm, and takes out of its expectation what comes out
 * otherwise. Throws `UnwritableCall` for a test that would fail all the same.
 */
export async function settleTest(
  { test, tools }: RecordedTest,
  runner: TestRunner,
  registry: Pick<ToolRegistry, "get">,
): Promise<SettledTest> {
  if (isServersOwn(test.tool))
    throw new UnwritableCall(
      `${test.tool} is a tool of the server itself, and tests run without one. Save the calls that it made.`,
      "tool",
    );
  const tool = registry.get(test.tool);
  if (tool !== undefined && !isHarmless(tool, test))
    return { test: withoutTraces(test), tools, tried: false };
  // The rack of `toolrack test` has no more tools than these, and a tool may look at its rack.
  const allow = (one: ToolInfo) =>
    !isServersOwn(one.name) && (originOf(one) === undefined || Object.hasOwn(tools, one.name));
  let settled = test;
  for (let trial = 1; ; trial++) {
    const { problems } = await runner.try(settled, tools, { mode: "recorded", allow });
    if (problems.length === 0) return { test: settled, tools, tried: true };
    settled = loosened(settled, problems, trial < MOST_TRIALS);
  }
}

function isServersOwn(name: string): boolean {
  return isMetaTool(name) || name === SCHEDULE_TOOL;
}

/** Whether running the test does nothing but read. */
function isHarmless(tool: ToolInfo, { expect }: SavedCall): boolean {
  const { readOnly, dangerous } = tool.metadata;
  if (expect?.code === "timed_out") return false; // Nobody wants to wait for it again.
  return reachesOut(tool) || (readOnly === true && dangerous !== true);
}

/** The test without what a trial found to be otherwise. Throws when that is more than its expectation. */
function loosened(test: SavedCall, problems: readonly Problem[], mayIgnore: boolean): SavedCall {
  const other = problems.find(({ kind }) => kind !== "snapshot" && kind !== "contains");
  const { matches, contains: _, ...expect } = test.expect ?? {};
  if (other !== undefined || matches !== undefined)
    throw new UnwritableCall(
      `Write the test by hand: as it was recorded, it would fail. ${(other ?? problems[0])?.message}`,
      other?.kind === "calls" ? "calls" : "expect",
    );
  const [{ differences = [] } = {}] = problems.filter(({ kind }) => kind === "snapshot");
  if (differences.length === 0) return { ...test, expect };
  const paths = differences.map(({ path }) => path.replace(/ ?line \d+$/, ""));
  return mayIgnore ? withIgnored(test, paths) : withForm(test);
}

/**
 * A value of which only a reference is in the file may show in the result in any form: as a digest, or as its length. So
 * numbers and texts that come from nowhere else are not expected.
 */
function withoutTraces(test: SavedCall): SavedCall {
  const { arguments: given, calls = [], expect = {}, ignore = [] } = test;
  if (referencesIn(given).size === 0) return test;
  const known = JSON.stringify([given, calls]);
  const numbers = new Set<string>(known.match(/[-+.\w]+/g));
  const isKnown = (value: unknown) => {
    if (typeof value === "number") return numbers.has(String(value));
    return known.includes(JSON.stringify(value).slice(1, -1)) || referencesIn(value).size > 0;
  };
  const { contains, ...rest } = expect;
  if (contains !== undefined) return isKnown(contains) ? test : { ...test, expect: rest };
  const unknown: string[] = [];
  const visit = (value: unknown, path: string) => {
    if (/^(?:number|string)$/.test(typeof value) && !isKnown(value)) unknown.push(path);
    if (typeof value !== "object" || value === null) return;
    for (const [key, item] of Object.entries(value)) visit(item, `${path}/${pointerStep(key)}`);
  };
  visit(withoutWords(normalised(expect.snapshot, ignore)), "");
  return unknown.length === 0 ? test : withIgnored(test, unknown);
}

/** Without the texts that are ignored already. */
function withoutWords(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value ?? null), (_, one) =>
    typeof one === "string" && /^<(?:id|time|ignored)>$/.test(one) ? null : one,
  );
}

function withIgnored(test: SavedCall, paths: readonly string[]): SavedCall {
  const ignore = [...new Set([...(test.ignore ?? []), ...paths])];
  if (paths.includes("") || ignore.length > MOST_IGNORED) return withForm(test);
  if (referencesIn(test.arguments).size === 0) return { ...test, ignore };
  // They may be made of a secret, so they are not written down.
  return { ...test, ignore, expect: { ...test.expect, snapshot: normalised(test.expect?.snapshot, paths) } };
}

/** The test with the form of the result in place of the result. */
function withForm(test: SavedCall): SavedCall {
  const { snapshot, ...expect } = test.expect ?? {};
  const { ignore: _, ...rest } = test;
  return { ...rest, expect: { ...expect, matches: formOf(snapshot) } };
}

function formOf(value: unknown): JsonSchemaObject {
  if (!isRecord(value)) return typeOf(value);
  const properties = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, typeOf(item)]));
  return { type: "object", required: Object.keys(value), properties };
}

function typeOf(value: unknown): JsonSchemaObject {
  return { type: Array.isArray(value) ? "array" : value === null ? "null" : typeof value };
}

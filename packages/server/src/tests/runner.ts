import { join } from "node:path";
import type { CallMock, CallOptions, RackEvent, ToolInfo, ToolRegistry, ToolResult } from "@toolrack/core";
import { newCallId } from "../calls/index.ts";
import { matchesPattern, toolMatcher } from "../config/index.ts";
import { type LoadFailure, reasonOf } from "../helpers/index.ts";
import { type CallOutcome, type Problem, problemsOf } from "./expectation.ts";
import { type MockMode, RecordedAnswers, schemaChanges, standInFor } from "./mock.ts";
import { resultValue, standInValue, toTest, wholeResult } from "./recording.ts";
import { fillReferences, type RecordedTool, referencesIn, type SavedCall } from "./saved-call.ts";
import { changeTestFile, type EditedFile, type FoundTest, type TestFile } from "./test-file.ts";
import type { EndedCall } from "./writer.ts";

/** The rack on which tests run. */
export interface TestRack {
  readonly registry: ToolRegistry;
  /** The workspace's folder. */
  readonly directory: string;
  /** Which tools an expert has; undefined for an unknown expert. */
  readonly expertAllows: (name: string) => ((tool: ToolInfo) => boolean) | undefined;
  /** The value of a secret or a variable that a test refers to. */
  readonly secretOf: (name: string) => Promise<string | undefined>;
  /** Makes the rack have the tools of other servers. Called at most once, and only when one of them must really run. */
  readonly startServers?: () => Promise<void>;
  /** Whether others use the rack meanwhile: then no recorded tool stands in for one that it does not have. */
  readonly isServed?: boolean;
  /** Makes the calls. Default: by the registry alone, so that no record is kept. */
  readonly call?: (name: string, input: unknown, options: TestCallOptions) => Promise<ToolResult>;
}

/** What a test says about its call. */
export interface TestCallOptions extends Pick<CallOptions, "permissions" | "allow" | "sessionID" | "signal"> {
  readonly callId: string;
  readonly mock: CallMock;
}

export interface RunOptions {
  readonly mode: MockMode;
  /** Rewrites snapshots that differ. With the mode `off`, what inner calls answered as well. */
  readonly update?: boolean;
  readonly signal?: AbortSignal;
  /** Called with the tests that have ended, in the order of the files. */
  readonly onResult?: (result: TestResult) => void;
}

interface TryOptions extends Pick<RunOptions, "mode" | "update" | "signal"> {
  /** Which tools the rack shows to the call, beside what the test itself says about its reach. */
  readonly allow?: (tool: ToolInfo) => boolean;
}

/** How a test ended. */
export interface TestResult {
  readonly file: string;
  readonly line: number;
  readonly name: string;
  readonly tool: string;
  readonly status: "passed" | "failed";
  readonly problems: readonly Problem[];
  /** What a reader may want to know although the test passed. */
  readonly notes: readonly string[];
  /** Whether the test was rewritten. */
  readonly updated?: boolean;
  /** Milliseconds. */
  readonly duration: number;
}

/** How all tests of a run ended. */
export interface TestReport {
  readonly mode: MockMode;
  readonly results: readonly TestResult[];
  /** Files that cannot be read. Each counts as a failed test. */
  readonly failures: readonly LoadFailure[];
  readonly passed: number;
  readonly failed: number;
  /** Milliseconds. */
  readonly duration: number;
}

/** How many tests run at the same time. Most of them wait for a tool, or for nothing. */
const AT_ONCE = 16;

/** Runs tests on a rack, several at the same time. */
export class TestRunner {
  readonly #rack: TestRack;
  #sessions = 0;
  #bringing: Promise<void> | undefined;
  readonly #standIns: string[] = [];

  constructor(rack: TestRack) {
    this.#rack = rack;
  }

  async run(files: readonly TestFile[], options: RunOptions): Promise<TestReport> {
    const startedAt = performance.now();
    const tests = files.flatMap(({ tests, tools }) => tests.map((test) => ({ test, tools })));
    const results = new Array<TestResult | undefined>(tests.length);
    const edits: Edit[] = [];
    let next = 0;
    let told = 0;
    const work = async () => {
      for (let at = next++; at < tests.length && options.signal?.aborted !== true; at = next++) {
        const { test, tools } = tests[at]!; // Below the length.
        results[at] = await this.#runOne(test, tools, options, edits);
        for (let result = results[told]; result !== undefined; result = results[++told])
          options.onResult?.(result);
      }
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, tests.length) }, work));
    const ended = results.filter((result) => result !== undefined);
    const failures = [...files.flatMap((file) => file.failures), ...(await this.#write(edits))];
    const passed = ended.filter(({ status }) => status === "passed").length;
    return {
      mode: options.mode,
      results: ended,
      failures,
      passed,
      failed: ended.length - passed + failures.length,
      duration: performance.now() - startedAt,
    };
  }

  /** Runs one test. Never rejects. What it changes in its file is added to `edits`. */
  async #runOne(
    test: FoundTest,
    tools: Readonly<Record<string, RecordedTool>>,
    options: RunOptions,
    edits: Edit[],
  ): Promise<TestResult> {
    const { file, line, name, tool } = test;
    const startedAt = performance.now();
    const { problems, notes, edit } = await this.#problemsOf(test, tools, options).catch(
      (thrown): RanTest => ({ problems: [{ kind: "test", message: reasonOf(thrown) }], notes: [] }),
    );
    if (edit !== undefined) edits.push({ file, edit });
    return {
      ...{ file, line, name, tool, problems, notes },
      status: problems.length === 0 ? "passed" : "failed",
      ...(edit && { updated: true }),
      duration: performance.now() - startedAt,
    };
  }

  /** Makes the call of a test and returns its result, with all that does not hold. Rejects when it cannot be made. */
  async try(
    test: SavedCall,
    tools: Readonly<Record<string, RecordedTool>>,
    { mode, update, signal, allow: isHere }: TryOptions,
  ): Promise<TriedTest> {
    const { registry } = this.#rack;
    if (mode === "off") await this.#bring();
    else this.#standIn(test, tools);
    const secrets = await this.#secretsFor(test, mode);
    const secretOf = (name: string) => secrets.get(name) ?? standInValue(name);
    const nameOf = (name: string) => registry.get(name)?.name ?? name;
    const mock = new RecordedAnswers(test, { mode, secretOf, nameOf });
    const callId = newCallId();
    const { permissions } = test.as ?? {};
    const reach = this.#reachOf(test);
    const allow = isHere && reach ? (tool: ToolInfo) => isHere(tool) && reach(tool) : (isHere ?? reach);
    const recorded: EndedCall[] = [];
    const listen = (event: RackEvent) => {
      if (event.type === "record" && event.record.parentCallId === callId)
        recorded.push({ ...event.record, result: event.result });
    };
    const unsubscribe = update === true && mode === "off" ? registry.subscribe(listen, ["record"]) : () => {};
    try {
      const input = fillReferences(test.arguments ?? {}, secretOf);
      const result = await this.#call(test.tool, input, {
        callId,
        mock,
        sessionID: `test-${++this.#sessions}`,
        ...(permissions && { permissions }),
        ...(allow && { allow }),
        ...(signal && { signal }),
      });
      const whole = this.#whole(callId, result);
      const outcome = { value: resultValue(whole), text: whole.content, error: whole.error };
      const broken = await problemsOf(test.expect ?? {}, outcome, test.ignore ?? []);
      const changed = mode === "strict" ? this.#changedSchemas(test, tools) : [];
      // Told first: it mostly is the reason for all else.
      const problems = [...changed, ...mock.problems, ...broken];
      return { result: whole, outcome, problems, mock, recorded, input, secrets: new Set(secrets.values()) };
    } finally {
      unsubscribe();
    }
  }

  async #problemsOf(test: FoundTest, tools: TestFile["tools"], options: RunOptions): Promise<RanTest> {
    const tried = await this.try(test, tools, options);
    const { problems, mock } = tried;
    const notes =
      options.mode === "strict"
        ? mock.unused.map(({ tool }) => `A recorded call of ${tool} was not asked for.`)
        : [];
    if (options.update !== true) return { problems, notes };
    const isStale = problems.some(({ kind }) => kind === "snapshot");
    const isRecording = options.mode === "off" && tried.outcome.error === undefined;
    // What a tool answers when a call of it failed for want of a recording is nothing to expect.
    const isBroken = mock.problems.length > 0;
    if (isBroken || (!isStale && !isRecording)) return { problems, notes };
    const edit = this.#editFor(test, tried, isRecording);
    return { problems: problems.filter(({ kind }) => kind !== "snapshot"), notes, edit };
  }

  /** Returns a function that writes the snapshot, and with `isRecording` what inner calls answered, as they are now. */
  #editFor(test: FoundTest, tried: TriedTest, isRecording: boolean): Edit["edit"] {
    const { result, recorded, input, secrets } = tried;
    const parameters = typeof input === "string" ? { raw: input } : input;
    const call = { toolName: test.tool, parameters, result, timestamp: Date.now() };
    const { test: now, tools } = toTest(call, recorded, this.#rack.registry, { secrets });
    return ({ content, set }) => {
      const index = content.tests.findIndex(({ name }) => name === test.name);
      if (index === -1) return;
      if (test.expect?.snapshot !== undefined)
        set(["tests", index, "expect", "snapshot"], now.expect?.snapshot);
      if (!isRecording) return;
      if (test.calls !== undefined || now.calls !== undefined) set(["tests", index, "calls"], now.calls);
      if (now.calls === undefined) return;
      for (const [name, tool] of Object.entries(tools)) set(["tools", name], tool);
    };
  }

  /** Writes each file once, however many of its tests changed. Returns which could not be written. */
  async #write(edits: readonly Edit[]): Promise<LoadFailure[]> {
    const failures: LoadFailure[] = [];
    for (const [file, all] of Map.groupBy(edits, (one) => one.file))
      await changeTestFile(join(this.#rack.directory, file), (content) => {
        for (const { edit } of all) edit(content);
      }).catch((thrown) => {
        failures.push({ file, reason: reasonOf(thrown), remedy: "Nothing was written to it." });
      });
    return failures;
  }

  #call(name: string, input: unknown, options: TestCallOptions): Promise<ToolResult> {
    const { call, registry } = this.#rack;
    return call?.(name, input, options) ?? registry.execute(name, input, { caller: "test", ...options });
  }

  /** The result with its whole text; only models get it shortened. */
  #whole(callId: string, result: ToolResult): ToolResult {
    if (result.metadata?.truncated === undefined) return result;
    const page = this.#rack.registry.readResult(callId, { limit: Number.POSITIVE_INFINITY });
    return page === undefined ? result : wholeResult(result, page.text);
  }

  #reachOf({ as = {} }: SavedCall): ((tool: ToolInfo) => boolean) | undefined {
    const { expert, tools } = as;
    const allows = expert === undefined ? undefined : this.#rack.expertAllows(expert);
    if (expert !== undefined && allows === undefined) throw new Error(`There is no expert "${expert}".`);
    const matches = tools && toolMatcher(tools);
    if (allows === undefined || matches === undefined) return allows ?? matches;
    return (tool) => allows(tool) && matches(tool);
  }

  /** Without mocks a secret must be set; with them, a text stands for one that is not. */
  async #secretsFor(test: SavedCall, mode: MockMode): Promise<ReadonlyMap<string, string>> {
    const values = new Map<string, string>();
    for (const name of referencesIn([test.arguments, test.calls])) {
      const value = await this.#rack.secretOf(name);
      if (value === undefined && mode === "off")
        throw new Error(
          `The test refers to \${secret:${name}}, which is not set. Set the variable ${name}, or: toolrack secrets set ${name}`,
        );
      values.set(name, value ?? standInValue(name));
    }
    return values;
  }

  /** How inner tools changed since the test was recorded. */
  #changedSchemas({ calls = [], tool }: SavedCall, tools: TestFile["tools"]): Problem[] {
    const names = new Set(calls.map((call) => call.tool).filter((name) => name !== tool));
    return [...names].flatMap((name) => {
      const info = this.#rack.registry.get(name);
      const recorded = Object.hasOwn(tools, name) ? tools[name] : undefined;
      const differences = recorded && info && schemaChanges(recorded, info);
      if (differences === undefined || differences.length === 0) return [];
      const message = `The schema of ${name} is no longer the recorded one.`;
      return [{ kind: "schema", message, differences }];
    });
  }

  /** Adds tools of other servers that the rack does not have, because the servers were not started. */
  #standIn({ tool, calls = [] }: SavedCall, tools: TestFile["tools"]): void {
    const { registry } = this.#rack;
    if (this.#bringing !== undefined || this.#rack.isServed === true) return;
    // A test that a person wrote may have no definitions.
    const named = [tool, ...calls.map((call) => call.tool)].filter((name) => /^(?:mcp|api)_/.test(name));
    const undefinedTools = named.map((name) => [name, { origin: "mcp server ", inputSchema: {} }] as const);
    for (const [name, recorded] of [...Object.entries(tools), ...undefinedTools]) {
      // A tool of the workspace that is gone must be missed.
      if (registry.get(name) !== undefined || !/^(?:mcp server|api) /.test(recorded.origin ?? "")) continue;
      registry.register(standInFor(name, recorded, () => this.#bring()));
      this.#standIns.push(name);
    }
  }

  /** Makes the rack have the real tools of other servers. */
  #bring(): Promise<void> {
    const { registry, startServers } = this.#rack;
    this.#bringing ??= (async () => {
      if (startServers === undefined) return;
      for (const name of this.#standIns) registry.unregister(name);
      await startServers();
    })();
    return this.#bringing;
  }
}

export interface TriedTest {
  /** With its whole text. */
  readonly result: ToolResult;
  readonly outcome: CallOutcome;
  readonly problems: readonly Problem[];
  readonly mock: RecordedAnswers;
  /** The calls that it made, as they ended. Only where they are to be recorded. */
  readonly recorded: readonly EndedCall[];
  /** The arguments as they were sent. */
  readonly input: NonNullable<SavedCall["arguments"]>;
  /** The values that references of the test had. */
  readonly secrets: ReadonlySet<string>;
}

interface RanTest {
  readonly problems: readonly Problem[];
  readonly notes: readonly string[];
  /** Set when the test is to be rewritten. */
  readonly edit?: Edit["edit"];
}

/** A change of a file of tests. */
interface Edit {
  readonly file: string;
  readonly edit: (content: EditedFile) => void;
}

/** The tests whose file, name or tool fits the pattern; `*` stands for anything, and a plain word for a part. */
export function selectTests(
  files: readonly TestFile[],
  pattern: string | undefined,
  isMeant: (test: FoundTest) => boolean = () => true,
): TestFile[] {
  const glob = pattern === undefined || /[*?]/.test(pattern) ? (pattern ?? "*") : `*${pattern}*`;
  const fits = (text: string) => matchesPattern(glob, text);
  return files.flatMap((file) => {
    const tests = file.tests.filter(
      (test) => (fits(test.file) || fits(test.name) || fits(test.tool)) && isMeant(test),
    );
    const failures = fits(file.file) ? file.failures : [];
    return tests.length === 0 && failures.length === 0 ? [] : [{ ...file, tests, failures }];
  });
}

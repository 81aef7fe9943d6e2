import { resolve } from "node:path";
import type { ToolResult } from "@toolrack/core";
import { whereOf } from "./helpers/index.ts";
import { type App, openWorkspace, startMcpServers, testRunnerOf } from "./rack/index.ts";
import {
  type FoundTest,
  flawsOf,
  type MockMode,
  mockModes,
  problemText,
  readTestFiles,
  type SavedCall,
  selectTests,
  type TestFile,
  type TestRunner,
} from "./tests/index.ts";

export type { Expectation, InnerCall, MockMode, SavedCall, SavedCaller } from "./tests/index.ts";

/** What a test says about a call, with the same keys as in `tests/*.calls.yaml`. */
export type ToolTest = Omit<SavedCall, "name" | "tool">;

export interface TestOptions {
  /** The workspace. Default: the working directory. */
  readonly directory?: string;
  /** What answers inner calls. Default `recorded`. */
  readonly mock?: MockMode;
}

/** A test of `tests/*.calls.yaml`, for a test runner. */
export interface SavedToolTest {
  readonly name: string;
  readonly tool: string;
  /** `FILE:LINE` */
  readonly at: string;
  /** Rejects with `ToolTestError` when the test fails. */
  run(): Promise<ToolResult>;
}

/** A call did not give what was expected. The message says what differs, and where. */
export class ToolTestError extends Error {
  override readonly name = "ToolTestError";
}

/**
 * Calls a tool of the workspace and checks what comes of it. Resolves with the result. Rejects with `ToolTestError` when
 * an expectation does not hold.
 *
 * @example
 * await testTool("convert", { arguments: { amount: 10 }, calls: [{ tool: "rate", answer: 1.1 }], expect: { equals: 11 } });
 */
export async function testTool(
  tool: string,
  test: ToolTest = {},
  options: TestOptions = {},
): Promise<ToolResult> {
  const written = { ...test, name: tool, tool };
  const flaws = await flawsOf([written]);
  if (flaws.length > 0) throw new ToolTestError(`The test of ${tool} is wrong: ${flaws.join(" ")}`);
  const { runner } = await opened(options);
  return check(runner, written, {}, options.mock);
}

/** The tests of the workspace's files, each to be run by a test runner. Rejects when a file cannot be read. */
export async function savedTests(pattern?: string, options: TestOptions = {}): Promise<SavedToolTest[]> {
  const { app, runner } = await opened(options);
  const files = selectTests(await readTestFiles(app.workspace.directory), pattern);
  const [failure] = files.flatMap((file) => file.failures);
  if (failure !== undefined)
    throw new ToolTestError(`${whereOf(failure)}: ${failure.reason} ${failure.remedy}`);
  return files.flatMap(({ tests, tools }) =>
    tests.map((test: FoundTest) => ({
      name: test.name,
      tool: test.tool,
      at: `${test.file}:${test.line}`,
      run: () => check(runner, test, tools, options.mock),
    })),
  );
}

/** Closes the workspaces that tests have opened. Call it when all tests have run. */
export async function closeWorkspaces(): Promise<void> {
  const all = [...workspaces.values()];
  workspaces.clear();
  for (const one of all) await (await one).close();
}

async function check(
  runner: TestRunner,
  test: SavedCall,
  tools: TestFile["tools"],
  mode: MockMode = "recorded",
): Promise<ToolResult> {
  const { result, problems } = await runner.try(test, tools, { mode });
  if (problems.length === 0) return result;
  throw new ToolTestError(`${test.tool} did not do what was expected:\n${problemText(problems)}`);
}

interface OpenedWorkspace {
  readonly app: App;
  readonly runner: TestRunner;
  close(): Promise<void>;
}

/** Each workspace is opened once for all tests of a process. */
const workspaces = new Map<string, Promise<OpenedWorkspace>>();

async function opened({ directory = process.cwd(), mock }: TestOptions): Promise<OpenedWorkspace> {
  if (mock !== undefined && !mockModes.includes(mock))
    throw new TypeError(`mock is "${mock}". Give it one of ${mockModes.join(", ")}.`);
  const root = resolve(directory);
  const known = workspaces.get(root) ?? open(root);
  workspaces.set(root, known);
  return known;
}

async function open(root: string): Promise<OpenedWorkspace> {
  const warn = (...said: unknown[]) => console.warn(...said);
  const logger = { debug() {}, info() {}, warn, error: warn };
  const app = await openWorkspace(root, { logger, log: false });
  let servers: Awaited<ReturnType<typeof startMcpServers>>;
  const runner = await testRunnerOf(app, async () => {
    servers = await startMcpServers(app, logger, () => {});
  });
  const close = async () => {
    await servers?.close();
    await app.close();
  };
  return { app, runner, close };
}

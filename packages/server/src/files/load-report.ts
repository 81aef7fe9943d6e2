import { readFile } from "node:fs/promises";
import { relative } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { PromptInfo, ResourceInfo, ToolContext, ToolInfo } from "@toolrack/core";
import { currentCall } from "../helpers/current-call.ts";
import { LoadError, type LoadFailure, reasonOf, type StackMapper } from "../helpers/index.ts";
import { codeFrame } from "./loader/compile.ts";
import type { LoadedModule } from "./loader/module-graph.ts";
import { type ScannedFile, sameContent, signFiles, type UnreadableFile } from "./loader/resolver.ts";

/**
 * What became of one file. `adapted`: loaded, but with warnings. `stale`: its last good version goes on serving
 * because the new one failed. `helper`: holds no tool and is imported by one that does.
 */
export interface FileReport {
  /** Relative to the workspace. */
  readonly file: string;
  readonly status: "loaded" | "adapted" | "stale" | "failed" | "helper";
  readonly contract?: Contract;
  readonly tools: readonly string[];
  readonly warnings: readonly string[];
  readonly failure?: LoadFailure;
}

/** What a load or reload did. */
export interface LoadReport {
  readonly files: readonly FileReport[];
  /** Files that were compiled and evaluated this time. */
  readonly compiled: readonly string[];
  /** Names of tools, before and after. */
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  /** Milliseconds. */
  readonly duration: number;
}

/** What listeners are told of each load. One that `failed` changed nothing. */
export type LoadEvent =
  | { readonly type: "started" }
  | { readonly type: "finished"; readonly report: LoadReport }
  | { readonly type: "failed"; readonly error: unknown };

export type LoadListener = (event: LoadEvent) => void;

export function failures(report: LoadReport): LoadFailure[] {
  return report.files.flatMap(({ failure }) => (failure === undefined ? [] : [failure]));
}

/** `tools/a.ts:12` */
export function whereOf({ file, line }: Pick<LoadFailure, "file" | "line">): string {
  return line === undefined ? file : `${file}:${line}`;
}

/** What a load found, loaded and refused, line by line, for the log. */
export function describeLoad(report: LoadReport): { readonly info: string[]; readonly warn: string[] } {
  const { files, added, changed, removed, duration } = report;
  const refused = failures(report);
  const tools = files.flatMap((file) => file.tools);
  return {
    info: [
      `[loader] found ${files.length} tool files`,
      ...added.map((name) => `[loader] loaded tool: ${name}`),
      ...changed.map((name) => `[loader] loaded again: ${name}`),
      ...removed.map((name) => `[loader] removed tool: ${name}`),
      `[loader] ${tools.length} tools of ${files.length - refused.length} files serve, ${refused.length} files refused (${Math.round(duration)} ms)`,
    ],
    warn: [
      ...files.flatMap(({ file, warnings }) => warnings.map((warning) => `[loader] ${file}: ${warning}`)),
      ...refused.map(
        (failure) => `[loader] refused ${whereOf(failure)}: ${failure.reason} ${failure.remedy}`,
      ),
    ],
  };
}

interface FailedFile {
  readonly failure: LoadFailure;
  /** What loading it looked at, as it was then. */
  readonly inputs: ReadonlyMap<string, ScannedFile>;
  readonly retry: Retry;
}

/**
 * When to try again: as soon as something that was looked at has changed, always (what is missing lies elsewhere),
 * or always but without evaluating it anew (only its name was taken).
 */
type Retry = "changed" | "always" | "name";

/** The files that could not be loaded, and what would have to change before trying again makes sense. */
export class FailedFiles {
  #files = new Map<string, FailedFile>();

  get(path: string): LoadFailure | undefined {
    return this.#files.get(path)?.failure;
  }

  has(path: string): boolean {
    return this.#files.has(path);
  }

  paths(): string[] {
    return [...this.#files.keys()];
  }

  /** What loading them looked at, also what is missing. */
  inputs(): string[] {
    return [...this.#files.values()].flatMap(({ inputs }) => [...inputs.keys()]);
  }

  async add(path: string, failure: LoadFailure, inputs: Iterable<string>, retry: Retry): Promise<void> {
    this.#files.set(path, { failure, inputs: await signFiles([...inputs]), retry });
  }

  delete(path: string): void {
    this.#files.delete(path);
  }

  /** The files to try again, and what must be evaluated anew for it. */
  async worthTrying(): Promise<{ readonly files: Set<string>; readonly changed: Set<string> }> {
    const files = new Set<string>();
    const changed = new Set<string>();
    for (const [path, { inputs, retry }] of this.#files) {
      const now = await signFiles([...inputs.keys()], inputs);
      const different = [...now.values()].filter((file) => !sameContent(file, inputs.get(file.path)!));
      for (const file of different) changed.add(file.path);
      if (retry === "changed" && different.length === 0) continue;
      files.add(path);
      if (retry !== "name") changed.add(path);
    }
    return { files, changed };
  }
}

/** Why a file could not be loaded, by what was thrown while it was. */
export async function failureOf(
  path: string,
  thrown: unknown,
  workspace: string,
  stacks: StackMapper,
): Promise<LoadFailure> {
  const file = relative(workspace, path);
  if (!(thrown instanceof LoadError)) {
    const line = stacks.lineOf(thrown, path);
    const reason = reasonOf(thrown);
    const remedy = "Correct the definition of the tool.";
    return { file, ...(line === undefined ? {} : { line }), reason, remedy, ...(await frameOf(path, line)) };
  }
  const { line, column, remedy } = thrown;
  const culprit = thrown.path !== undefined && thrown.path !== path ? thrown.path : undefined;
  const place = line === undefined ? "" : `:${line}`;
  const reason =
    culprit === undefined ? thrown.message : `${thrown.message} (in ${relative(workspace, culprit)}${place})`;
  return {
    file,
    ...(line === undefined || culprit !== undefined ? {} : { line }),
    reason,
    remedy,
    ...(await frameOf(culprit ?? path, line, column)),
  };
}

async function frameOf(path: string, line?: number, column?: number): Promise<{ frame?: string }> {
  if (line === undefined) return {};
  // The file may be gone by now; that it could not be loaded is said without it.
  const source = await readFile(path, "utf8").catch(() => "");
  const frame = codeFrame(source, line, column);
  return frame === undefined ? {} : { frame };
}

/** What became of one file. */
export function reportOf(
  file: string,
  serving: ServingFile | undefined,
  failure: LoadFailure | undefined,
  isHelper: boolean,
): FileReport {
  if (serving !== undefined) {
    const { contract, warnings } = serving.recognised;
    const status = failure !== undefined ? "stale" : warnings.length > 0 ? "adapted" : "loaded";
    const found = { file, status, contract, tools: namesOf(serving), warnings } as const;
    return failure === undefined ? found : { ...found, failure };
  }
  if (isHelper && failure === undefined) return { file, status: "helper", tools: [], warnings: [] };
  return { file, status: "failed", tools: [], warnings: [], failure: failure ?? { file, ...noTool } };
}

export function unreadableReport({ path, reason }: UnreadableFile, workspace: string): FileReport {
  const file = relative(workspace, path);
  const remedy = "Let the user that Toolrack runs as read it.";
  return { file, status: "failed", tools: [], warnings: [], failure: { file, reason, remedy } };
}

const noTool = {
  reason: "It exports no tool, and no tool imports it.",
  remedy:
    "Export an object with a handler, a schema with a default function, or a value made by Tool.define.",
};

const DESTROY_LIMIT = 5_000;
const GRACE = 1_000;

/**
 * One version of one tool file. It knows its calls under way, so that it is destroyed only when the last of them
 * has ended, and never in the middle of one.
 */
export class FileVersion {
  readonly path: string;
  readonly #stacks: StackMapper;
  readonly #underWay = new Set<ToolContext<unknown>>();
  #onChange: (() => void) | undefined;

  constructor(path: string, stacks: StackMapper) {
    this.path = path;
    this.#stacks = stacks;
  }

  /** The author's function, as calls of this version run it, with stack traces that point at the source. */
  watch<Input, Result>(call: (context: ToolContext<Input>) => Result | Promise<Result>) {
    return async (context: ToolContext<Input>): Promise<Result> => {
      this.#underWay.add(context);
      try {
        // Functions that look it up take what they need of it; none reads the input, whose type differs.
        return await currentCall.run(context as ToolContext, call, context);
      } catch (thrown) {
        throw this.#stacks.apply(thrown);
      } finally {
        this.#underWay.delete(context);
        this.#onChange?.();
      }
    };
  }

  /** Waits for the calls under way, then lets the file clean up. Answers what went wrong, and never rejects. */
  async retire(destroy: unknown): Promise<string | undefined> {
    // A call that was ended from outside, but whose function goes on regardless, is given a little time.
    for (const context of this.#underWay) {
      const giveUp = () => setTimeout(() => this.#leave(context), GRACE).unref();
      if (context.signal.aborted) giveUp();
      else context.signal.addEventListener("abort", giveUp, { once: true });
    }
    while (this.#underWay.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
    }
    return typeof destroy === "function" ? runDestroy(async () => destroy()) : undefined;
  }

  #leave(context: ToolContext<unknown>): void {
    this.#underWay.delete(context);
    this.#onChange?.();
  }
}

function runDestroy(destroy: () => Promise<unknown>): Promise<string | undefined> {
  const late = `destroy() did not end within ${DESTROY_LIMIT / 1000} s`;
  const ended = destroy().then(
    () => undefined,
    (thrown) => `destroy() failed: ${reasonOf(thrown)}`,
  );
  return Promise.race([ended, wait(DESTROY_LIMIT, late, { ref: false })]);
}

type Contract = "internal" | "toolbox" | "define" | "plugin" | "single-file";

/** What a file turned out to be. */
export interface RecognisedFile {
  readonly contract: Contract;
  readonly tools: readonly ToolInfo[];
  /** What it offers beside tools. */
  readonly prompts?: readonly PromptInfo[];
  readonly resources?: readonly ResourceInfo[];
  /** What had to be understood differently from how it is written, each with what to write instead. */
  readonly warnings: readonly string[];
}

/** A file that serves tools, and the version of it that does. */
export interface ServingFile {
  readonly version: FileVersion;
  readonly module: LoadedModule;
  readonly recognised: RecognisedFile;
}

export function namesOf({ recognised }: ServingFile): string[] {
  return recognised.tools.map((info) => info.name);
}

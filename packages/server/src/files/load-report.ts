import { readFile } from "node:fs/promises";
import { relative } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { PromptInfo, ResourceInfo, ToolContext, ToolInfo } from "@toolrack/core";
import { returnedError } from "@toolrack/core/internal";
import { currentCall, quotedError } from "../helpers/current-call.ts";
import {
  amount,
  isRecord,
  LoadError,
  type LoadFailure,
  PassingMap,
  reasonOf,
  type StackMapper,
  whereOf,
} from "../helpers/index.ts";
import { missingPart } from "./contract-checks.ts";
import { codeFrame } from "./loader/compile.ts";
import type { LoadedModule } from "./loader/module-graph.ts";

/**
 * The outcome of one file. `adapted`: loaded, but with warnings. `stale`: the new version failed, so the last good one
 * still serves. `helper`: holds no tool, but a tool file imports it.
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

export interface LoadOptions {
  /** Also loads the files anew that have not changed. */
  readonly force?: boolean;
}

export interface LoadReport {
  readonly files: readonly FileReport[];
  /** Files that this load compiled and evaluated. */
  readonly compiled: readonly string[];
  /** Names of the tools that this load has added, like `changed` and `removed`. */
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  /** Milliseconds. */
  readonly duration: number;
}

/** The events of each load. A load that `failed` changed nothing. */
export type LoadEvent =
  | { readonly type: "started" }
  | { readonly type: "finished"; readonly report: LoadReport }
  | { readonly type: "failed"; readonly error: unknown };

export type LoadListener = (event: LoadEvent) => void;

export function failures(report: LoadReport): LoadFailure[] {
  return report.files.flatMap(({ failure }) => (failure === undefined ? [] : [failure]));
}

export function describeLoad(report: LoadReport): { readonly info: string[]; readonly warn: string[] } {
  const { files, compiled, added, changed, removed, duration } = report;
  const refused = failures(report);
  const tools = files.flatMap((file) => file.tools);
  return {
    info: [
      `[loader] found ${amount(files.length, "tool file")}`,
      ...linesOf("loaded tool", added),
      ...linesOf("loaded again", changed),
      ...linesOf("removed tool", removed),
      `[loader] ${amount(tools.length, "tool")} of ${amount(files.length - refused.length, "file")}, ${refused.length} refused (${Math.round(duration)} ms)`,
    ],
    warn: [
      ...files
        .filter(({ file, warnings }) => warnings.length > 0 && compiled.includes(file))
        .flatMap(({ file, warnings }) => warnings.map((warning) => `[loader] ${file}: ${warning}`)),
      ...refused.map(
        (failure) => `[loader] refused ${whereOf(failure)}: ${failure.reason} ${failure.remedy}`,
      ),
    ],
  };
}

const MOST_LINES = 100;

/** A line for each name, up to a number that people still read. */
function linesOf(what: string, names: readonly string[]): string[] {
  const lines = names.slice(0, MOST_LINES).map((name) => `[loader] ${what}: ${name}`);
  return names.length > MOST_LINES
    ? [...lines, `[loader] ${what}: ${names.length - MOST_LINES} more`]
    : lines;
}

/** A file that could not be loaded. */
export interface FailedFile {
  readonly failure: LoadFailure;
  /** The files that the load looked at, missing ones included. */
  readonly inputs: readonly string[];
  /**
   * When to load the file again. `changed`: when a file that the load looked at has changed. `always`: at
   * every load, because the missing part is outside the workspace's files. `name`: at every load, but without
   * evaluating the file anew, because only its name was taken.
   */
  readonly retry: "changed" | "always" | "name";
}

/** Describes why a file could not be loaded, from the error that was thrown. */
export async function failureOf(
  path: string,
  thrown: unknown,
  workspace: string,
  stacks: StackMapper,
): Promise<LoadFailure> {
  const isLoadError = thrown instanceof LoadError;
  const line = isLoadError ? thrown.line : stacks.lineOf(thrown, path);
  const remedy = isLoadError ? thrown.remedy : "Correct the definition of the tool.";
  const at = (isLoadError ? thrown.path : undefined) ?? path;
  const isElsewhere = at !== path;
  const place = `${relative(workspace, at)}${line === undefined ? "" : `:${line}`}`;
  const frame = line && (await frameOf(at, line, isLoadError ? thrown.column : undefined));
  return {
    file: relative(workspace, path),
    ...(line === undefined || isElsewhere ? {} : { line }),
    reason: isElsewhere ? `${reasonOf(thrown)} (in ${place})` : reasonOf(thrown),
    remedy,
    ...(isLoadError && thrown.code !== undefined ? { code: thrown.code } : {}),
    ...(frame ? { frame } : {}),
  };
}

/** Undefined when the file is gone by now. */
async function frameOf(path: string, line: number, column?: number): Promise<string | undefined> {
  return codeFrame(await readFile(path, "utf8").catch(() => ""), line, column);
}

export function reportOf(
  file: string,
  serving: ServingFile | undefined,
  failure: LoadFailure | undefined,
  isHelper: boolean,
  exports: unknown,
): FileReport {
  if (serving !== undefined) {
    const { contract, warnings } = serving.recognised;
    const status = failure !== undefined ? "stale" : warnings.length > 0 ? "adapted" : "loaded";
    const found = { file, status, contract, tools: namesOf(serving), warnings } as const;
    return failure === undefined ? found : { ...found, failure };
  }
  if (isHelper && failure === undefined) return { file, status: "helper", tools: [], warnings: [] };
  return failedReport(failure ?? { file, ...missingPart(exports) });
}

export function failedReport(failure: LoadFailure): FileReport {
  return { file: failure.file, status: "failed", tools: [], warnings: [], failure };
}

const DESTROY_LIMIT_MS = 5_000;
const GRACE_MS = 1_000;

/** One version of one tool file. It is destroyed only when the last of its calls has ended. */
export class FileVersion {
  readonly path: string;
  readonly #stacks: StackMapper;
  readonly #underWay = new PassingMap<ToolContext<unknown>, ToolContext<unknown>>();
  #onChange: (() => void) | undefined;

  constructor(path: string, stacks: StackMapper) {
    this.path = path;
    this.#stacks = stacks;
  }

  /**
   * Wraps the author's function: counts its calls as calls of this version, and makes stack traces point at
   * the source.
   */
  watch<Input, Result>(call: (context: ToolContext<Input>) => Result | Promise<Result>) {
    return async (context: ToolContext<Input>): Promise<Result> => {
      this.#underWay.set(context, context);
      try {
        // The type of the input differs, but no function that looks up the current call reads its input.
        const result = await currentCall.run(context as ToolContext, call, context);
        if (typeof result !== "object" || result === null) return result;
        const mayBeError = result instanceof Error || "isError" in result || "success" in result;
        return mayBeError ? this.#withError(result, context) : result;
      } catch (thrown) {
        // Authors also reject with the result that they would have returned: `{ content, isError: true }`.
        if (isErrorResult<Result>(thrown)) return this.#withError(thrown, context);
        throw this.#stacks.apply(thrown);
      } finally {
        this.#underWay.entries.delete(context);
        this.#onChange?.();
      }
    };
  }

  /**
   * Gives an error that the tool returned the stack of its `Error`: the one in the result, or else one that the file
   * caught and whose message the result quotes.
   */
  #withError<Result>(result: Result, context: ToolContext<unknown>): Result {
    const returned = returnedError(result);
    if (returned !== undefined) this.#stacks.apply(returned);
    if (returned !== undefined || !isRecord(result) || result.isError !== true) return result;
    const blocks: unknown[] = Array.isArray(result.content) ? result.content : [];
    const texts = blocks.flatMap((block) =>
      isRecord(block) && typeof block.text === "string" ? [block.text] : [],
    );
    const cause = this.#stacks.apply(quotedError(context, texts));
    return cause === undefined ? result : { ...result, cause };
  }

  /** Waits for the calls under way, then runs the file's `destroy`. Returns the problem, if any; never rejects. */
  async retire(destroy: unknown): Promise<string | undefined> {
    // For a cancelled call whose function goes on, waits only a little longer.
    for (const context of this.#underWay.entries.values()) {
      const giveUp = () => setTimeout(() => this.#leave(context), GRACE_MS).unref();
      if (context.signal.aborted) giveUp();
      else context.signal.addEventListener("abort", giveUp, { once: true });
    }
    while (this.#underWay.entries.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
    }
    return typeof destroy === "function" ? runDestroy(async () => destroy()) : undefined;
  }

  #leave(context: ToolContext<unknown>): void {
    this.#underWay.entries.delete(context);
    this.#onChange?.();
  }
}

function isErrorResult<Result>(thrown: unknown): thrown is Result {
  return isRecord(thrown) && thrown.isError === true && Array.isArray(thrown.content);
}

function runDestroy(destroy: () => Promise<unknown>): Promise<string | undefined> {
  const late = `destroy() did not end within ${DESTROY_LIMIT_MS / 1000} s`;
  const ended = destroy().then(
    () => undefined,
    (thrown) => `destroy() failed: ${reasonOf(thrown)}`,
  );
  return Promise.race([ended, wait(DESTROY_LIMIT_MS, late, { ref: false })]);
}

type Contract = "internal" | "toolbox" | "define" | "plugin" | "single-file";

export interface RecognisedFile {
  readonly contract: Contract;
  readonly tools: readonly ToolInfo[];
  readonly prompts?: readonly PromptInfo[];
  readonly resources?: readonly ResourceInfo[];
  /**
   * Where the file is not written as the contract says, what Toolrack did about it and what to write instead.
   */
  readonly warnings: readonly string[];
}

export interface ServingFile {
  readonly version: FileVersion;
  /** Undefined for a file that is evaluated in the sandbox. */
  readonly module?: LoadedModule;
  /** The file's own `destroy`; for a file in the sandbox, the function that ends its workers. */
  readonly destroy: unknown;
  readonly recognised: RecognisedFile;
}

export function namesOf({ recognised }: ServingFile): string[] {
  return recognised.tools.map((info) => info.name);
}

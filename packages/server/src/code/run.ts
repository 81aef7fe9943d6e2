import { createHash } from "node:crypto";
import {
  type FilePart,
  isToolError,
  type ToolContext,
  ToolExecutionError,
  type ToolInfo,
  type ToolResult,
} from "@toolrack/core";
import { hashValue } from "@toolrack/core/internal";
import { describeToolName, RESUMED, searchToolName } from "../calls/index.ts";
import { asRecord } from "../helpers/index.ts";
import type { Sandbox, WorkerSpec } from "../sandbox/index.ts";
import { isForCode } from "./catalogue.ts";
import { lookUp } from "./look-up.ts";
import { type PastCall, Replay, type RunRecords } from "./replay.ts";
import { notForCode, ofCode, ofResponse, outcomeUnknown, toThrown, unknownPath } from "./run-errors.ts";
import { RunFiles } from "./run-files.ts";
import type { PreparedCode } from "./source.ts";
import type { ToolPaths } from "./tool-paths.ts";
import { workerModule } from "./worker-program.ts";

/** How many calls one run may make. */
const MOST_CALLS = 1_000;
/** How many bytes of JSON the tools may give one run. */
const MOST_BYTES = 64 * 1024 * 1024;
/** How many characters of `console` the result has. The record of the call has more. */
const MOST_CONSOLE = 4_000;
/** Milliseconds after which the worker of a run that waits for people is ended. The code is run again when one answers. */
const SUSPEND_AFTER = 30_000;

/** The file name of the code in stack traces. */
const FILE = "/code/run.js";

export interface RunParts {
  readonly sandbox: Sandbox;
  readonly code: PreparedCode;
  readonly paths: ToolPaths;
  /** When the run began: before now, when another process began it. */
  readonly startedAt: number;
  /** The calls that the run made in another process, by the ids under which the code asks for them. */
  readonly past: ReadonlyMap<string, PastCall>;
  /** Undefined where calls are not stored: then the code cannot be run again. */
  readonly records: RunRecords | undefined;
  readonly suspendAfter?: number | undefined;
}

/** What a run gave: a JSON value, the files that its value names, and what the code printed. */
export interface RunOutcome {
  readonly value: unknown;
  readonly hasValue: boolean;
  readonly files: readonly FilePart[];
  readonly console: string;
  readonly calls: number;
}

/** One run of code, from its first worker to its result. All that the worker says comes from unreviewed code. */
export class CodeRun {
  readonly callId: string;
  readonly #context: ToolContext<unknown>;
  readonly #parts: RunParts;
  readonly #past: Map<string, PastCall>;
  /** The calls under way in this process. */
  readonly #live = new Map<string, Promise<ToolResult>>();
  /** The ids under which the code asks for calls, by the ids of the calls. */
  readonly #wanted = new Map<string, string>();
  /** The calls that wait for a person. */
  readonly #waiting = new Set<string>();
  /** When calls that were made here ended, as their records tell it: code that is run again sees the same times. */
  readonly #endedAt = new Map<string, number>();
  /** The calls that went on here with the question of another process. */
  readonly #continued = new Set<string>();
  readonly #files = new RunFiles();
  #replay: Replay;
  /** How often the code has asked for the same call in this attempt, by tool and arguments. */
  #asked = new Map<string, number>();
  #attempts = 0;
  #bytes = 0;
  #calls = 0;
  /** How many requests of the worker have no answer yet. */
  #open = 0;
  #console = "";
  #worker = new AbortController();
  #suspending: NodeJS.Timeout | undefined;
  #isLeft = false;

  constructor(context: ToolContext<unknown>, parts: RunParts) {
    this.callId = context.callId;
    this.#context = context;
    this.#parts = parts;
    this.#past = new Map(parts.past);
    this.#replay = new Replay(this.#past);
  }

  /** Whether the run waits for people and for nothing else. */
  get isWaiting(): boolean {
    return this.#live.size > 0 && this.#waiting.size === this.#live.size;
  }

  /** Runs the code, again after each suspension, until it has ended. Rejects with a `ToolError` or `SandboxError`. */
  async run(): Promise<RunOutcome> {
    if (this.#past.size > 0) this.#context.logger.info(RUN_AGAIN);
    try {
      return await this.#runToEnd();
    } finally {
      // A call may also end without coming to its question, for example because the run was cancelled.
      const unmade = [...this.#replay.forgotten, ...this.#continued];
      if (!this.#isLeft) await this.#parts.records?.giveUp(unmade);
    }
  }

  async #runToEnd(): Promise<RunOutcome> {
    for (;;) {
      try {
        const answer = await this.#attempt();
        const error = this.#replay.ended();
        if (error !== undefined) throw error;
        return this.#outcome(asRecord(answer));
      } catch (thrown) {
        if (thrown !== SUSPENDED) throw this.#errorOf(thrown);
        await this.#untilAnswered();
      }
    }
  }

  /** To be called when one of the run's calls begins to wait for a person, or waits no more. */
  noteWaiting(callId: string, isWaiting: boolean): void {
    const wanted = this.#wanted.get(callId);
    if (wanted === undefined) return;
    if (isWaiting) this.#waiting.add(wanted);
    else this.#waiting.delete(wanted);
    this.#considerSuspending();
  }

  /** To be called when one of the run's calls has ended, before the code has its answer. */
  noteEnded(callId: string, at: number): void {
    this.#endedAt.set(callId, at);
  }

  /** Ends the worker for good, because another process goes on with the run. Nothing more is done here. */
  leave(): void {
    this.#isLeft = true;
    this.#worker.abort(new Error("the server is stopping"));
  }

  async #attempt(): Promise<unknown> {
    const { sandbox, startedAt, code } = this.#parts;
    this.#worker = new AbortController();
    this.#replay = new Replay(this.#past);
    this.#asked = new Map();
    this.#calls = 0;
    this.#bytes = 0;
    this.#open = 0;
    this.#console = "";
    const seed = createHash("sha256").update(this.callId).digest().readInt32LE();
    const spec: WorkerSpec = {
      key: `code:${this.callId}:${++this.#attempts}`,
      label: "The code",
      code: workerModule({ js: code.js, filename: FILE, startedAt, seed }),
      filename: "/code/worker.js",
      hosts: [],
      settings: null,
      foreign: true,
      // The worker ends with its run, and gets no time for anything after it.
      limits: { concurrency: 1, maxCallsPerWorker: 1, workers: 1, graceMs: 0, cleanupMs: 0 },
    };
    const signal = AbortSignal.any([this.#context.signal, this.#worker.signal]);
    try {
      return await sandbox.invoke(spec, {
        method: "run",
        params: null,
        signal,
        onRequest: (method, params) => this.#request(method, asRecord(params)),
        onNotify: (method, params) => this.#notified(method, asRecord(params)),
      });
    } finally {
      clearTimeout(this.#suspending);
      sandbox.retire([spec.key]);
    }
  }

  async #request(method: string, { parts, args, place }: Record<string, unknown>): Promise<unknown> {
    if (this.#isLeft) throw new Error("The server is stopping.");
    this.#open++;
    clearTimeout(this.#suspending);
    try {
      if (method === "call") return await this.#call(textsOf(parts), args, this.#lineOf(place));
      const given: unknown[] = Array.isArray(args) ? args : [];
      if (method === "search" || method === "describe")
        return await this.#lookUp(method, given, this.#lineOf(place));
      throw new Error(`The host has no "${method}".`);
    } catch (thrown) {
      throw toThrown(thrown);
    } finally {
      this.#open--;
    }
  }

  #notified(method: string, { text, level, name }: Record<string, unknown>): void {
    const { logger, progress } = this.#context;
    if (method === "log") {
      const line = String(text ?? "");
      const known = (["debug", "info", "warn", "error"] as const).find((one) => one === level) ?? "info";
      logger[known](line);
      if (this.#console.length < MOST_CONSOLE) this.#console += `${line}\n`;
    }
    if (method === "step") progress({ progress: this.#calls, message: String(name).slice(0, 200) });
    if (method === "quiet") this.#quiet();
  }

  /** The code does nothing but wait for answers. */
  #quiet(): void {
    const error = this.#replay.stalled();
    if (error !== undefined) this.#worker.abort(error);
    else this.#considerSuspending();
  }

  #considerSuspending(): void {
    clearTimeout(this.#suspending);
    const { records, suspendAfter = SUSPEND_AFTER } = this.#parts;
    if (records === undefined || !this.isWaiting || this.#open !== this.#live.size) return;
    this.#suspending = setTimeout(() => this.#worker.abort(SUSPENDED), suspendAfter);
  }

  async #untilAnswered(): Promise<void> {
    const { signal } = this.#context;
    const aborted = Promise.withResolvers<never>();
    const onAbort = () => aborted.reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      if (signal.aborted) onAbort();
      const settled = [...this.#live.values()].map((call) => call.catch(() => {}));
      await Promise.race([...settled, aborted.promise]);
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /**
   * Answers a call that the code makes: with the answer that it got before an interruption, or else through the pipeline
   * with the permissions of the caller.
   */
  async #call(parts: readonly string[], args: unknown, line: number): Promise<unknown> {
    const info = this.#toolAt(parts);
    const callId = this.#nextId(info.name, args);
    this.#context.progress({ progress: this.#calls, message: `line ${line}: ${parts.join(".")}` });
    const past = this.#replay.ask(callId);
    if (past === undefined && !this.#live.has(callId))
      await this.#replay.newCall(`tools.${parts.join(".")}`, line);
    if (past?.kind === "finished") return this.#again(callId, past);
    const making =
      this.#live.get(callId) ?? this.#make(past, callId, info, this.#files.inArguments(args), line);
    const result = await making;
    return this.#given(result, this.#past.get(callId)!);
  }

  /** The recorded answer of a call that the code made before it was interrupted. */
  async #again(callId: string, past: PastCall): Promise<unknown> {
    // Without records the code is not run again.
    const result = await this.#replay.answer(callId, () => this.#parts.records!.read(past.callId));
    return this.#given(result, past);
  }

  /** Answers `search` or `describe`; after an interruption as before it, though the rack may have changed since. */
  async #lookUp(method: "search" | "describe", args: readonly unknown[], line: number): Promise<unknown> {
    const toolName = method === "search" ? searchToolName : describeToolName;
    const callId = this.#nextId(toolName, args);
    const past = this.#replay.ask(callId);
    if (past !== undefined) return this.#again(callId, past);
    await this.#replay.newCall(method, line);
    const { paths, records } = this.#parts;
    const startedAt = Date.now();
    const result = await lookUp(method, this.#context, paths, args);
    const endedAt = Date.now();
    await records?.keep({ callId, toolName, args, line, startedAt, endedAt, result });
    const made: PastCall = { kind: "finished", callId, toolName, line, endedAt };
    this.#past.set(callId, made);
    return this.#given(result, made);
  }

  /** The id of a call for which the code asks now. Throws when it has made as many as it may. */
  #nextId(toolName: string, args: unknown): string {
    if (++this.#calls > MOST_CALLS)
      throw new ToolExecutionError(
        `This run has made ${MOST_CALLS} calls, which is as many as it may. Do the rest in another run.`,
        { toolName, recoverable: false },
      );
    const key = hashValue([toolName, args]);
    const occurrence = (this.#asked.get(key) ?? 0) + 1;
    this.#asked.set(key, occurrence);
    return childId(this.callId, key, occurrence);
  }

  #make(
    past: PastCall | undefined,
    wanted: string,
    info: ToolInfo,
    args: unknown,
    line: number,
  ): Promise<ToolResult> {
    const { records } = this.#parts;
    const isUnknown = past?.kind === "unknown";
    if (isUnknown && !isRepeatable(info)) throw outcomeUnknown(info.name, line);
    const callId = isUnknown ? past.callId + RESUMED : (past?.callId ?? wanted);
    if (past?.kind === "waiting") {
      this.#continued.add(callId);
      records?.continueQuestion(callId);
    }
    this.#wanted.set(callId, wanted);
    const make = () => {
      if (this.#isLeft) throw new Error("The server is stopping.");
      return this.#context.call(info.name, args, { callId, ...(line > 0 && { line }) });
    };
    const mustBeKnown = records !== undefined && past === undefined && !isRepeatable(info);
    const made = mustBeKnown ? records.announce({ callId, tool: info, line }).then(make) : make();
    this.#live.set(wanted, made);
    const end = () => {
      this.#live.delete(wanted);
      this.#waiting.delete(wanted);
      const endedAt = this.#endedAt.get(callId) ?? Date.now();
      this.#past.set(wanted, { kind: "finished", callId, toolName: info.name, line, endedAt });
    };
    made.then(end, end);
    return made;
  }

  /** What the code is given of a call that has ended: a value with the time of its end. Throws the call's error. */
  #given(result: ToolResult, { callId, endedAt }: PastCall): unknown {
    if (result.error !== undefined) throw ofResponse(result.error);
    const value = this.#files.valueOf(callId, result);
    this.#bytes += Buffer.byteLength(JSON.stringify(value) ?? "");
    if (this.#bytes > MOST_BYTES)
      throw new ToolExecutionError(
        "The tools have given this run more than 64 MiB, which is as much as they may. Ask them for less.",
        { recoverable: false },
      );
    return { value, at: Math.max(endedAt, this.#parts.startedAt) };
  }

  #outcome(answer: Record<string, unknown>): RunOutcome {
    const { value } = answer;
    const files = this.#files.namedIn(value);
    const hasValue = Object.hasOwn(answer, "value");
    return { value, hasValue, files, console: this.#console, calls: this.#calls };
  }

  #toolAt(parts: readonly string[]): ToolInfo {
    const { paths } = this.#parts;
    const { registry } = this.#context;
    const name = paths.find(parts);
    const info = name === undefined ? undefined : registry.get(name);
    if (info === undefined) throw unknownPath(parts, paths, (seen) => registry.get(seen) !== undefined);
    if (!isForCode(info)) throw notForCode(info.name);
    return info;
  }

  /** The line of the written code, for a place in the compiled one. 0 when it is not known. */
  #lineOf(place: unknown): number {
    const [, line, column] = /^(\d{1,7}):(\d{1,7})$/.exec(String(place)) ?? [];
    return line === undefined ? 0 : this.#parts.code.lineOf(Number(line), Number(column));
  }

  /** What the code threw, with the line of the written code. Others pass as they are. */
  #errorOf(thrown: unknown): unknown {
    if (isToolError(thrown) || !(thrown instanceof Error) || thrown.name === "SandboxError") return thrown;
    if (this.#context.signal.aborted) return thrown;
    const { stack = "" } = thrown;
    const place = stack.slice(stack.indexOf(`${FILE}:`) + FILE.length + 1);
    const line = stack.includes(`${FILE}:`) ? this.#lineOf(/^\d+:\d+/.exec(place)?.[0]) : 0;
    return ofCode(thrown, line, this.#console);
  }
}

const RUN_AGAIN =
  "The server was restarted while the code ran. It is run again; calls that had ended are answered from their records.";

/** The reason with which the worker of a run that only waits for people is ended. */
const SUSPENDED = new Error("The run waits for a person.");

/** The id of a call that code makes, from which the call is found when the code is run again. */
function childId(runId: string, key: string, occurrence: number): string {
  const hash = createHash("sha256").update([runId, key, occurrence].join("\0")).digest("hex");
  return `code_${hash.slice(0, 32)}`;
}

/** Whether a call of the tool that may have done its work already can be made once more. */
function isRepeatable({ metadata }: ToolInfo): boolean {
  return metadata.readOnly === true || metadata.idempotent === true;
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.slice(0, 8).map((part) => String(part).slice(0, 200)) : [];
}

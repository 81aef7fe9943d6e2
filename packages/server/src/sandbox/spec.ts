import { AsyncLocalStorage } from "node:async_hooks";
import type { Logger } from "@toolrack/core";
import type { WorkerLimits } from "../config/index.ts";

/** Code to run in the sandbox, with its grants. */
export interface WorkerSpec {
  /** Identifies the version of the code and its grants. A worker serves only calls with its own key. */
  readonly key: string;
  /** The tool's name, for errors and logs. */
  readonly label: string;
  /** The text of a CommonJS module whose exports are a `WorkerProgram`. Evaluated in the worker only. */
  readonly code: string;
  /** The name in stack traces. */
  readonly filename: string;
  /** Absolute directory that holds `node_modules`; mounted read-only. `require` and `import()` resolve in it. */
  readonly dependencies?: string;
  /** Network hosts granted: `api.example.com`, `*.example.com`, `host:8080`. Empty: no network. */
  readonly hosts: readonly string[];
  /** JSON, sent with the code and passed to `init`: environment, secrets, names. */
  readonly settings: unknown;
  /** The code came from elsewhere: refused below level 3, unless the operator allowed it. */
  readonly foreign: boolean;
  /** Receives what its workers log outside a call. Default: the sandbox's logger. Must not throw. */
  readonly onLog?: (log: LogLine) => void;
  readonly limits?: Partial<WorkerLimits>;
}

/** What the bundle's `module.exports` must be. Promises are awaited everywhere. */
export interface WorkerProgram {
  /** Called once per worker, before its first call. An error fails the calls that wait for the worker. */
  init?(settings: unknown, host: WorkerHost): unknown;
  /** Called once, before the worker ends normally. Not called when it crashed or was killed. */
  cleanup?(): unknown;
  /** May be called while other calls run, up to `concurrency`. The result must be JSON or `undefined`. */
  readonly methods: Readonly<Record<string, (params: unknown, call: WorkerCall) => unknown>>;
}

/** What a program can reach outside a call. */
export interface WorkerHost {
  /** Never throws. Messages after the end of a call are dropped. */
  notify(method: string, params: unknown): void;
}

export interface WorkerCall extends WorkerHost {
  /** Aborted when the caller gave up. A call that still runs after `graceMs` is ended with its worker. */
  readonly signal: AbortSignal;
  /** Asks the host. Rejects with the name, message, code and data of the error that the host's handler threw. */
  request(method: string, params: unknown): Promise<unknown>;
}

export interface Invocation {
  readonly method: string;
  readonly params: unknown;
  /** On abort `invoke` rejects at once, the worker's signal aborts, and after `graceMs` the worker is ended. */
  readonly signal: AbortSignal;
  /** Handles a request of the worker. The params come from unreviewed code: parse them. */
  readonly onRequest?: (method: string, params: unknown) => Promise<unknown>;
  /** Receives log lines (`log`, with a `LogLine`) and other reports of the program. Must not throw. */
  readonly onNotify?: (method: string, params: unknown) => void;
}

/** A line of a worker's `console`, sent as the notification `log`. */
export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly text: string;
  readonly data?: unknown;
}

export type SandboxLevel = 3 | 2 | 0;

export interface Sandbox {
  /** 0: no isolation is available, and everything is refused. */
  readonly level: SandboxLevel;
  /** Tells people why it is not level 3, and what to do. */
  readonly reason?: string;
  /**
   * Rejects with a `RemoteError` that holds as plain data what the code threw, with a `SandboxError` when the worker
   * crashed, hit a limit, did not start or was refused, and with the signal's reason when it aborted.
   */
  invoke(spec: WorkerSpec, invocation: Invocation): Promise<unknown>;
  /** Gives these workers no new calls; they run `cleanup` and end when their calls have ended. Ignores unknown keys. */
  retire(keys: Iterable<string>): void;
  /** Runs one command in a fresh sandbox, for the scripts of skills. */
  run(program: ProgramSpec, input: string, signal: AbortSignal): Promise<ProgramResult>;
  stats(): SandboxStats;
  /** Ends every worker: idle ones after `cleanup`, busy ones after their grace time. May be called twice. */
  close(): Promise<void>;
}

export interface SandboxStats {
  readonly blank: number;
  readonly warm: number;
  readonly busy: number;
}

export interface ProgramSpec {
  readonly label: string;
  /** A name that is looked up in the sandbox's PATH (`node`, `python3`, `sh`), or a path below `directory`. */
  readonly command: string;
  readonly args: readonly string[];
  /** Mounted read-only as the working directory. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly hosts: readonly string[];
  readonly foreign: boolean;
  /** `atOnce`: how many programs with this label run at once. Others wait. */
  readonly limits?: Partial<WorkerLimits> & { readonly timeoutMs?: number; readonly atOnce?: number };
}

export interface ProgramResult {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Output above `outputBytes` was dropped, and the program was ended. */
  readonly truncated: boolean;
}

export interface SandboxOptions {
  /** For the sandbox's own files, such as `.toolrack/sandbox`. */
  readonly directory: string;
  readonly require?: 2 | 3;
  /** Let code from elsewhere run at level 2. */
  readonly allowForeignBelow3?: boolean;
  readonly level?: 2 | 3;
  readonly logger: Logger;
  /** How many started workers without code wait for the next tool that needs one (1). */
  readonly blankWorkers?: number;
}

/** Why the sandbox itself failed a call. */
export type SandboxErrorCode =
  /** This machine or the operator does not allow such code. The message has the remedy. */
  | "sandbox_refused"
  /** The worker could not be started, or `init` took too long. */
  | "sandbox_start_failed"
  /** The worker ended in the middle of the call. `data.stderr` is the tail of what it wrote. */
  | "sandbox_crashed"
  /** Memory, processor time or output exceeded a limit. `data.limit` names it. */
  | "sandbox_limit"
  /** The worker was ended for another reason: the server closes, or another call had to be stopped. */
  | "sandbox_ended";

/** The sandbox failed, or had to end the code. The message is for people and models. */
export class SandboxError extends Error {
  override readonly name = "SandboxError";
  readonly code: SandboxErrorCode;
  readonly data: Readonly<Record<string, string | number | null>>;

  constructor(code: SandboxErrorCode, message: string, data: SandboxError["data"] = {}) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Describes a worker's network access, as the end of the sentence "Could not fetch …:". */
export function describeNetwork({ label, hosts }: WorkerSpec, level: 3 | 2): string {
  if (hosts.length === 0)
    return `${label} has no network access. Declare the host in the tool and let the operator grant it.`;
  if (level === 2)
    return `${label} has no network access, because this server isolates tools at the reduced level 2. The operator can install bubblewrap for level 3, where granted hosts can be reached.`;
  return `${label} may reach ${hosts.join(", ")} only.`;
}

/**
 * How many sandboxed calls wait, each for the next, for the current one: a worker's request to the host may lead back
 * into the sandbox. Undefined outside of such a request.
 */
export const nesting = new AsyncLocalStorage<number>();

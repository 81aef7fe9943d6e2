import { AsyncLocalStorage } from "node:async_hooks";
import type { Logger } from "@toolrack/core";
import type { WorkerLimits } from "../config/index.ts";

/** Code that runs where it can do no harm: one bundle, with what it was granted. */
export interface WorkerSpec {
  /** Version of the code and of its grants. Workers with one key may serve each other's calls, never others. */
  readonly key: string;
  /** The tool's name, for errors and logs. */
  readonly label: string;
  /** The text of a CommonJS module whose exports are a `WorkerProgram`. Evaluated in the worker only. */
  readonly code: string;
  /** For stack traces. */
  readonly filename: string;
  /** Absolute directory that holds `node_modules`; mounted read-only. `require` and `import()` resolve in it. */
  readonly dependencies?: string;
  /** Network hosts granted: `api.example.com`, `*.example.com`, `host:8080`. Empty: no network. */
  readonly hosts: readonly string[];
  /** JSON, sent over stdin with the code and given to `init`: environment, secrets, names. */
  readonly settings: unknown;
  /** It came from elsewhere: refused below level 3, unless the operator allowed it. */
  readonly foreign: boolean;
  /** Is told what its workers say outside a call, instead of the sandbox's logger. May not throw. */
  readonly onLog?: (log: LogLine) => void;
  readonly limits?: Partial<WorkerLimits>;
}

/** What the bundle's `module.exports` must be. Promises are awaited everywhere. */
export interface WorkerProgram {
  /** Once per worker, before its first call. What it throws fails the calls that wait for the worker. */
  init?(settings: unknown, host: WorkerHost): unknown;
  /** Once, before the worker ends of its own accord. Not called when it crashed or was killed. */
  cleanup?(): unknown;
  /** May be called while another call runs, up to `concurrency`. The answer must be JSON, or `undefined`. */
  readonly methods: Readonly<Record<string, (params: unknown, call: WorkerCall) => unknown>>;
}

/** Outside a call. */
export interface WorkerHost {
  /** Never throws. What is sent after the end of a call is dropped. */
  notify(method: string, params: unknown): void;
}

export interface WorkerCall extends WorkerHost {
  /** Aborted when the caller gave up. A call that goes on after `graceMs` ends with its worker. */
  readonly signal: AbortSignal;
  /** Asks the host. Rejects with what the host's handler threw, as name, message, code and data. */
  request(method: string, params: unknown): Promise<unknown>;
}

/** One use of a method. */
export interface Invocation {
  readonly method: string;
  /** JSON. */
  readonly params: unknown;
  /** When it aborts, `invoke` rejects with its reason at once; the worker's signal follows, and after `graceMs` its end. */
  readonly signal: AbortSignal;
  /** The worker asks the host: callTool, storage. Params are plain data of unreviewed code: parse them. */
  readonly onRequest?: (method: string, params: unknown) => Promise<unknown>;
  /** Log lines (`log`, with a `LogLine`) and whatever else the program reports. May not throw. */
  readonly onNotify?: (method: string, params: unknown) => void;
}

/** What `console` of a worker becomes: a notification named `log`. */
export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly text: string;
  readonly data?: unknown;
}

export type SandboxLevel = 3 | 2 | 0;

export interface Sandbox {
  /** 0: none can be had; everything is refused. */
  readonly level: SandboxLevel;
  /** Why it is not level 3, and the remedy, for people. */
  readonly reason?: string;
  /**
   * Rejects with a `RemoteError` that holds what was thrown inside as plain data, with a `SandboxError` when the
   * worker crashed, hit a limit, did not start or was refused, and with the signal's reason when it aborted.
   */
  invoke(spec: WorkerSpec, invocation: Invocation): Promise<unknown>;
  /** No new calls on these workers; they end when their calls have ended, after `cleanup`. Unknown keys are fine. */
  retire(keys: Iterable<string>): void;
  /** One command with its own fresh sandbox, for skills' scripts. */
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
  readonly limits?: Partial<WorkerLimits> & ProgramLimits;
}

export interface ProgramLimits {
  readonly timeoutMs?: number;
  /** Programs with this label at once. Those above it wait. */
  readonly atOnce?: number;
}

export interface ProgramResult {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Output above `outputBytes` was thrown away, and the program ended for it. */
  readonly truncated: boolean;
}

export interface SandboxOptions {
  /** Scratch of the sandbox itself, such as `.toolrack/sandbox`. */
  readonly directory: string;
  /** Refuse everything below this level. */
  readonly require?: 2 | 3;
  /** Let code from elsewhere run at level 2. */
  readonly allowForeignBelow3?: boolean;
  /** Never above this level, although a higher one could be had. */
  readonly level?: 2 | 3;
  readonly logger: Logger;
  /** How many workers wait, started and without code, for the next tool that needs one (1). */
  readonly blankWorkers?: number;
}

/** Why the sandbox itself failed a call. */
export type SandboxErrorCode =
  /** This machine or the operator does not let such code run. The message has the remedy. */
  | "sandbox_refused"
  /** The worker could not be started, or `init` took too long. */
  | "sandbox_start_failed"
  /** The worker ended in the middle of the call. `data.stderr` is the tail of what it wrote. */
  | "sandbox_crashed"
  /** Memory, processor time or output ran over. `data.limit` names the limit. */
  | "sandbox_limit"
  /** The worker was ended for the sake of something else: the server closes, or another call had to be stopped. */
  | "sandbox_ended";

/** The sandbox failed, or had to end what ran in it. The message is meant for people and models. */
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

/** What the network is to a worker, as the end of the sentence "Could not fetch …:". */
export function describeNetwork({ label, hosts }: WorkerSpec, level: 3 | 2): string {
  if (hosts.length === 0)
    return `${label} has no network access. Declare the host in the tool and let the operator grant it.`;
  if (level === 2)
    return `${label} has no network access, because this server isolates tools at the reduced level 2. The operator can install bubblewrap for level 3, where granted hosts can be reached.`;
  return `${label} may reach ${hosts.join(", ")} only.`;
}

/**
 * How many calls in the sandbox wait, each for the next, for what runs now: what a worker asks of the host may lead
 * back into the sandbox. Nothing outside of such a question.
 */
export const nesting = new AsyncLocalStorage<number>();

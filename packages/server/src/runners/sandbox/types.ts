import type { Logger } from "@toolrack/core";

/** What one worker may use. Everything has a default; see `defaultLimits`. */
export interface WorkerLimits {
  /**
   * All memory of the worker's heap, buffers included. A worker that wants more ends, and its calls fail. So does a
   * program that, with all that it started, has more.
   */
  readonly memoryMb: number;
  /** Processor time of one call. Above it the worker is killed. Between calls a worker has a second. */
  readonly cpuSeconds: number;
  /** Processes and threads at once. At level 3 only programs that `run` started can make more. */
  readonly processes: number;
  /** What a call may answer, log and report together, in bytes. */
  readonly outputBytes: number;
  /** Size of the private scratch directory. At level 2 whoever writes more is ended a moment later. */
  readonly scratchMb: number;
  /** After this many calls the worker ends and another takes its place. */
  readonly maxCallsPerWorker: number;
  /** A worker that had no call for this long ends. */
  readonly idleMs: number;
  /** Calls at once in one worker. When all are busy, another worker is started. */
  readonly concurrency: number;
  /**
   * Workers at once for one key. Calls above that wait. Calls that other calls wait for have as many of their own, at
   * each depth: otherwise those who wait could hold all the workers that they wait for.
   */
  readonly workers: number;
  /** Evaluating the module and `init` together. */
  readonly initMs: number;
  /** `cleanup`, before the worker is killed. */
  readonly cleanupMs: number;
  /** Between the abort of a call's signal and the end of a worker that does not heed it. */
  readonly graceMs: number;
}

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
  readonly onLog?: (log: LogNotification) => void;
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
  /** Log lines (`log`, with a `LogNotification`) and whatever else the program reports. May not throw. */
  readonly onNotify?: (method: string, params: unknown) => void;
}

/** What `console` of a worker becomes: a notification named `log`. */
export interface LogNotification {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly text: string;
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
  /** Workers kept ready before anybody asked (1). */
  readonly blankWorkers?: number;
}

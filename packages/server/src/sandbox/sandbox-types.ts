import { AsyncLocalStorage } from "node:async_hooks";
import type { Logger } from "@toolrack/core";
import type { WorkerLimits } from "../config/index.ts";
import type { CodedReason } from "../helpers/index.ts";

/** A folder that outlives the processes that write to it, as the host sees it. */
export interface DataFolder {
  readonly name: string;
  /** Absolute. */
  readonly path: string;
  /** The folder's owner when the server is root: processes that use the folder run as this user. */
  readonly uid?: number;
}

/** A folder of the workspace that the operator opened for a sandboxed tool. */
export interface OpenFolder {
  /** The absolute real path, under which the process sees the folder too. */
  readonly path: string;
  /** Relative to the workspace, and to the data folder in the sandbox. */
  readonly place: string;
  readonly isWritable: boolean;
}

/** The host's folders that a confined process sees beside its code. */
export interface OpenedFolders {
  /** The home of the process, where it may write and what it writes lasts. Without one, its home is scratch space. */
  readonly data?: DataFolder;
  /** Folders of the workspace that the operator opened. */
  readonly folders?: readonly OpenFolder[];
}

/** Code to run in the sandbox, with its grants. */
export interface WorkerSpec extends OpenedFolders {
  /** Identifies the version of the code and its grants. A worker serves only calls with its own key. */
  readonly key: string;
  /** The tool's name, for errors and logs. */
  readonly label: string;
  /** The text of a CommonJS module whose exports are a `WorkerProgram`. Evaluated in the worker only. */
  readonly code: string;
  /** The file name that stack traces show. */
  readonly filename: string;
  /** The absolute path of a read-only directory with `node_modules`, where `require` and `import()` look. */
  readonly dependencies?: string;
  /** Network hosts granted: `api.example.com`, `*.example.com`, `host:8080`. Empty: no network. */
  readonly hosts: readonly string[];
  /** JSON, sent with the code and passed to `init`: environment, secrets, names. */
  readonly settings: unknown;
  /** Whether the code came from elsewhere. Then it is refused below level 3 unless the operator allows it. */
  readonly foreign: boolean;
  /** Receives the log lines of workers outside a call. Default: the sandbox's logger. Must not throw. */
  readonly onLog?: (log: LogLine) => void;
  readonly limits?: Partial<WorkerLimits>;
}

/** The `module.exports` of a worker's code. Every function may return a promise. */
export interface WorkerProgram {
  /** Called once per worker, before its first call. An error fails the calls that wait for the worker. */
  init?(settings: unknown, host: WorkerHost): unknown;
  /** Called once, before the worker ends normally. Not called when it crashed or was killed. */
  cleanup?(): unknown;
  /** Called by the host, up to `concurrency` at the same time. The result must be JSON or `undefined`. */
  readonly methods: Readonly<Record<string, (params: unknown, call: WorkerCall) => unknown>>;
}

/** The part of the host that a program can reach outside a call. */
export interface WorkerHost {
  /** Sends a message to the host. Never throws. A message of a call that has ended is dropped. */
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

/** Why the level is not 3, for programs that have words of their own for it. */
export const isolationCodes = [
  "level_2_wanted",
  "not_linux",
  "bubblewrap_missing",
  "bubblewrap_fails",
] as const;
export type IsolationReason = CodedReason<(typeof isolationCodes)[number]>;

/** The reason tells why the level is not 3, and what to do about it. */
export interface Sandbox extends Partial<IsolationReason> {
  /** 0: no sufficient isolation is available, and everything is refused. */
  readonly level: SandboxLevel;
  /**
   * Calls a method of the code in a worker. Rejects with a `RemoteError` that holds, as plain data, the error
   * that the code threw; with a `SandboxError` when the worker crashed, hit a limit, did not start or was
   * refused; and with the signal's reason when the signal aborted.
   */
  invoke(spec: WorkerSpec, invocation: Invocation): Promise<unknown>;
  /** Gives workers with these keys no new calls; each ends after its calls. Ignores unknown keys. */
  retire(keys: Iterable<string>): void;
  /** Runs one program in a fresh sandbox: a script of a skill, or a program that a tool starts. */
  run(program: ProgramSpec, input: string, signal: AbortSignal): Promise<ProgramResult>;
  /** The path of a data folder as workers and programs see it. */
  placeOf(data: DataFolder): string;
  stats(): SandboxStats;
  /** Ends every worker: idle ones after `cleanup`, busy ones after their grace time. May be called twice. */
  close(): Promise<void>;
}

export interface SandboxStats {
  readonly blank: number;
  readonly warm: number;
  readonly busy: number;
}

export interface ProgramSpec extends OpenedFolders {
  readonly label: string;
  /** A name that is looked up in the sandbox's PATH (`node`, `python3`, `sh`), or a path below `directory`. */
  readonly command: string;
  readonly args: readonly string[];
  /** The working directory, which the program can read but not change, unless it is the path of `data`. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string>>;
  /** The absolute path of a directory with `node_modules`, which the program sees read-only as `NODE_PATH`. */
  readonly dependencies?: string;
  readonly hosts: readonly string[];
  readonly foreign: boolean;
  /** `atOnce`: how many programs with this label run at once. Further programs wait. */
  readonly limits?: Partial<WorkerLimits> & { readonly timeoutMs?: number; readonly atOnce?: number };
}

export interface ProgramResult {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Whether output above `outputBytes` was dropped and the program was ended. */
  readonly truncated: boolean;
  /** Hosts that the program asked the egress proxy for and that are not granted: `example.com:443`. */
  readonly refusedHosts: readonly string[];
  /**
   * Whether the program, or one that it started, tried to reach an address past the egress proxy, where nothing can be
   * reached. Always false at level 2 and where the sandbox has no /proc.
   */
  readonly isCutOff: boolean;
}

export interface SandboxOptions {
  /** The directory for the sandbox's own files, such as `.toolrack/sandbox`. */
  readonly directory: string;
  readonly require?: 2 | 3;
  /** Let code from elsewhere run at level 2. */
  readonly allowForeignBelow3?: boolean;
  readonly level?: 2 | 3;
  readonly logger: Logger;
  /** How many started workers without code wait for the next tool that needs one. Default 1. */
  readonly blankWorkers?: number;
}

/** Why the sandbox itself failed a call. */
export type SandboxErrorCode =
  /** This machine or the operator's config does not allow the code to run. The message says what to do. */
  | "sandbox_refused"
  /** The worker or program could not be started, or `init` took too long. */
  | "sandbox_start_failed"
  /** The worker ended in the middle of the call. `data.stderr` is the last part of its stderr. */
  | "sandbox_crashed"
  /** The worker or program exceeded a limit; `data.limit` is memory, scratch, cpu, time or output. */
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
 * The depth of the current call: how many sandboxed calls are above it in its chain, each waiting for the
 * next. A worker's request to the host may lead to another sandboxed call. Undefined outside the handling of
 * such a request.
 */
export const nesting = new AsyncLocalStorage<number>();

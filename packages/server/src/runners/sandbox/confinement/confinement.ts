import type { ChildProcess } from "node:child_process";
import type { ProgramSpec, WorkerLimits } from "../types.ts";

/** What has to be decided about a worker before it starts; all else is sent to it later. */
export interface WorkerShape {
  readonly dependencies?: string;
  /** The unix socket of the egress proxy for the worker's grants. */
  readonly egressSocket?: string;
  readonly memoryMb: number;
  readonly scratchMb: number;
}

export interface ProgramShape {
  readonly program: ProgramSpec;
  readonly egressSocket?: string;
  readonly limits: WorkerLimits;
}

export interface Launched {
  /** Leader of its own process group. For workers, stdio 3 is the channel. */
  readonly child: ChildProcess;
  /** The directory, as the worker sees it, in which its code is said to be. */
  readonly codeDirectory: string;
  /** The directory on the host that the process may write to, where nothing else bounds its size. */
  readonly scratch?: string;
  /** Frees what the process had on the host. Called once, after it has ended. */
  release(): void;
}

/** A way to start processes that can do no harm. Both methods throw when the process cannot be confined. */
export interface Confinement {
  readonly level: 3 | 2;
  startWorker(shape: WorkerShape): Launched;
  startProgram(shape: ProgramShape): Launched;
}

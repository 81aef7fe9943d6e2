import type { LoadFailure } from "./loader/load-failure.ts";
import type { Contract } from "./recognised.ts";

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

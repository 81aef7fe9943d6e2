import type { LoadEvent, LoadReport } from "../../../index.ts";

/** One load of the tool files: names of tools, and the files that could not be loaded. */
export interface Reload {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  readonly failed: readonly string[];
  /** Milliseconds. */
  readonly duration: number;
}

const MOST = 100;
const LONGEST_LIST = 200;

/** Remembers the last loads. */
export class ReloadLog {
  readonly #reloads: Reload[] = [];

  /** `first`: what opening the workspace found, before anybody could listen. */
  constructor(first: LoadReport) {
    this.#add(first);
  }

  readonly listen = (event: LoadEvent): void => {
    if (event.type === "finished") this.#add(event.report);
  };

  /** The newest first. */
  list(): Reload[] {
    return this.#reloads.toReversed();
  }

  #add(report: LoadReport): void {
    this.#reloads.push({ at: Date.now(), ...summaryOf(report, LONGEST_LIST) });
    if (this.#reloads.length > MOST) this.#reloads.shift();
  }
}

/** What a load did, with no list longer than the limit. */
export function summaryOf(report: LoadReport, limit: number): Omit<Reload, "at"> {
  const { added, changed, removed, duration, files } = report;
  const failed = files
    .filter(({ status }) => status === "failed" || status === "stale")
    .map(({ file }) => file);
  const few = (names: readonly string[]) => names.slice(0, limit);
  return { added: few(added), changed: few(changed), removed: few(removed), failed: few(failed), duration };
}

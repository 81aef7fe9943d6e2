import type { LogLevel } from "@toolrack/core";

/** Something that a tool said while it ran. `note`: said by the rack, of lines that are not kept. */
export interface CallLine {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly level: LogLevel | "progress" | "note";
  readonly text: string;
}

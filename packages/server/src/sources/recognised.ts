import type { ToolInfo } from "@toolrack/core";

export type Contract = "internal" | "toolbox" | "define" | "plugin";

/** What a file turned out to be. */
export interface RecognisedFile {
  readonly contract: Contract;
  readonly tools: readonly ToolInfo[];
  /** What had to be understood differently from how it is written, each with what to write instead. */
  readonly warnings: readonly string[];
}

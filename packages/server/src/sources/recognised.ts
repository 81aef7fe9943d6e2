import type { PromptInfo, ResourceInfo, ToolInfo } from "@toolrack/core";

export type Contract = "internal" | "toolbox" | "define" | "plugin" | "single-file";

/** What a file turned out to be. */
export interface RecognisedFile {
  readonly contract: Contract;
  readonly tools: readonly ToolInfo[];
  /** What it offers beside tools. */
  readonly prompts?: readonly PromptInfo[];
  readonly resources?: readonly ResourceInfo[];
  /** What had to be understood differently from how it is written, each with what to write instead. */
  readonly warnings: readonly string[];
}

import type { LintRule } from "../config/index.ts";

/** Something in a tool's definition that misleads models. */
export interface Finding {
  readonly code: LintRule;
  readonly tool: string;
  readonly reason: string;
  /** What would settle it. */
  readonly remedy: string;
  /** The parameters that it is about, as people write them: `filter.since`, `items[].id`. */
  readonly parameters?: readonly string[];
  /** The tool with which models will confuse this one. */
  readonly twin?: string;
}

/** A finding as a rule reports it. */
export type Found = Omit<Finding, "tool">;

import type { Logger, ToolContext, ToolRegistry } from "@toolrack/core";
import type { Sandbox } from "../../runners/sandbox/types.ts";
import type { StoredSkillTool } from "../../store/skills/skill-store.ts";
import type { LoadedSkill } from "./loaded-skill.ts";
import type { ReadSecret } from "./secret-references.ts";
import type { ToolUsage } from "./usage.ts";

/** What tools of skills run with. */
export interface SkillSurroundings {
  readonly registry: ToolRegistry;
  /** Absolute. */
  readonly workspace: string;
  /** Hosts and ranges that may be reached although they are private. */
  readonly allowPrivate: readonly string[];
  readonly readSecret: ReadSecret;
  /** Opened when the first script runs. */
  readonly sandbox: () => Promise<Sandbox>;
  readonly logger: Logger;
}

/** A tool of a skill whose row was read and found usable. */
export interface ReadyTool {
  readonly skill: LoadedSkill;
  readonly tool: StoredSkillTool;
  readonly usage: ToolUsage;
}

/** Runs a tool of one type. */
export type ToolRunner = (context: ToolContext) => Promise<unknown>;

import type { StoredSkill, StoredSkillTool } from "../../store/skills/skill-store.ts";

/** A skill as it stands on the rack, whoever owns it. */
export interface LoadedSkill extends StoredSkill {
  /** `folder`: a folder of the workspace says what it is. `database`: the tables do. One of them, never both. */
  readonly owner: "folder" | "database";
  /** Absolute; where its scripts lie. Undefined when it has none. */
  readonly directory?: string;
  /** Changes when anything of it does that the rest of this object does not show. */
  readonly revision: string;
  readonly tools: readonly StoredSkillTool[];
  /** What is odd about it, for people. */
  readonly warnings: readonly string[];
}

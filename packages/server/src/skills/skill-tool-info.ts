import type { ToolInfo } from "@toolrack/core";

/** What the metadata of a tool says when it belongs to a skill. */
export interface SkillToolInfo {
  readonly skillId: string;
  readonly skillName: string;
  /** `skill_tools.id`. */
  readonly toolId: string;
  /** `web_search` */
  readonly toolName: string;
  /** `网页搜索` */
  readonly toolDisplayName: string;
  readonly type: "http" | "script" | "builtin";
  readonly sourcePath?: string;
  readonly command?: string;
}

/** Nothing for a tool that belongs to no skill. */
export function skillToolInfo({ metadata }: ToolInfo): SkillToolInfo | undefined {
  const { skill } = metadata;
  // Only tools of skills have it: it is put there when they are adapted.
  return typeof skill === "object" && skill !== null && "toolId" in skill
    ? (skill as SkillToolInfo)
    : undefined;
}

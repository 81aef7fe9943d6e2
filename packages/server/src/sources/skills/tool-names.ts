import { createHash } from "node:crypto";
import { canonicalName } from "@toolrack/core";
import type { StoredSkill, StoredSkillTool } from "../../store/skills/skill-store.ts";

/** What models call tools of skills by. */
export type ToolNames = "id" | "readable";

/** `{skill}__{tool}`: letters and digits that say what it is. */
export function readableName(
  skill: Pick<StoredSkill, "name" | "mark">,
  tool: Pick<StoredSkillTool, "name">,
): string {
  return canonicalName(`${skill.mark ?? slugOf(skill.name, "_")}__${toolPart(tool.name)}`);
}

/** The form before ids: `{skillId}_{toolName}`. */
export function olderName(skill: Pick<StoredSkill, "id">, tool: Pick<StoredSkillTool, "name">): string {
  return `${skill.id}_${tool.name}`;
}

/** Lower-case letters and digits of the text, joined; a hash where it has none of them, as with Chinese names. */
export function slugOf(text: string, joint: "_" | "-"): string {
  const words = text
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .match(/[a-z0-9]+/g);
  return words === null ? `skill${joint}${shortHash(text)}` : words.join(joint);
}

/** The same for the same text on every machine. */
export function shortHash(text: string): string {
  return BigInt(`0x${createHash("sha256").update(text).digest("hex").slice(0, 32)}`)
    .toString(36)
    .slice(0, 10);
}

function toolPart(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name)
    ? name
    : `${name.match(/[A-Za-z0-9]+/g)?.join("_") ?? "tool"}_${shortHash(name)}`;
}

import { createHash } from "node:crypto";
import { canonicalName } from "@toolrack/core";
import type { StoredSkill, StoredSkillTool } from "../../store/skills/skill-store.ts";
import { isReservedName } from "./reserved-names.ts";

/** What models call tools of skills by. */
export type ToolNames = "id" | "readable";

/** `{skill}__{tool}`: letters and digits that say what it is. */
export function readableName(prefix: string, tool: Pick<StoredSkillTool, "name">): string {
  return canonicalName(`${prefix}__${toolPart(tool.name)}`);
}

/**
 * What readable names of each skill's tools begin with, by the skill's id. Where several skills would have the same one,
 * each gets a hash of its id, so that names depend neither on the order of the skills nor on which was first. One that
 * was chosen as a mark comes before one that the name happens to give.
 */
export function namePrefixes(
  skills: Iterable<Pick<StoredSkill, "id" | "name" | "mark">>,
): Map<string, string> {
  const all = [...skills];
  const marks = countOf(all.flatMap(({ mark }) => (mark === undefined ? [] : unreserved(mark))));
  const unmarked = all.filter(({ mark }) => mark === undefined);
  const slugs = countOf(unmarked.map(({ name }) => unreserved(slugOf(name, "_"))));
  const prefixOf = ({ id, name, mark }: Pick<StoredSkill, "id" | "name" | "mark">): string => {
    const wanted = unreserved(mark ?? slugOf(name, "_"));
    const key = wanted.toLowerCase();
    const rivals = mark === undefined ? (slugs.get(key) ?? 0) + (marks.get(key) ?? 0) : (marks.get(key) ?? 0);
    return rivals > 1 ? `${wanted}_${shortHash(id)}` : wanted;
  };
  return new Map(all.map((skill) => [skill.id, prefixOf(skill)]));
}

/** A skill may be called anything; the names of its tools must not begin like the rack's own. */
function unreserved(prefix: string): string {
  return isReservedName(`${prefix}_`) ? `skill_${prefix}` : prefix;
}

function countOf(texts: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text.toLowerCase(), (counts.get(text.toLowerCase()) ?? 0) + 1);
  return counts;
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

import { createHash } from "node:crypto";
import type { ToolInfo } from "@toolrack/core";
import { canonicalName, isCanonicalName } from "@toolrack/core/internal";
import { isReservedName, reservedNameReason } from "../calls/index.ts";
import { type CodedReason, isRecord, type ReasonDetails, reasonOf } from "../helpers/index.ts";
import {
  ExpertConflictError,
  type NewSkillTool,
  type SkillChanges,
  SkillConflictError,
  type SkillFile,
  type StoredSkill,
  type StoredSkillTool,
} from "../store/index.ts";

/** Why the folder of a skill cannot be used, for programs that have words of their own for it. */
export const skillReasonCodes = [
  "name_in_database",
  "name_in_folder",
  "skill_text_large",
  "front_matter_endless",
  "front_matter_invalid",
  "front_matter_no_map",
  "id_invalid",
  "tools_file_invalid",
  "module_fails",
  "unreadable",
] as const;
type SkillReasonCode = (typeof skillReasonCodes)[number];
export type SkillReason = CodedReason<SkillReasonCode>;

/** The folder of a skill cannot be used. */
export class SkillFolderError extends Error {
  override readonly name = "SkillFolderError";
  readonly code: SkillReasonCode;
  readonly details: ReasonDetails | undefined;

  constructor(code: SkillReasonCode, message: string, details?: ReasonDetails) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

export function skillReasonOf(thrown: unknown): SkillReason {
  const reason = reasonOf(thrown);
  if (!(thrown instanceof SkillFolderError)) return { reason, code: "unreadable", details: { said: reason } };
  return { reason, code: thrown.code, details: thrown.details };
}

/** A skill as it was read from a folder or the database. */
export interface LoadedSkill extends StoredSkill {
  /** Where the skill is defined: in a folder of the workspace or in the database, never in both. */
  readonly owner: "folder" | "database";
  /** The absolute path of the folder with the skill's scripts. Undefined when there is no such folder. */
  readonly directory?: string;
  /**
   * The absolute path of a copy of `directory`, made when the skill was read: scripts run from it, so that a file that
   * is being edited does not affect them. Undefined when scripts run from `directory` itself.
   */
  readonly code?: string;
  /** Changes whenever something changes that the other fields do not show, such as the skill's files. */
  readonly revision: string;
  readonly tools: readonly StoredSkillTool[];
  readonly warnings: readonly string[];
}

/** The metadata of a tool that belongs to a skill. */
export interface SkillToolInfo {
  readonly skillId: string;
  readonly skillName: string;
  /** The tool's id, as in the table `skill_tools`. */
  readonly toolId: string;
  /** The tool's name within the skill: `web_search`. */
  readonly toolName: string;
  /** The tool's name for people: `网页搜索`. */
  readonly toolDisplayName: string;
  readonly type: "http" | "script" | "builtin";
  readonly sourcePath?: string;
  readonly command?: string;
}

/** Undefined for a tool that belongs to no skill. */
export function skillToolInfo({ metadata }: ToolInfo): SkillToolInfo | undefined {
  const { skill } = metadata;
  // Only `adaptSkillTool` sets `metadata.skill`, with these fields.
  return isRecord(skill) && "toolId" in skill ? (skill as unknown as SkillToolInfo) : undefined;
}

/** Invalid input. Every issue names the wrong field as people write it: `usage`, `skills[0]`. */
export class SkillInputError extends Error {
  override readonly name = "SkillInputError";
  readonly issues: readonly { readonly path: string; readonly message: string }[];

  constructor(issues: SkillInputError["issues"]) {
    super(issues.map(({ path, message }) => `${path}: ${message}`).join("; "));
    this.issues = issues;
  }

  static of(path: string, message: string): SkillInputError {
    return new SkillInputError([{ path, message }]);
  }
}

/** There is no such skill, tool or expert. */
export class SkillMissingError extends Error {
  override readonly name = "SkillMissingError";
  readonly what: "skill" | "skill_tool" | "expert";

  constructor(what: SkillMissingError["what"], message: string) {
    super(message);
    this.what = what;
  }
}

/** The skill is defined in a folder, and can be changed only there. */
export class SkillReadOnlyError extends Error {
  override readonly name = "SkillReadOnlyError";
}

export function missingSkill(idOrName: string): SkillMissingError {
  return new SkillMissingError("skill", `There is no skill "${idOrName}".`);
}

export function missingTool({ name }: LoadedSkill, tool: string): SkillMissingError {
  return new SkillMissingError("skill_tool", `The skill "${name}" has no tool "${tool}".`);
}

/** Awaits `work`. Turns a conflict in the store, such as a taken name, into a `SkillInputError`. */
export async function namingField<Value>(work: Promise<Value>): Promise<Value> {
  try {
    return await work;
  } catch (thrown) {
    const isTaken = thrown instanceof SkillConflictError || thrown instanceof ExpertConflictError;
    throw isTaken ? SkillInputError.of(thrown.field, thrown.message) : thrown;
  }
}

/** Checks the id, name and mark of a skill. Throws `SkillInputError` that names the wrong field. */
export function checkSkill({ id, name, mark }: Pick<SkillChanges, "name" | "mark"> & { id?: string }): void {
  if (id !== undefined) checkId(id);
  if (name !== undefined && (name.trim() === "" || [...name].length > 128)) {
    throw SkillInputError.of("name", "It must have 1 to 128 characters.");
  }
  if (typeof mark !== "string") return;
  if (!/^[A-Za-z0-9_-]{1,50}$/.test(mark)) {
    throw SkillInputError.of("mark", "It must be letters, digits, _ and -, at most 50.");
  }
  // A skill's mark is the prefix of its tools' readable names, `{mark}__{tool}`. Reserved prefixes, such as
  // `internal_`, end in one underscore, so the mark is checked with one.
  if (isReservedName(`${mark}_`)) throw SkillInputError.of("mark", reservedNameReason);
}

/** The longest that each text of a tool may be, in characters. */
const longest = {
  displayName: 128,
  description: 100_000,
  command: 512,
  endpoint: 4_096,
  method: 16,
} as const;

/** Throws `SkillInputError` that names the wrong field, with `place` before it: `tools[0].name`. */
export function checkToolFields(tool: NewSkillTool, place = ""): void {
  const { id, name, method } = tool;
  if (id !== undefined) checkId(id, place);
  if (name.trim() === "" || [...name].length > 64) {
    throw SkillInputError.of(`${place}name`, "It must have 1 to 64 characters.");
  }
  // The keys of the object above.
  for (const field of Object.keys(longest) as (keyof typeof longest)[]) {
    if ([...(tool[field] ?? "")].length <= longest[field]) continue;
    const most = longest[field].toLocaleString("en-US");
    throw SkillInputError.of(`${place}${field}`, `It must have at most ${most} characters.`);
  }
  if (method !== undefined && !/^[A-Za-z]*$/.test(method)) {
    throw SkillInputError.of(`${place}method`, "It must be letters.");
  }
}

function checkId(id: string, place = ""): void {
  if (!isCanonicalName(id)) {
    throw SkillInputError.of(`${place}id`, `"${id}" must be letters, digits, _ and -, at most 64.`);
  }
  if (isReservedName(id))
    throw SkillInputError.of(`${place}id`, `"${id}" cannot be used. ${reservedNameReason}`);
}

/** Files that an export makes from the skill's fields. */
const ownFiles = new Set(["skill.md", "tools.json"]);

/** Throws `SkillInputError` for a path that a skill's file cannot have, alone or beside the other paths. */
export function checkPaths(paths: Iterable<string>): void {
  const all = new Set(paths);
  for (const path of all) {
    if (!isSafePath(path)) throw SkillInputError.of("files", `"${path}" is no path for a file.`);
    if (ownFiles.has(path.toLowerCase())) {
      throw SkillInputError.of("files", `"${path}" is made of the skill itself: change its fields instead.`);
    }
    const parents = path.split("/").slice(0, -1);
    for (let depth = parents.length; depth > 0; depth--) {
      const parent = parents.slice(0, depth).join("/");
      if (all.has(parent)) {
        throw SkillInputError.of("files", `"${parent}" cannot be a file and the folder of "${path}".`);
      }
    }
  }
}

/** Applies changes: null removes a file, and files that are not named stay. Throws `SkillInputError`. */
export function withFiles(
  old: readonly SkillFile[],
  changes: Readonly<Record<string, SkillFile | null>>,
): SkillFile[] {
  const kept = new Map<string, SkillFile | null>([
    ...old.map((file) => [file.path, file] as const),
    ...Object.entries(changes),
  ]);
  const files = [...kept.values()].filter((file) => file !== null);
  checkPaths(files.map(({ path }) => path));
  return files;
}

/** Whether the path stays below the folder it is written to. */
export function isSafePath(path: string): boolean {
  const parts = path.split("/");
  return (
    path !== "" &&
    path.length <= 255 &&
    !/[\0\\:]/.test(path) &&
    parts.every((part) => part !== "" && part !== "." && part !== "..")
  );
}

/** Which names models see for tools of skills: the tool's id, or the readable name. */
export type ToolNames = "id" | "readable";

/** The readable name of a tool: `{prefix}__{tool}`, with its skill's prefix from `namePrefixes`. */
export function readableName(prefix: string, tool: Pick<StoredSkillTool, "name">): string {
  return canonicalName(`${prefix}__${toolPart(tool.name)}`);
}

type NamedSkill = Pick<StoredSkill, "id" | "name" | "mark">;

/**
 * The prefix of the readable names of each skill's tools, by the skill's id: the skill's mark, or else a
 * prefix made from its name. Skills that would share a prefix get a hash of their id added, so that names do
 * not depend on the order of the skills. A skill with a mark keeps its prefix when the others have no mark.
 */
export function namePrefixes(skills: readonly NamedSkill[]): Map<string, string> {
  const wantedBy = ({ name, mark }: NamedSkill) => unreserved(mark ?? slugOf(name, "_"));
  const sharing = Map.groupBy(skills, (skill) => wantedBy(skill).toLowerCase());
  return new Map(
    skills.map((skill) => {
      const wanted = wantedBy(skill);
      const same = sharing.get(wanted.toLowerCase()) ?? [];
      const rivals = skill.mark === undefined ? same : same.filter(({ mark }) => mark !== undefined);
      return [skill.id, rivals.length > 1 ? `${wanted}_${shortHash(skill.id)}` : wanted];
    }),
  );
}

/** A skill may have any name, but its tools' names must not begin like the rack's own. */
function unreserved(prefix: string): string {
  return isReservedName(`${prefix}_`) ? `skill_${prefix}` : prefix;
}

/** The older form of a tool's name, which remains as an alias: `{skillId}_{toolName}`. */
export function olderName(skill: Pick<StoredSkill, "id">, tool: Pick<StoredSkillTool, "name">): string {
  return `${skill.id}_${tool.name}`;
}

/** The words and numbers of the text in lower case, joined; a hash when there are none, as in Chinese. */
export function slugOf(text: string, joint: "_" | "-"): string {
  const words = text
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .match(/[a-z0-9]+/g);
  return words === null ? `skill${joint}${shortHash(text)}` : words.join(joint);
}

/** A hash of up to 10 letters and digits, which is the same on every machine. */
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

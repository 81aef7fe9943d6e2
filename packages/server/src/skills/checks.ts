import { isCanonicalName, type ToolInfo } from "@toolrack/core";
import { isReservedName, reservedNameReason } from "../calls/index.ts";
import {
  type NewSkillTool,
  newId,
  SkillConflictError,
  type SkillFile,
  type SkillStore,
  type SkillToolChanges,
  type StoredSkillTool,
} from "../store/index.ts";
import { isSafePath, type LoadedSkill } from "./folder.ts";
import { loadStoredSkill } from "./loader.ts";
import { adaptSkillTool, type SkillSurroundings } from "./tool.ts";
import { UsageError } from "./usage.ts";

/** Throws `SkillInputError` that names the field. */
export function checkSkill({
  id,
  name,
  mark,
}: {
  readonly id?: string;
  readonly name?: string;
  readonly mark?: string | null;
}): void {
  if (id !== undefined) checkId(id);
  if (name !== undefined && (name.trim() === "" || [...name].length > 128)) {
    throw SkillInputError.of("name", "It must have 1 to 128 characters.");
  }
  if (typeof mark === "string" && !/^[A-Za-z0-9_-]{1,50}$/.test(mark)) {
    throw SkillInputError.of("mark", "It must be letters, digits, _ and -, at most 50.");
  }
  // Names on the rack are the mark, two underscores and more.
  if (typeof mark === "string" && isReservedName(`${mark}_`))
    throw SkillInputError.of("mark", reservedNameReason);
}

/** The longest that each text of a tool may be, in characters. */
const longest = {
  displayName: 128,
  description: 100_000,
  command: 512,
  endpoint: 4_096,
  method: 16,
} as const;

/** `place` is where the tool stands: `tools[0].`. Throws `SkillInputError` that names the field. */
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

/** Made from the rest of the skill whenever it is written as a folder. */
const ownFiles = new Set(["skill.md", "tools.json"]);

/** Throws `SkillInputError` for files that could not all lie in one folder. */
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

/** Null removes a file; others stay as they are. Throws `SkillInputError`. */
export function withFiles(
  old: readonly SkillFile[],
  changes: Readonly<Record<string, SkillFile | null>>,
): SkillFile[] {
  const kept = new Map(old.map((file) => [file.path, file]));
  for (const [path, file] of Object.entries(changes)) {
    if (file === null) kept.delete(path);
    else kept.set(path, file);
  }
  checkPaths(kept.keys());
  return [...kept.values()];
}

/** The tool as it would be on the rack. Throws `SkillInputError` that names the field. */
export async function checkTool(
  skill: LoadedSkill,
  tool: NewSkillTool,
  surroundings: SkillSurroundings,
  store: Pick<SkillStore, "listFiles">,
): Promise<ToolInfo> {
  checkToolFields(tool);
  const candidate = toStoredTool(skill.id, tool);
  const isStored = skill.owner === "database";
  // The first script of a skill is what brings its files to where scripts find them.
  const placed = isStored ? await loadStoredSkill(skill, [candidate], store, surroundings.workspace) : skill;
  try {
    return adaptSkillTool(placed, candidate, surroundings, { names: "id", prefix: placed.id });
  } catch (thrown) {
    if (thrown instanceof UsageError) throw SkillInputError.of(thrown.field, thrown.message);
    throw thrown;
  }
}

/** A tool with changes, as if it were new. */
export function withChanges(tool: StoredSkillTool, changes: SkillToolChanges): NewSkillTool {
  const entries = Object.entries({ ...tool, ...changes }).filter(([, value]) => value !== null);
  // Without what is null it is exactly that.
  return Object.fromEntries(entries) as unknown as NewSkillTool;
}

/** By its id or name. Throws `SkillMissingError`. */
export function toolOf(skill: LoadedSkill, idOrName: string): StoredSkillTool {
  const found = skill.tools.find(({ id, name }) => id === idOrName || name === idOrName);
  if (found === undefined) throw missingTool(skill, idOrName);
  return found;
}

/** What the store refuses because another row has it is refused by its field. */
export async function namingField<Value>(work: Promise<Value>): Promise<Value> {
  try {
    return await work;
  } catch (thrown) {
    if (thrown instanceof SkillConflictError) throw SkillInputError.of(thrown.field, thrown.message);
    throw thrown;
  }
}

export function missingSkill(idOrName: string): SkillMissingError {
  return new SkillMissingError("skill", `There is no skill "${idOrName}".`);
}

export function missingTool({ name }: LoadedSkill, tool: string): SkillMissingError {
  return new SkillMissingError("skill_tool", `The skill "${name}" has no tool "${tool}".`);
}

function toStoredTool(skillId: string, tool: NewSkillTool): StoredSkillTool {
  return {
    id: newId(),
    description: "",
    usage: "",
    enabled: true,
    ...tool,
    skillId,
    createdAt: 0,
    updatedAt: 0,
  };
}

interface InputIssue {
  /** The field, as people write it: `usage`, `skills[0]`. */
  readonly path: string;
  readonly message: string;
}

/** What was asked for cannot be: every issue names the field that is wrong. */
export class SkillInputError extends Error {
  override readonly name = "SkillInputError";
  readonly issues: readonly InputIssue[];

  constructor(issues: readonly InputIssue[]) {
    super(issues.map(({ path, message }) => `${path}: ${message}`).join("; "));
    this.issues = issues;
  }

  static of(path: string, message: string): SkillInputError {
    return new SkillInputError([{ path, message }]);
  }
}

/** There is no such skill, tool or expert, or it cannot be changed here. */
export class SkillMissingError extends Error {
  override readonly name = "SkillMissingError";
  readonly what: "skill" | "skill_tool" | "expert";

  constructor(what: SkillMissingError["what"], message: string) {
    super(message);
    this.what = what;
  }
}

/** The skill lives in a folder: whoever wants to change it changes the folder. */
export class SkillReadOnlyError extends Error {
  override readonly name = "SkillReadOnlyError";
}

/** Networks of a company or a machine. Not among them is where clouds hand out credentials: that needs to be named. */
const privateRanges = [
  "127.0.0.0/8",
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "::1/128",
  "fc00::/7",
];

/** Where tools of skills may connect to although it is private. */
export function reachableRanges(
  named: readonly string[],
  { allowPrivateNetwork = false }: { readonly allowPrivateNetwork?: boolean },
  environment: NodeJS.ProcessEnv,
): string[] {
  const isAllowed =
    allowPrivateNetwork || /^(1|true|yes|on)$/i.test(environment.TOOLRACK_ALLOW_PRIVATE_NETWORK ?? "");
  return isAllowed ? [...named, ...privateRanges] : [...named];
}

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

import { randomUUID } from "node:crypto";
import { lstatSync } from "node:fs";
import { mkdir, realpath, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { asRecord, defined, reasonOf } from "../helpers/index.ts";
import type { SkillFile } from "../store/index.ts";
import {
  otherFiles,
  readSkillFile,
  readSkillFiles,
  skillMetadataKeys,
  writeSkillFiles,
  writeSkillText,
} from "./folder.ts";
import { writeToolsFile } from "./folder-tools.ts";
import { type LoadedSkill, shortHash, slugOf } from "./skill.ts";
import type { SkillLibrary } from "./skill-library.ts";

interface Exported {
  /** The absolute paths of the written folders, in the order of the skills. */
  readonly folders: readonly string[];
  /** Skills that could not be exported; all others were. */
  readonly failed: readonly { readonly name: string; readonly reason: string }[];
}

/** Writes each skill as a folder below `parent`, under a name that no other skill of the library has. */
export async function exportSkills(
  library: SkillLibrary,
  skills: readonly LoadedSkill[],
  parent: string,
  { replace = false }: { readonly replace?: boolean } = {},
): Promise<Exported> {
  const names = folderNames(library.list());
  const folders: string[] = [];
  const failed: { name: string; reason: string }[] = [];
  for (const skill of skills) {
    const options = { replace, ...defined({ name: names.get(skill.id) }) };
    await exportSkill(skill, () => library.filesOf(skill), parent, options).then(
      (folder) => folders.push(folder),
      (thrown) => failed.push({ name: skill.name, reason: reasonOf(thrown) }),
    );
  }
  return { folders, failed };
}

const LONGEST_NAME = 64;

/** The name of a skill as lower-case letters, digits and dashes. */
function folderNameOf({ name, frontMatter }: Pick<LoadedSkill, "name" | "frontMatter">): string {
  const written = typeof frontMatter.name === "string" ? frontMatter.name : name;
  const slug = /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(written) ? written : slugOf(written, "-");
  return slug.slice(0, LONGEST_NAME).replace(/-+$/, "");
}

/** The folder name of each skill by its id, with a hash of the id where several skills would share a name. */
export function folderNames(skills: readonly LoadedSkill[]): Map<string, string> {
  const sharing = Map.groupBy(skills, folderNameOf);
  return new Map(
    skills.map((skill) => {
      const name = folderNameOf(skill);
      if (sharing.get(name)!.length === 1) return [skill.id, name];
      const hash = shortHash(skill.id);
      const head = name.slice(0, LONGEST_NAME - hash.length - 1).replace(/-+$/, "");
      return [skill.id, `${head}-${hash}`];
    }),
  );
}

/** The `SKILL.md` of a skill. Fields that the format lacks are in `metadata`, so that nothing is lost. */
export function skillTextOf(skill: LoadedSkill, folderName = folderNameOf(skill)): Promise<string> {
  const { instructions: body, frontMatterText: source, id, name, mark, description, enabled } = skill;
  const { name: _name, metadata, ...rest } = skill.frontMatter;
  const own = {
    ...asRecord(metadata),
    [skillMetadataKeys.id]: id,
    ...(folderName !== name && { [skillMetadataKeys.title]: name }),
    ...defined({
      [skillMetadataKeys.mark]: mark,
      [skillMetadataKeys.sourcePath]: skill.owner === "folder" ? undefined : skill.sourcePath,
    }),
    ...(!enabled && { [skillMetadataKeys.enabled]: "false" }),
  };
  const frontMatter = { name: folderName, description, ...rest, metadata: own };
  return writeSkillText({ frontMatter, body, ...defined({ source }) });
}

/**
 * All files of a skill's folder, with a `SKILL.md` and `tools.json` made from its fields. `stored` reads the
 * other files of a skill in the database. Throws when there are too many files.
 */
export async function folderFiles(
  skill: LoadedSkill,
  stored: () => Promise<readonly SkillFile[]>,
  folderName: string,
): Promise<SkillFile[]> {
  const files = skill.owner === "folder" ? await readSkillFiles(skill.directory ?? "") : await stored();
  const own = (path: string, text: string) => ({ path, content: Buffer.from(text), executable: false });
  return [
    own("SKILL.md", await skillTextOf(skill, folderName)),
    ...(skill.tools.length > 0 ? [own("tools.json", writeToolsFile(skill.tools))] : []),
    ...otherFiles(files),
  ];
}

interface ExportOptions {
  readonly replace?: boolean;
  /** The folder's name. Default: made from the skill's name. */
  readonly name?: string;
}

/**
 * Writes a skill as a folder below `parent` and returns its path. Reading it again gives the same skill with the same
 * ids. An existing folder is refused, or replaced if `replace` is set and it is an export of this skill. The folder
 * appears complete or not at all.
 */
export async function exportSkill(
  skill: LoadedSkill,
  stored: () => Promise<readonly SkillFile[]>,
  parent: string,
  { replace = false, name = folderNameOf(skill) }: ExportOptions = {},
): Promise<string> {
  const folder = join(parent, name);
  const isThere = lstatSync(folder, { throwIfNoEntry: false }) !== undefined;
  if (isThere) await refuseOthers(folder, skill, replace);
  const files = await folderFiles(skill, stored, name);
  await mkdir(parent, { recursive: true });
  const fresh = join(parent, `.${name}-${randomUUID()}`);
  const old = join(parent, `.${name}-${randomUUID()}`);
  try {
    await mkdir(fresh);
    await writeSkillFiles(fresh, files);
    if (isThere) await rename(folder, old);
    await rename(fresh, folder).catch(async (thrown: unknown) => {
      if (isThere) await rename(old, folder);
      throw thrown;
    });
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  if (isThere) await rm(old, { recursive: true, force: true });
  return folder;
}

/** Throws unless the folder is an earlier export of the skill and `replace` is set. */
async function refuseOthers(folder: string, skill: LoadedSkill, replace: boolean): Promise<void> {
  const own = skill.owner === "folder" && (await realpath(skill.directory ?? "").catch(() => undefined));
  if (own !== undefined && own === (await realpath(folder).catch(() => undefined))) {
    throw new Error(`${folder} is there already. It is the skill's own folder.`);
  }
  if (!replace) throw new Error(`${folder} is there already.`);
  const text = lstatSync(folder).isDirectory()
    ? await readSkillFile(folder).catch(() => undefined)
    : undefined;
  if (asRecord(text?.frontMatter.metadata)[skillMetadataKeys.id] === skill.id) return;
  throw new Error(
    `${folder} is there already, and is no export of the skill "${skill.name}" (${skill.id}). Move it away, or export to another folder.`,
  );
}

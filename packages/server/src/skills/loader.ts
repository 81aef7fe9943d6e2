import { createHash } from "node:crypto";
import { readdir, realpath, stat } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import type { Unapproved } from "../access/index.ts";
import { defined, reasonOf } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { SkillStore, StoredSkill, StoredSkillTool } from "../store/index.ts";
import {
  findSkillFolders,
  listSkillFiles,
  materialise,
  readSkillFolder,
  type SkillFolder,
  tooManyFiles,
} from "./folder.ts";
import type { LoadedSkill } from "./skill.ts";

/** A folder with a `SKILL.md` that cannot be used. */
export interface FailedFolder {
  /** Relative to the workspace. */
  readonly folder: string;
  readonly reason: string;
}

interface SkillPlaces {
  /** Absolute. */
  readonly workspace: string;
  /** Absolute folders, each of whose folders may be a skill. */
  readonly folders: readonly string[];
  readonly sandbox: () => Promise<Sandbox>;
  /** Knows which folders wait for an admin because a tool call wrote them. Default: none. */
  readonly unapproved?: Pick<Unapproved, "skills" | "approveSkill">;
}

/** Reads skill folders. Unchanged folders are not read again. */
export class FolderReader {
  readonly #places: SkillPlaces;
  readonly #read = new Map<string, { revision: string; folder: SkillFolder | Error }>();

  constructor(places: SkillPlaces) {
    this.#places = places;
  }

  async readAll(): Promise<{ skills: LoadedSkill[]; failed: FailedFolder[] }> {
    const skills: LoadedSkill[] = [];
    const failed: FailedFolder[] = [];
    const directories = await findSkillFolders(this.#places.folders);
    const reasonUnapproved = await this.#places.unapproved?.skills();
    for (const known of this.#read.keys()) if (!directories.includes(known)) this.#read.delete(known);
    for (const directory of directories) {
      const unapprovedReason = await reasonUnapproved?.(directory);
      const revision = `${await revisionOf(directory)}${unapprovedReason === undefined ? "" : " not trusted"}`;
      const folder = await this.#readOne(directory, revision, unapprovedReason === undefined);
      const place = relative(this.#places.workspace, directory);
      if (folder instanceof Error) {
        failed.push({ folder: place, reason: folder.message });
        continue;
      }
      const existing = skills.find(({ id, name }) => id === folder.skill.id || name === folder.skill.name);
      if (existing !== undefined) {
        const reason = `Another folder has the skill "${existing.name}" already. Give one of them another name.`;
        failed.push({ folder: place, reason });
        continue;
      }
      skills.push(withTrust(toLoaded(folder, directory, place, revision), unapprovedReason));
    }
    return { skills, failed };
  }

  async #readOne(directory: string, revision: string, trusted: boolean): Promise<SkillFolder | Error> {
    const known = this.#read.get(directory);
    if (known?.revision === revision) return known.folder;
    const folder = await this.#readFolder(directory, trusted).catch(
      (thrown: unknown) => new Error(reasonOf(thrown)),
    );
    this.#read.set(directory, { revision, folder });
    return folder;
  }

  async #readFolder(directory: string, trusted: boolean): Promise<SkillFolder> {
    const folder = await readSkillFolder(directory, { sandbox: this.#places.sandbox, trusted });
    const { isWhole } = await listSkillFiles(directory);
    return isWhole ? folder : { ...folder, warnings: [...folder.warnings, tooManyFiles] };
  }
}

function toLoaded(
  { skill, tools, warnings }: SkillFolder,
  directory: string,
  place: string,
  revision: string,
): LoadedSkill {
  const time = 0;
  return {
    description: "",
    instructions: "",
    frontMatter: {},
    enabled: true,
    ...skill,
    sourcePath: place,
    trusted: true,
    createdAt: time,
    updatedAt: time,
    owner: "folder",
    directory,
    revision,
    warnings,
    tools: tools.map((tool) => ({
      description: "",
      usage: "",
      enabled: true,
      ...tool,
      skillId: skill.id,
      createdAt: time,
      updatedAt: time,
    })),
  };
}

/** A skill whose folder a tool call wrote is untrusted until an admin trusts it. */
export function withTrust(skill: LoadedSkill, unapprovedReason: string | undefined): LoadedSkill {
  if (unapprovedReason === undefined) return skill;
  const warning = `${unapprovedReason} It has no network and no secrets until an admin trusts it: toolrack skills trust "${skill.name}"`;
  return { ...skill, trusted: false, warnings: [...skill.warnings, warning] };
}

/** When a folder and the tables have the same skill, the one in the tables counts, and the folder is reported. */
export function withOneOwner(
  inFolders: readonly LoadedSkill[],
  stored: readonly LoadedSkill[],
): { skills: LoadedSkill[]; shadowed: FailedFolder[] } {
  const ids = new Set(stored.map(({ id }) => id));
  const names = new Set(stored.map(({ name }) => name));
  const isShadowed = ({ id, name }: LoadedSkill) => ids.has(id) || names.has(name);
  return {
    skills: [...inFolders.filter((skill) => !isShadowed(skill)), ...stored],
    shadowed: inFolders.filter(isShadowed).map(({ name, sourcePath = "" }) => ({
      folder: sourcePath,
      reason: `The database has the skill "${name}", and a skill has one owner. Delete one of the two.`,
    })),
  };
}

/** A skill of the tables with its tools. Its files are written to a folder where scripts find them. */
export async function loadStoredSkill(
  skill: StoredSkill,
  tools: readonly StoredSkillTool[],
  store: Pick<SkillStore, "listFiles">,
  workspace: string,
): Promise<LoadedSkill> {
  const warnings: string[] = [];
  const directory = await directoryOf(skill, tools, store, workspace).catch((thrown: Error) => {
    warnings.push(thrown.message);
    return undefined;
  });
  return {
    ...skill,
    owner: "database",
    ...defined({ directory }),
    // The files need not count: their content is part of the folder's name.
    revision: `${skill.updatedAt}`,
    warnings,
    tools,
  };
}

async function directoryOf(
  { id, sourcePath, trusted }: StoredSkill,
  tools: readonly StoredSkillTool[],
  store: Pick<SkillStore, "listFiles">,
  workspace: string,
): Promise<string | undefined> {
  if (!tools.some(({ type }) => type === "script")) return undefined;
  const files = await store.listFiles(id);
  if (files.length > 0) return materialise(join(workspace, ".toolrack", "skills"), id, files);
  if (sourcePath === undefined) return undefined;
  if (!trusted) throw new Error(`Its scripts are given the folder ${sourcePath} once the skill is trusted.`);
  return folderInWorkspace(sourcePath, workspace);
}

/** Scripts see the whole folder, so it must be inside the workspace, and not hold the server's settings. */
async function folderInWorkspace(sourcePath: string, workspace: string): Promise<string> {
  const [root, real] = await Promise.all([
    realpath(workspace),
    realpath(resolve(workspace, sourcePath)).catch(() => undefined),
  ]);
  if (real === undefined) throw new Error(`Its folder ${sourcePath} does not exist.`);
  const inside = relative(root, real);
  if (inside === "" || inside.startsWith("..") || inside.split(sep)[0] === ".toolrack") {
    throw new Error(`Its folder ${sourcePath} must be a folder inside the workspace.`);
  }
  return real;
}

/** A hash that changes whenever a file in the folder does. */
async function revisionOf(directory: string): Promise<string> {
  const hash = createHash("sha256");
  const names = await readdir(directory, { recursive: true }).catch(() => []);
  for (const name of names.sort()) {
    const found = await stat(join(directory, name)).catch(() => undefined);
    if (found?.isFile()) hash.update(`${name}\0${found.size}\0${found.mtimeMs}\0${found.ino}\0`);
  }
  return hash.digest("hex");
}

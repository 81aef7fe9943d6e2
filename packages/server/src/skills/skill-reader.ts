import { createHash } from "node:crypto";
import { realpath, stat } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Unapproved } from "../access/index.ts";
import { defined, inSlices } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { SkillStore, StoredSkill, StoredSkillTool } from "../store/index.ts";
import {
  findSkillFolders,
  listSkillFiles,
  materialise,
  otherFiles,
  readFirstSkillFiles,
  readSkillFolder,
  type SkillFolder,
  tooManyFiles,
} from "./folder.ts";
import { type LoadedSkill, type SkillReason, skillReasonOf } from "./skill.ts";
import type { InstallPackages } from "./skill-packages.ts";

/** A folder with a `SKILL.md` that cannot be used. */
export interface FailedFolder extends SkillReason {
  /** Relative to the workspace. */
  readonly folder: string;
}

interface SkillPlaces {
  /** The absolute path of the workspace. */
  readonly workspace: string;
  /** Absolute paths of folders whose subfolders may be skills. */
  readonly folders: readonly string[];
  readonly store: SkillStore | undefined;
  readonly sandbox: () => Promise<Sandbox>;
  readonly install: InstallPackages;
  /** Whether nothing may be written into the workspace: then scripts run from the skills' folders themselves. */
  readonly isTemporary: boolean;
  /** Knows the folders that a tool call wrote and no admin has approved. Default: there are none. */
  readonly unapproved: Pick<Unapproved, "skills"> | undefined;
}

interface GoodFolder extends SkillFolder {
  /** The hash of the files that this version was read from. */
  readonly revision: string;
  readonly code: string | undefined;
}

/** What is known of a folder, whose files had the hash `revision` when it was last read. */
interface KnownFolder {
  readonly revision: string;
  /** The last version that could be read and whose module could be loaded. */
  readonly good?: GoodFolder;
  /** Why the folder's present version is not the good one. */
  readonly problem?: SkillReason;
}

type SkillRows = readonly [StoredSkill, readonly StoredSkillTool[]];

/** Reads the skills of folders and of the database. A skill that has not changed is not read again. */
export class SkillReader {
  readonly #places: SkillPlaces;
  readonly #folders = new Map<string, KnownFolder>();
  /** Skills of the database by their id, with the rows that they were made from. */
  readonly #stored = new Map<string, { rows: SkillRows; skill: LoadedSkill }>();
  /** All skills of the database, in their order. */
  #lastStored: readonly LoadedSkill[] = [];

  constructor(places: SkillPlaces) {
    this.#places = places;
  }

  /**
   * The skills of folders first, then those of the database. When a folder and the database have the same
   * skill, the one in the database counts, and the folder is reported in `failed`. `areRowsSame`: the rows of all skills
   * are as they were when last read.
   */
  async readAll({ areRowsSame = false } = {}): Promise<{ skills: LoadedSkill[]; failed: FailedFolder[] }> {
    const reasonUnapproved = await this.#places.unapproved?.skills();
    if (!areRowsSame) this.#lastStored = await this.#readStored();
    const stored = this.#lastStored;
    const skills: LoadedSkill[] = [];
    const failed: FailedFolder[] = [];
    const directories = await findSkillFolders(this.#places.folders);
    for (const known of this.#folders.keys()) if (!directories.includes(known)) this.#folders.delete(known);
    for (const directory of directories) {
      const isTrusted = (await reasonUnapproved?.(directory)) === undefined;
      const revision = `${await revisionOf(directory)}${isTrusted ? "" : " not trusted"}`;
      const { good: read, problem } = await this.#readFolder(directory, revision, isTrusted);
      const folder = relative(this.#places.workspace, directory);
      if (problem !== undefined) {
        const { reason, code, details } = problem;
        const rest = read === undefined ? "" : " Its last good version goes on serving until this is mended.";
        const whole = { ...details, isServed: read !== undefined };
        failed.push({ folder, reason: `${reason}${rest}`, code, details: whole });
      }
      if (read === undefined) continue;
      const isSame = ({ id, name }: LoadedSkill) => id === read.skill.id || name === read.skill.name;
      const inTables = stored.find(isSame);
      const inFolder = skills.find(isSame);
      if (inTables !== undefined) {
        const reason = `The database has the skill "${read.skill.name}", and a skill has one owner. Delete one of the two.`;
        failed.push({ folder, reason, code: "name_in_database", details: { name: read.skill.name } });
      } else if (inFolder !== undefined) {
        const reason = `Another folder has the skill "${inFolder.name}" already. Give one of them another name.`;
        failed.push({ folder, reason, code: "name_in_folder", details: { name: inFolder.name } });
      } else skills.push(toLoaded(read, directory, folder));
    }
    const all = [...skills, ...stored].map((skill) => withTrust(skill, reasonUnapproved));
    return { skills: await Promise.all(all), failed };
  }

  /**
   * The stored skill with one of its tools read again, which may be new or gone; there may be thousands of others.
   * `before`: the tool as the skill has it.
   */
  async readAgain(
    skill: LoadedSkill,
    toolId: string,
    before: StoredSkillTool | undefined,
  ): Promise<{ readonly skill: LoadedSkill; readonly tool: StoredSkillTool | undefined } | undefined> {
    const { store, unapproved } = this.#places;
    const row = await store?.get(skill.id);
    if (row === undefined) return undefined;
    const tool = await store?.getTool(toolId);
    const reasonUnapproved = await unapproved?.skills();
    this.#stored.delete(skill.id);
    // Changed in place, because a copy for each change of one tool would be a megabyte of garbage for every few changes of a
    // large skill. The list was made here, and nobody needs the old version any more.
    const tools = skill.tools as StoredSkillTool[];
    const fresh = tool === undefined ? [] : [tool];
    // A new tool is the last.
    if (before === undefined) tools.push(...fresh);
    else tools.splice(tools.indexOf(before), 1, ...fresh);
    // Without scripts, before and after the change, the skill has no folder.
    const mayHaveScripts =
      skill.directory !== undefined || skill.warnings.length > 0 || tool?.type === "script";
    const loaded = { ...(await this.readStored(row, mayHaveScripts ? tools : [])), tools };
    this.#lastStored = this.#lastStored.map((one) => (one.id === skill.id ? loaded : one));
    return { skill: await withTrust(loaded, reasonUnapproved), tool };
  }

  /** Makes the next `readAll` read all skills of the database again, with their files. */
  forgetStored(): void {
    this.#stored.clear();
  }

  /** Makes a skill from its rows in the database. Its files, if it has scripts, are written to a folder. */
  async readStored(skill: StoredSkill, tools: readonly StoredSkillTool[]): Promise<LoadedSkill> {
    const warnings: string[] = [];
    const directory = await this.#directoryOf(skill, tools).catch((thrown: Error) => {
      warnings.push(thrown.message);
      return undefined;
    });
    // The revision needs no hash of the stored files, because the name of their folder, `directory`, has one.
    const revision = `${skill.updatedAt}`;
    return { ...skill, owner: "database", ...defined({ directory }), revision, warnings, tools };
  }

  async #readStored(): Promise<LoadedSkill[]> {
    const { store } = this.#places;
    const skills = (await store?.list()) ?? [];
    const tools = new Map<string, StoredSkillTool[]>(skills.map(({ id }) => [id, []]));
    for await (const page of store?.toolPages() ?? []) {
      for (const tool of page) tools.get(tool.skillId)?.push(tool);
      await nextTurn();
    }
    const read: LoadedSkill[] = [];
    for (const skill of skills) read.push(await this.#readRows(skill, tools.get(skill.id)!));
    for (const id of this.#stored.keys()) if (!tools.has(id)) this.#stored.delete(id);
    return read;
  }

  async #readRows(skill: StoredSkill, tools: readonly StoredSkillTool[]): Promise<LoadedSkill> {
    const rows: SkillRows = [skill, tools];
    const known = this.#stored.get(skill.id);
    if (known !== undefined && (await areSame(known.rows, rows))) return known.skill;
    const loaded = await this.readStored(skill, tools);
    this.#stored.set(skill.id, { rows, skill: loaded });
    return loaded;
  }

  async #readFolder(directory: string, revision: string, trusted: boolean): Promise<KnownFolder> {
    const before = this.#folders.get(directory);
    if (before?.revision === revision) return before;
    const known = await this.#readVersion(directory, revision, trusted, before?.good).catch(
      (thrown: unknown): KnownFolder => ({
        revision,
        problem: skillReasonOf(thrown),
        ...defined({ good: before?.good }),
      }),
    );
    this.#folders.set(directory, known);
    return known;
  }

  async #readVersion(
    directory: string,
    revision: string,
    trusted: boolean,
    lastGood: GoodFolder | undefined,
  ): Promise<KnownFolder> {
    const { sandbox, install } = this.#places;
    const { isWhole } = await listSkillFiles(directory);
    // A workspace that cannot be written to has no copies.
    const code = isWhole ? await this.#copy(directory).catch(() => undefined) : undefined;
    // Parsing takes time, and finds nothing to fall back on at the first reading.
    const options = { sandbox, install, trusted, parsesModules: lastGood !== undefined };
    const read = await readSkillFolder(directory, { ...options, ...defined({ code }) });
    const warnings = isWhole ? read.warnings : [...read.warnings, tooManyFiles];
    // A module that stopped loading, as while it is being edited, leaves the last good version in place.
    const isStale = read.problem !== undefined && lastGood?.problem === undefined && lastGood !== undefined;
    if (isStale) return { revision, good: lastGood, ...defined({ problem: read.problem }) };
    return { revision, good: { ...read, warnings, revision, code } };
  }

  /** Copies the skill's files to a folder that never changes. Undefined when the skill has no scripts. */
  async #copy(directory: string): Promise<string | undefined> {
    const { workspace, isTemporary } = this.#places;
    if (isTemporary) return undefined;
    const { files } = await readFirstSkillFiles(directory);
    if (otherFiles(files).length === 0) return undefined;
    return materialise(join(workspace, ".toolrack", "skills"), directory, files);
  }

  async #directoryOf(
    { id, sourcePath, trusted }: StoredSkill,
    tools: readonly StoredSkillTool[],
  ): Promise<string | undefined> {
    const { store, workspace } = this.#places;
    if (!tools.some(({ type }) => type === "script")) return undefined;
    const files = (await store?.listFiles(id)) ?? [];
    if (files.length > 0) return materialise(join(workspace, ".toolrack", "skills"), id, files);
    if (sourcePath === undefined) return undefined;
    if (!trusted)
      throw new Error(`Its scripts are given the folder ${sourcePath} once the skill is trusted.`);
    return folderInWorkspace(sourcePath, workspace);
  }
}

async function areSame([skill, tools]: SkillRows, [other, others]: SkillRows): Promise<boolean> {
  if (tools.length !== others.length || !isDeepStrictEqual(skill, other)) return false;
  let isSame = true;
  await inSlices(tools.entries(), ([at, tool]) => {
    isSame &&= isDeepStrictEqual(tool, others[at]);
  });
  return isSame;
}

function toLoaded(
  { skill, tools, warnings, revision, code }: GoodFolder,
  directory: string,
  place: string,
): LoadedSkill {
  const usual = { description: "", enabled: true };
  const times = { createdAt: 0, updatedAt: 0 };
  return {
    ...{ ...usual, instructions: "", frontMatter: {} },
    ...skill,
    ...{ ...times, sourcePath: place, trusted: true, owner: "folder", directory, revision, warnings },
    ...defined({ code }),
    tools: tools.map((tool) => ({ ...usual, usage: "", ...tool, ...times, skillId: skill.id })),
  };
}

async function withTrust(
  skill: LoadedSkill,
  reasonUnapproved: ((directory: string) => Promise<string | undefined> | string | undefined) | undefined,
): Promise<LoadedSkill> {
  const { directory } = skill;
  const reason = directory === undefined ? undefined : await reasonUnapproved?.(directory);
  return reason === undefined ? skill : untrusted(skill, reason);
}

/** A skill whose folder a tool call wrote is untrusted until an admin trusts it. */
function untrusted(skill: LoadedSkill, reason: string): LoadedSkill {
  const warning = `${reason} It has no network and no secrets until an admin trusts it: toolrack skills trust "${skill.name}"`;
  return { ...skill, trusted: false, warnings: [...skill.warnings, warning] };
}

/** Scripts see the whole folder, so it must be inside the workspace, and not hold the server's settings. */
async function folderInWorkspace(sourcePath: string, workspace: string): Promise<string> {
  const root = await realpath(workspace);
  const real = await realpath(resolve(workspace, sourcePath)).catch(() => undefined);
  if (real === undefined) throw new Error(`Its folder ${sourcePath} does not exist.`);
  const inside = relative(root, real);
  if (inside === "" || inside.startsWith("..") || inside.split(sep)[0] === ".toolrack") {
    throw new Error(`Its folder ${sourcePath} must be a folder inside the workspace.`);
  }
  return real;
}

/** A hash that changes whenever a file in the folder does, or packages are added to its `node_modules`. */
async function revisionOf(directory: string): Promise<string> {
  const hash = createHash("sha256");
  const { files } = await listSkillFiles(directory).catch(() => ({ files: [] }));
  for (const name of [...files.map(({ path }) => path), "node_modules"]) {
    const found = await stat(join(directory, name)).catch(() => undefined);
    if (found !== undefined) hash.update(`${name}\0${found.size}\0${found.mtimeMs}\0${found.ino}\0`);
  }
  return hash.digest("hex");
}

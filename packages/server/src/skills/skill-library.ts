import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Logger, ToolInfo, ToolRegistry } from "@toolrack/core";
import type { Unapproved } from "../access/index.ts";
import { defined, reasonOf } from "../helpers/index.ts";
import {
  type Following,
  type NewSkillTool,
  newId,
  type SeenVersion,
  type SkillBundle,
  type SkillChanges,
  type SkillFile,
  type SkillStore,
  type SkillToolChanges,
  type Store,
  type StoredSkillTool,
} from "../store/index.ts";
import type { SkillSurroundings } from "./checked-tool.ts";
import { Experts } from "./experts.ts";
import { otherFiles, pruneMaterialised, readFirstSkillFiles } from "./folder.ts";
import { foldersNamedIn } from "./script-command.ts";
import {
  checkPaths,
  checkSkill,
  checkToolFields,
  type LoadedSkill,
  missingSkill,
  missingTool,
  namingField,
  SkillInputError,
  SkillReadOnlyError,
  type ToolNames,
  withFiles,
} from "./skill.ts";
import type { InstallPackages } from "./skill-packages.ts";
import { type FailedFolder, SkillReader } from "./skill-reader.ts";
import { SkillSource } from "./skill-source.ts";
import { adaptSkillTool } from "./tool.ts";
import { UsageError } from "./tool-usage.ts";

export interface SkillLibraryOptions {
  readonly registry: ToolRegistry;
  /** Without a store, only folders have skills, and nothing can be changed. */
  readonly store?: Pick<Store, "skills" | "experts" | "registryVersion" | "follower">;
  /** The absolute path of the workspace. */
  readonly workspace: string;
  /** Absolute paths of folders whose subfolders may be skills. */
  readonly folders: readonly string[];
  readonly names: ToolNames;
  /** Knows the folders that a tool call wrote and no admin has approved. Default: there are none. */
  readonly unapproved?: Pick<Unapproved, "skills" | "approveSkill">;
  readonly surroundings: Omit<SkillSurroundings, "registry" | "workspace">;
  /** Whether nothing may be written into the workspace. Default false. */
  readonly isTemporary?: boolean;
  readonly logger: Logger;
}

/** All skills of a workspace. The promise of a change resolves when the change is on the rack. */
export class SkillLibrary {
  readonly experts: Experts;
  readonly #options: SkillLibraryOptions;
  readonly #surroundings: SkillSurroundings;
  readonly #source: SkillSource;
  readonly #reader: SkillReader;
  readonly #listeners = new Set<() => void>();
  #failed: readonly FailedFolder[] = [];
  #version = -1;
  /** A fingerprint of the skills' rows in the database at the last read. */
  #fingerprint: string | undefined;
  #pending: Promise<unknown> = Promise.resolve();
  /** Set while skills that `open` did not wait for are not on the rack. Never rejects. */
  loading: Promise<void> | undefined;
  /** Resolves to whether to load them; false when the library was closed first. */
  readonly #begun = Promise.withResolvers<boolean>();
  #following: Following | undefined;

  constructor(options: SkillLibraryOptions) {
    const { registry, workspace, folders, names, store, unapproved } = options;
    this.#options = options;
    this.#surroundings = { ...options.surroundings, registry, workspace };
    this.#source = new SkillSource(this.#surroundings, names);
    const { sandbox, install } = this.#surroundings;
    const parts = { sandbox, install, isTemporary: options.isTemporary ?? false };
    this.#reader = new SkillReader({ ...parts, workspace, folders, unapproved, store: store?.skills });
    this.experts = new Experts({
      registry,
      ...defined({ store: store?.experts }),
      skillId: (idOrName) => this.find(idOrName)?.id,
    });
  }

  /** Installs packages that skills declare. */
  get install(): InstallPackages {
    return this.#surroundings.install;
  }

  /** All skills: those of folders first, then those of the database. */
  list(): LoadedSkill[] {
    return [...this.#source.skills];
  }

  /** Finds a skill by its id, or else by its name. */
  find(idOrName: string): LoadedSkill | undefined {
    const { skills } = this.#source;
    return skills.find(({ id }) => id === idOrName) ?? skills.find(({ name }) => name === idOrName);
  }

  /** Like `find`, but throws `SkillMissingError`. */
  require(idOrName: string): LoadedSkill {
    const found = this.find(idOrName);
    if (found === undefined) throw missingSkill(idOrName);
    return found;
  }

  /** Why the tool could not be put on the rack; undefined when there was no problem. */
  failureOf(toolId: string): string | undefined {
    return this.#source.failureOf(toolId);
  }

  /** A skill without its tools, for lists. `failedTools`: how many of them cannot be used. */
  summaryOf(skill: LoadedSkill) {
    const { directory: _, code: __, revision: ___, frontMatterText: ____, tools, ...shown } = skill;
    const failedTools = tools.filter(({ id }) => this.failureOf(id) !== undefined).length;
    return { ...shown, toolCount: tools.length, failedTools };
  }

  /** Finds a tool of the skill by its id or name. Throws `SkillMissingError`. */
  requireTool(skill: LoadedSkill, idOrName: string): StoredSkillTool {
    const found =
      this.#source.toolOf(skill, idOrName) ??
      skill.tools.find(({ id, name }) => id === idOrName || name === idOrName);
    if (found === undefined) throw missingTool(skill, idOrName);
    return found;
  }

  /** A tool's name on the rack; undefined while it is not there. */
  nameOf(toolId: string): string | undefined {
    return this.failureOf(toolId) === undefined ? this.#options.registry.get(toolId)?.name : undefined;
  }

  failedFolders(): readonly FailedFolder[] {
    return this.#failed;
  }

  /** The skill's files without `SKILL.md` and `tools.json`; not all of them if its folder is too large. */
  async filesOf({ id, owner, directory }: LoadedSkill): Promise<SkillFile[]> {
    if (owner === "database") return this.#store().skills.listFiles(id);
    return directory === undefined ? [] : otherFiles((await readFirstSkillFiles(directory)).files);
  }

  /** Reads folders, tables and experts, and updates the rack. */
  reload(): Promise<void> {
    return this.#inTurn(() => this.#reload());
  }

  /**
   * Reads all skills for the first time. Resolves without them when there are very many and `isPatient` is false: then
   * `loading` is set until `beginLoading` was called and all of them are on the rack.
   */
  async open({ isPatient }: { readonly isPatient: boolean }): Promise<void> {
    const { store, logger } = this.#options;
    if (isPatient || !(await store?.skills.hasMoreTools(MOST_AT_START))) return this.reload();
    this.loading = this.#inTurn(async () => {
      if (await this.#begun.promise) await this.#reload();
    })
      .catch((error) => logger.error(`[skills] The skills could not be read: ${reasonOf(error)}`))
      .finally(() => {
        this.loading = undefined;
      });
  }

  beginLoading(): void {
    this.#begun.resolve(true);
  }

  /** Follows changes of other processes in the database until `close`. */
  follow(): void {
    const { store, logger } = this.#options;
    if (store === undefined || this.#following !== undefined) return;
    let lookCount = 0;
    const look = async (isAnnounced: boolean) => {
      const known = this.#fingerprint;
      this.#fingerprint ??= await store.skills.fingerprint();
      const isNewVersion = (await store.registryVersion.read()) !== this.#version;
      // Rows edited with a database client change no version. Checking for them costs more, so it is done every other
      // time, unless the database says that there is one.
      const isChecked = isNewVersion || isAnnounced || lookCount++ % 2 === 0;
      const isEdited = isChecked && (await store.skills.fingerprint()) !== this.#fingerprint;
      // Most new versions are of something else, such as a switch of a tool. A fingerprint that was taken just now says
      // nothing about the rows that were read before.
      const areRowsSame = known !== undefined && !isEdited;
      if (isNewVersion || isEdited) await this.#reload({ areRowsSame });
    };
    this.#following = store.follower.follow("skills", {
      refresh: (isAnnounced) => this.#inTurn(() => look(isAnnounced)),
      failed(error) {
        logger.warn(`Skills could not be read: ${reasonOf(error)}`);
      },
    });
    void this.#following.look();
    void this.#prune();
  }

  /** Deletes copies of code that no skill runs any more. */
  async #prune(): Promise<void> {
    await this.loading;
    const inUse = new Set(this.list().flatMap(({ directory, code }) => [directory ?? [], code ?? []].flat()));
    // A library that was closed, or could not read its skills, does not know which are in use.
    if (this.#version !== -1)
      await pruneMaterialised(join(this.#options.workspace, ".toolrack", "skills"), inUse);
  }

  async close(): Promise<void> {
    this.#begun.resolve(false);
    await this.#following?.stop();
    await this.#pending;
  }

  /** Calls the listener after every change, but not after a read that found nothing new. Returns a function that stops it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Adds a skill with its tools and files, all or nothing. Replaces a skill with the same id if `replace` is set. */
  async add(
    bundle: SkillBundle,
    { replace = false }: { readonly replace?: boolean } = {},
  ): Promise<LoadedSkill> {
    const added = await this.#change(async (skills) => {
      this.check(bundle);
      const { id } = bundle.skill;
      const isThere = replace && id !== undefined && (await skills.get(id)) !== undefined;
      return isThere ? skills.replace(id, bundle) : skills.add(bundle);
    });
    return this.require(added.id);
  }

  /** Throws `SkillInputError` for a bundle that `add` would refuse even without looking into the database. */
  check({ skill, tools, files }: SkillBundle): void {
    checkSkill(skill);
    for (const [position, tool] of tools.entries()) checkToolFields(tool, `tools[${position}].`);
    checkPaths(files.map(({ path }) => path));
    this.#refuseFolderDuplicate(skill);
  }

  /**
   * Changes a skill and its files, all or nothing. In `files`, null removes a file; files that are not named
   * stay. Throws `SkillChangedError` when the skill has changed since `version`.
   */
  async update(
    idOrName: string,
    changes: SkillChanges,
    files?: Readonly<Record<string, SkillFile | null>>,
    version?: SeenVersion,
  ): Promise<LoadedSkill> {
    const changed = await this.#change(async (skills) => {
      const { id, directory, owner } = this.require(idOrName);
      if (changes.trusted === true && directory !== undefined) {
        await this.#options.unapproved?.approveSkill(directory);
        // For a skill in a folder, only trust can be changed here.
        if (owner === "folder" && Object.keys(changes).length === 1 && files === undefined) {
          // Makes other processes on the workspace read the folder again.
          await this.#options.store?.registryVersion.bump();
          return id;
        }
      }
      this.#editable(idOrName);
      checkSkill(changes);
      if (changes.name !== undefined) this.#refuseFolderDuplicate({ name: changes.name });
      const next = files === undefined ? undefined : withFiles(await skills.listFiles(id), files);
      await skills.update(id, changes, next, version);
      return id;
    });
    return this.require(changed);
  }

  remove(idOrName: string): Promise<LoadedSkill> {
    return this.#change(async (skills) => {
      const skill = this.#editable(idOrName);
      await skills.remove(skill.id);
      return skill;
    });
  }

  addTool(idOrName: string, tool: NewSkillTool): Promise<StoredSkillTool> {
    return this.#changeTool(async (skills) => {
      const skill = this.#editable(idOrName);
      await this.#check(skill, tool);
      const added = await skills.addTool(skill.id, tool);
      if (added === undefined) throw missingSkill(idOrName);
      return added;
    });
  }

  /** Throws `SkillChangedError` when the tool has changed since `version`. */
  updateTool(
    skillId: string,
    toolId: string,
    changes: SkillToolChanges,
    version?: SeenVersion,
  ): Promise<StoredSkillTool> {
    return this.#changeTool(async (skills) => {
      const skill = this.#editable(skillId);
      const old = this.requireTool(skill, toolId);
      const entries = Object.entries({ ...old, ...changes }).filter(([, value]) => value !== null);
      // The cast is safe: null means that a field is removed, and without nulls the merged tool has this type.
      await this.#check(skill, Object.fromEntries(entries) as unknown as NewSkillTool);
      const updated = await skills.updateTool(old.id, changes, version);
      if (updated === undefined) throw missingTool(skill, toolId);
      return updated;
    });
  }

  removeTool(skillId: string, toolId: string): Promise<StoredSkillTool> {
    return this.#changeTool(async (skills) => {
      const tool = this.requireTool(this.#editable(skillId), toolId);
      await skills.removeTool(tool.id);
      return tool;
    });
  }

  /**
   * Makes a tool that is not saved, as it would be on the rack, but named `draft_{id}`. The caller registers
   * it to try it, and removes it again. Throws `SkillInputError`.
   */
  async draft(idOrName: string, tool: NewSkillTool): Promise<ToolInfo> {
    const id = newId();
    const info = await this.#check(this.require(idOrName), { ...tool, id });
    return { ...info, name: `draft_${id}`, aliases: [], disabled: false };
  }

  /** Folders outside the skill folders whose files the tools of skills run: writing there changes a skill. */
  usedFiles(): string[] {
    const { workspace } = this.#options;
    return this.list().flatMap(({ trusted, owner, directory, tools }) => {
      if (!trusted) return [];
      const own = owner === "database" && directory !== undefined ? [directory] : [];
      const scripts = tools.filter(({ type }) => type === "script");
      return [...own, ...scripts.flatMap(({ command }) => foldersNamedIn(command, workspace))];
    });
  }

  /** Returns the tool as it would be on the rack. Throws `SkillInputError` that names the field. */
  async #check(skill: LoadedSkill, tool: NewSkillTool): Promise<ToolInfo> {
    checkToolFields(tool);
    const usual = { id: newId(), description: "", usage: "", enabled: true, createdAt: 0, updatedAt: 0 };
    const candidate: StoredSkillTool = { ...usual, ...tool, skillId: skill.id };
    // A stored skill has a folder only if it has scripts. For its first script, its files are written to a
    // new folder.
    const placed = skill.owner === "database" ? await this.#reader.readStored(skill, [candidate]) : skill;
    try {
      return adaptSkillTool(placed, candidate, this.#surroundings, { names: "id", prefix: placed.id });
    } catch (thrown) {
      throw thrown instanceof UsageError ? SkillInputError.of(thrown.field, thrown.message) : thrown;
    }
  }

  /** Brings a change of one tool of a stored skill onto the rack, without a look at all others. */
  async #reloadTool({ id, skillId }: StoredSkillTool): Promise<void> {
    const { store } = this.#options;
    const version = (await store?.registryVersion.read()) ?? 0;
    const before = this.find(skillId);
    // Another process has changed skills too.
    const isAlone = version === this.#version + 1 && before?.id === skillId;
    const old = before && this.#source.toolOf(before, id);
    // A tool that is not on the rack could not be put there.
    const isKnown = old !== undefined || this.failureOf(id) === undefined;
    const read = isAlone && isKnown ? await this.#reader.readAgain(before, id, old) : undefined;
    if (read === undefined) return this.#reload({ isOwnChange: true });
    await this.#source.replaceTool(read.skill, id, read.tool);
    // Taken again at the next look: it is a hash of the rows of all skills.
    this.#fingerprint = undefined;
    this.#version = version;
    for (const listener of this.#listeners) listener();
  }

  async #reload({ isOwnChange = false, areRowsSame = false } = {}): Promise<void> {
    const { store, logger } = this.#options;
    const version = (await store?.registryVersion.read()) ?? 0;
    const before = { skills: this.#source.skills, failed: this.#failed, fingerprint: this.#fingerprint };
    if (this.#following !== undefined) this.#fingerprint = await store?.skills.fingerprint();
    // After a change that this library made itself, the rows alone show which skills have changed.
    if (!isOwnChange && !areRowsSame) this.#reader.forgetStored();
    const { skills, failed } = await this.#reader.readAll({ areRowsSame });
    const toText = ({ folder, reason }: FailedFolder) => `[skills] ${folder}: ${reason}`;
    const known = new Set(this.#failed.map(toText));
    this.#failed = failed;
    for (const complaint of failed.map(toText)) if (!known.has(complaint)) logger.warn(complaint);
    await this.#source.replaceAll(skills);
    await this.experts.load();
    this.#version = version;
    // Without a fingerprint, a change of the files of a stored skill cannot be seen.
    const areSameRows = this.#fingerprint !== undefined && this.#fingerprint === before.fingerprint;
    const isKnown = !isOwnChange && areSameRows;
    if (isKnown && isDeepStrictEqual(withoutRows(skills, failed), withoutRows(before.skills, before.failed)))
      return;
    for (const listener of this.#listeners) listener();
  }

  #store(): NonNullable<SkillLibraryOptions["store"]> {
    const { store } = this.#options;
    if (store === undefined) throw new Error("Skills can only be changed where a store is open.");
    return store;
  }

  #editable(idOrName: string): LoadedSkill {
    const skill = this.require(idOrName);
    if (skill.owner === "database") return skill;
    throw new SkillReadOnlyError(
      `The skill "${skill.name}" lives in the folder ${skill.sourcePath}. Change it there, or import the folder and delete it.`,
    );
  }

  #refuseFolderDuplicate({ id, name }: { readonly id?: string; readonly name?: string }): void {
    const duplicate = this.#source.skills.find(
      (skill) => skill.owner === "folder" && (skill.id === id || skill.name === name),
    );
    if (duplicate === undefined) return;
    throw SkillInputError.of(
      "name",
      `The folder ${duplicate.sourcePath} has the skill "${duplicate.name}", and a skill has one owner.`,
    );
  }

  /** Changes the tables, then the rack. */
  #change<Written>(write: (skills: SkillStore) => Promise<Written>): Promise<Written> {
    return this.#inTurn(async () => {
      const written = await namingField(write(this.#store().skills));
      await this.#reload({ isOwnChange: true });
      return written;
    });
  }

  /** Like `#change`, for a change of one tool. */
  #changeTool(write: (skills: SkillStore) => Promise<StoredSkillTool>): Promise<StoredSkillTool> {
    return this.#inTurn(async () => {
      const written = await namingField(write(this.#store().skills));
      await this.#reloadTool(written);
      return written;
    });
  }

  /** Runs changes and reloads one after another, so that the rack is never behind the tables. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const next = this.#pending.then(work);
    this.#pending = next.catch(() => {});
    return next;
  }
}

/** A start waits until so many tools of the database are on the rack: 25 to 50 ms. */
const MOST_AT_START = 1_000;

/** What may differ while the rows of the database are the same. There may be tens of thousands of them. */
function withoutRows(skills: readonly LoadedSkill[], failed: readonly FailedFolder[]): unknown {
  return [skills.map((skill) => (skill.owner === "folder" ? skill : { ...skill, tools: [] })), failed];
}

import { join } from "node:path";
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
  type SkillToolChanges,
  type Store,
  type StoredSkillTool,
} from "../store/index.ts";
import { Experts } from "./experts.ts";
import { otherFiles, pruneMaterialised, readFirstSkillFiles } from "./folder.ts";
import { type FailedFolder, FolderReader, loadStoredSkill, withOneOwner, withTrust } from "./loader.ts";
import type { SkillSurroundings } from "./ready-tool.ts";
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
import { SkillSource } from "./source.ts";
import { adaptSkillTool } from "./tool.ts";
import { UsageError } from "./usage.ts";

export interface SkillLibraryOptions {
  readonly registry: ToolRegistry;
  /** Without it, only folders have skills, and nothing can be changed. */
  readonly store?: Pick<Store, "skills" | "experts" | "registryVersion" | "follower">;
  /** Absolute. */
  readonly workspace: string;
  /** Absolute folders, each of whose folders may be a skill. */
  readonly folders: readonly string[];
  readonly names: ToolNames;
  /** Which folders a tool call wrote that no admin has approved. Default: none. */
  readonly unapproved?: Pick<Unapproved, "skills" | "approveSkill">;
  readonly surroundings: Omit<SkillSurroundings, "registry" | "workspace">;
  readonly logger: Logger;
}

/** All skills of a workspace, on the rack. Every change is on the rack when its promise resolves. */
export class SkillLibrary {
  readonly experts: Experts;
  readonly #options: SkillLibraryOptions;
  readonly #surroundings: SkillSurroundings;
  readonly #source: SkillSource;
  readonly #folders: FolderReader;
  readonly #listeners = new Set<() => void>();
  #failed: readonly FailedFolder[] = [];
  #version = -1;
  /** What the rows looked like when they were read last. */
  #fingerprint: string | undefined;
  #pending: Promise<unknown> = Promise.resolve();
  #following: Following | undefined;

  constructor(options: SkillLibraryOptions) {
    const { registry, workspace, folders, names, store, unapproved } = options;
    this.#options = options;
    this.#surroundings = { ...options.surroundings, registry, workspace };
    this.#source = new SkillSource(this.#surroundings, names);
    const { sandbox } = this.#surroundings;
    this.#folders = new FolderReader({ workspace, folders, sandbox, ...defined({ unapproved }) });
    this.experts = new Experts({
      registry,
      ...defined({ store: store?.experts }),
      skillId: (idOrName) => this.find(idOrName)?.id,
    });
  }

  /** Those of folders first; each group in its order. */
  list(): LoadedSkill[] {
    return this.#source.skills();
  }

  /** By its id, or by its name. */
  find(idOrName: string): LoadedSkill | undefined {
    return this.#source.get(idOrName) ?? this.list().find(({ name }) => name === idOrName);
  }

  /** The same for one that must be there: throws `SkillMissingError`. */
  require(idOrName: string): LoadedSkill {
    const found = this.find(idOrName);
    if (found === undefined) throw missingSkill(idOrName);
    return found;
  }

  /** Why a tool is not on the rack. */
  failureOf(toolId: string): string | undefined {
    return this.#source.failureOf(toolId);
  }

  /** By its id or name. Throws `SkillMissingError`. */
  requireTool(skill: LoadedSkill, idOrName: string): StoredSkillTool {
    const found = skill.tools.find(({ id, name }) => id === idOrName || name === idOrName);
    if (found === undefined) throw missingTool(skill, idOrName);
    return found;
  }

  /** What a tool is called by on the rack; undefined while it is not there. */
  nameOf(toolId: string): string | undefined {
    return this.#source.failureOf(toolId) === undefined
      ? this.#options.registry.get(toolId)?.name
      : undefined;
  }

  /** Folders with a `SKILL.md` that cannot be used. */
  failedFolders(): readonly FailedFolder[] {
    return this.#failed;
  }

  /** What lies beside its `SKILL.md`, `tools.json` not counted; of too many files, the first. */
  async filesOf({ id, owner, directory }: LoadedSkill): Promise<SkillFile[]> {
    if (owner === "database") return this.#store().skills.listFiles(id);
    return directory === undefined ? [] : otherFiles((await readFirstSkillFiles(directory)).files);
  }

  /** Brings the rack in step with folders, tables and experts. */
  reload(): Promise<void> {
    return this.#inTurn(() => this.#reload());
  }

  /** Follows what other processes change in the database, until it is closed. */
  follow(): void {
    const { store, logger } = this.#options;
    if (store === undefined || this.#following !== undefined) return;
    let looks = 0;
    const look = async () => {
      this.#fingerprint ??= await store.skills.fingerprint();
      const isCounted = (await store.registryVersion.read()) !== this.#version;
      // Rows that somebody edits with a client of the database count no version. Looking for them costs more.
      const isEdited = !isCounted && looks++ % 2 === 0 && (await this.#isEdited());
      if (isCounted || isEdited) await this.#reload();
    };
    this.#following = store.follower.follow("skills", {
      refresh: () => this.#inTurn(look),
      failed(error) {
        logger.warn(`Skills could not be read: ${reasonOf(error)}`);
      },
    });
    void this.#following.look();
    const inUse = new Set(this.list().flatMap(({ directory }) => directory ?? []));
    void pruneMaterialised(join(this.#options.workspace, ".toolrack", "skills"), inUse);
  }

  async close(): Promise<void> {
    await this.#following?.stop();
    await this.#pending;
  }

  /** Is told after every change, until the function that it answers is called. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** With tools and files, all or nothing; one with the same id is replaced when it is said so. */
  add(bundle: SkillBundle, { replace = false }: { readonly replace?: boolean } = {}): Promise<LoadedSkill> {
    return this.#inTurn(async () => {
      this.check(bundle);
      const { skill, tools, files } = bundle;
      const { skills } = this.#store();
      const exists = replace && skill.id !== undefined && (await skills.get(skill.id)) !== undefined;
      const write = exists
        ? skills.replace(skill.id!, { skill, tools, files })
        : skills.add({ skill, tools, files });
      return this.#show((await namingField(write)).id);
    });
  }

  /** Throws `SkillInputError` for what `add` would refuse whatever the tables hold. */
  check({ skill, tools, files }: SkillBundle): void {
    checkSkill(skill);
    for (const [position, tool] of tools.entries()) checkToolFields(tool, `tools[${position}].`);
    checkPaths(files.map(({ path }) => path));
    this.#refuseFolderTwin(skill);
  }

  /**
   * Of its files, null removes one, and others stay as they are. All is changed, or nothing. Throws `SkillChangedError`
   * when it is not the version that was seen.
   */
  update(
    idOrName: string,
    changes: SkillChanges,
    files?: Readonly<Record<string, SkillFile | null>>,
    version?: SeenVersion,
  ): Promise<LoadedSkill> {
    return this.#inTurn(async () => {
      const { directory } = this.require(idOrName);
      if (changes.trusted === true && directory !== undefined) {
        await this.#options.unapproved?.approveSkill(directory);
        // Of a skill in a folder, trust is all that can be changed here.
        if (this.#isTrustOfFolder(idOrName, changes, files)) return this.#reloadOne(idOrName);
      }
      const { id } = this.#editable(idOrName);
      const { skills } = this.#store();
      checkSkill(changes);
      if (changes.name !== undefined) this.#refuseFolderTwin({ name: changes.name });
      const next = files === undefined ? undefined : withFiles(await skills.listFiles(id), files);
      await namingField(skills.update(id, changes, next, version));
      return this.#show(id);
    });
  }

  remove(idOrName: string): Promise<LoadedSkill> {
    return this.#inTurn(async () => {
      const skill = this.#editable(idOrName);
      await this.#store().skills.remove(skill.id);
      this.#source.replaceAll(this.list().filter(({ id }) => id !== skill.id));
      await this.#written();
      return skill;
    });
  }

  addTool(idOrName: string, tool: NewSkillTool): Promise<StoredSkillTool> {
    return this.#inTurn(async () => {
      const skill = this.#editable(idOrName);
      await this.#check(skill, tool);
      const added = await namingField(this.#store().skills.addTool(skill.id, tool));
      await this.#show(skill.id);
      if (added === undefined) throw missingSkill(idOrName);
      return added;
    });
  }

  /** Throws `SkillChangedError` when it is not the version that was seen. */
  updateTool(
    skillId: string,
    toolId: string,
    changes: SkillToolChanges,
    version?: SeenVersion,
  ): Promise<StoredSkillTool> {
    return this.#inTurn(async () => {
      const skill = this.#editable(skillId);
      const old = this.requireTool(skill, toolId);
      const entries = Object.entries({ ...old, ...changes }).filter(([, value]) => value !== null);
      // Without what is null it is exactly that.
      await this.#check(skill, Object.fromEntries(entries) as unknown as NewSkillTool);
      const updated = await namingField(this.#store().skills.updateTool(old.id, changes, version));
      await this.#show(skill.id);
      if (updated === undefined) throw missingTool(skill, toolId);
      return updated;
    });
  }

  removeTool(skillId: string, toolId: string): Promise<StoredSkillTool> {
    return this.#inTurn(async () => {
      const skill = this.#editable(skillId);
      const tool = this.requireTool(skill, toolId);
      await this.#store().skills.removeTool(tool.id);
      await this.#show(skill.id);
      return tool;
    });
  }

  /**
   * A tool that is not saved, as it would be on the rack, under a name of its own. The caller registers it to try it, and
   * removes it again. Throws `SkillInputError`.
   */
  async draft(idOrName: string, tool: NewSkillTool): Promise<ToolInfo> {
    const skill = this.require(idOrName);
    const id = newId();
    const info = await this.#check(skill, { ...tool, id });
    return { ...info, name: `draft_${id}`, aliases: [], disabled: false };
  }

  #isTrustOfFolder(idOrName: string, changes: SkillChanges, files: object | undefined): boolean {
    const isOnly = Object.keys(changes).length === 1 && files === undefined;
    return isOnly && this.require(idOrName).owner === "folder";
  }

  async #reloadOne(idOrName: string): Promise<LoadedSkill> {
    // Other processes on the workspace read the folder again.
    await this.#options.store?.registryVersion.bump();
    await this.#reload();
    return this.require(idOrName);
  }

  /** Folders outside those of skills whose files its tools run: whoever writes there writes the skill. */
  usedFiles(): string[] {
    const { workspace } = this.#options;
    return this.list().flatMap(({ trusted, owner, directory, tools }) => {
      if (!trusted) return [];
      const own = owner === "database" && directory !== undefined ? [directory] : [];
      const scripts = tools.filter(({ type }) => type === "script");
      return [...own, ...scripts.flatMap(({ command }) => foldersNamedIn(command, workspace))];
    });
  }

  /** The tool as it would be on the rack. Throws `SkillInputError` that names the field. */
  async #check(skill: LoadedSkill, tool: NewSkillTool): Promise<ToolInfo> {
    checkToolFields(tool);
    const usual = { id: newId(), description: "", usage: "", enabled: true, createdAt: 0, updatedAt: 0 };
    const candidate: StoredSkillTool = { ...usual, ...tool, skillId: skill.id };
    const { workspace } = this.#options;
    // The first script of a skill is what brings its files to where scripts find them.
    const placed =
      skill.owner === "database"
        ? await loadStoredSkill(skill, [candidate], this.#store().skills, workspace)
        : skill;
    try {
      return adaptSkillTool(placed, candidate, this.#surroundings, { names: "id", prefix: placed.id });
    } catch (thrown) {
      throw thrown instanceof UsageError ? SkillInputError.of(thrown.field, thrown.message) : thrown;
    }
  }

  async #reload(): Promise<void> {
    const { store, logger } = this.#options;
    const version = (await store?.registryVersion.read()) ?? 0;
    if (this.#following !== undefined) this.#fingerprint = await store?.skills.fingerprint();
    const { skills: inFolders, failed } = await this.#folders.readAll();
    const stored = await this.#readStored();
    const { skills, shadowed } = withOneOwner(inFolders, stored);
    const known = new Set(this.#failed.map(({ folder, reason }) => `${folder}: ${reason}`));
    this.#failed = [...failed, ...shadowed];
    for (const complaint of this.#failed.map(({ folder, reason }) => `${folder}: ${reason}`)) {
      if (!known.has(complaint)) logger.warn(`[skills] ${complaint}`);
    }
    this.#source.replaceAll(skills);
    await this.experts.load();
    this.#version = version;
    this.#tell();
  }

  async #readStored(): Promise<LoadedSkill[]> {
    const { store, workspace } = this.#options;
    if (store === undefined) return [];
    const skills = await store.skills.list();
    const tools = Map.groupBy(await store.skills.listTools(), ({ skillId }) => skillId);
    return Promise.all(
      skills.map(async (skill) =>
        this.#withTrust(await loadStoredSkill(skill, tools.get(skill.id) ?? [], store.skills, workspace)),
      ),
    );
  }

  /** The tables may trust a skill whose folder a tool call has written since. */
  async #withTrust(skill: LoadedSkill): Promise<LoadedSkill> {
    const { directory } = skill;
    const heldBack = directory === undefined ? undefined : await this.#options.unapproved?.skills();
    return withTrust(skill, await heldBack?.(directory ?? ""));
  }

  /** Puts one skill on the rack as the tables have it now. */
  async #show(id: string): Promise<LoadedSkill> {
    const { skills } = this.#store();
    const stored = await skills.get(id);
    if (stored === undefined) throw missingSkill(id);
    const { workspace } = this.#options;
    const loaded = await this.#withTrust(
      await loadStoredSkill(stored, await skills.listTools(id), skills, workspace),
    );
    const all = this.list();
    const isNew = !all.some((skill) => skill.id === id);
    this.#source.replaceAll([
      ...all.map((skill) => (skill.id === id ? loaded : skill)),
      ...(isNew ? [loaded] : []),
    ]);
    await this.#written();
    return loaded;
  }

  /** After a change of our own, which the next look at the database need not take for somebody else's. */
  async #written(): Promise<void> {
    const version = await this.#store().registryVersion.read();
    if (version === this.#version + 1) this.#version = version;
    if (this.#following !== undefined) this.#fingerprint = await this.#store().skills.fingerprint();
    await this.experts.load();
    this.#tell();
  }

  async #isEdited(): Promise<boolean> {
    const fingerprint = await this.#store().skills.fingerprint();
    if (fingerprint === this.#fingerprint) return false;
    this.#fingerprint = fingerprint;
    return true;
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

  #refuseFolderTwin({ id, name }: { readonly id?: string; readonly name?: string }): void {
    const twin = this.list().find(
      (skill) => skill.owner === "folder" && (skill.id === id || skill.name === name),
    );
    if (twin === undefined) return;
    throw SkillInputError.of(
      "name",
      `The folder ${twin.sourcePath} has the skill "${twin.name}", and a skill has one owner.`,
    );
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Changes and reloads one after another: the rack is never behind the tables. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const next = this.#pending.then(work);
    this.#pending = next.catch(() => {});
    return next;
  }
}

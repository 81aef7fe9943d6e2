import type { ToolInfo, ToolRegistry } from "@toolrack/core";
import { isCanonicalName } from "@toolrack/core/internal";
import { problemOfToolPattern, toolMatcher } from "../config/index.ts";
import type { ExpertChanges, ExpertStore, NewExpert, SeenVersion, StoredExpert } from "../store/index.ts";
import { namingField, SkillInputError, SkillMissingError, skillToolInfo } from "./skill.ts";

/** An expert, and which tools it has at any moment. */
export interface Expert extends StoredExpert {
  /** Another one whenever `allows` may answer differently for a tool that has not changed. */
  readonly version: string;
  /** By what is decided of it when this is asked: a call that waited for hours is bound by that. One that is gone allows nothing. */
  allows(tool: ToolInfo): boolean;
  /** The enabled tools that it has now, in the rack's order. */
  list(): ToolInfo[];
}

export interface ExpertsParts {
  readonly registry: ToolRegistry;
  /** Without it there are none. */
  readonly store?: ExpertStore;
  /** The id of a skill by its id or name. */
  readonly skillId: (idOrName: string) => string | undefined;
}

/** It stands in addresses. A single `.` or `..` would lead elsewhere there. */
export const expertNamePattern = "^(?!\\.{1,2}$)[^/?#%\\s](?:[^/?#%]*[^/?#%\\s])?$";

/** The experts: named sets of tools. They are in memory, so that asking for one costs nothing. */
export class Experts {
  readonly #parts: ExpertsParts;
  readonly #listeners = new Set<() => void>();
  /** How often it was begun to read them, and which of those times they are of. */
  #begun = 0;
  #loaded = 0;
  #byId: ReadonlyMap<string, Expert> = new Map();
  #byName: ReadonlyMap<string, Expert> = new Map();
  #allowed: ReadonlyMap<string, (tool: ToolInfo) => boolean> = new Map();

  constructor(parts: ExpertsParts) {
    this.#parts = parts;
  }

  /** Reads them anew. */
  async load(): Promise<void> {
    const turn = ++this.#begun;
    const stored = (await this.#parts.store?.list()) ?? [];
    // One that began before and comes later may not know of what was changed in between.
    if (turn < this.#loaded) return;
    this.#loaded = turn;
    const all = stored.map((expert) => this.#toExpert(expert));
    this.#allowed = new Map(stored.map((expert) => [expert.id, allowedBy(expert)]));
    this.#byId = new Map(all.map((expert) => [expert.id, expert]));
    this.#byName = new Map(all.map((expert) => [expert.name.toLowerCase(), expert]));
    for (const listener of this.#listeners) listener();
  }

  /** Is told whenever they were read anew, until the function that it answers is called. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** In order of their making. */
  list(): Expert[] {
    return [...this.#byId.values()];
  }

  /** By its name, whatever the case, or by its id. */
  find(nameOrId: string): Expert | undefined {
    return this.#byName.get(nameOrId.toLowerCase()) ?? this.#byId.get(nameOrId);
  }

  /** The same for one that must be there: throws `SkillMissingError`. */
  require(nameOrId: string): Expert {
    const found = this.find(nameOrId);
    if (found === undefined) throw missing(nameOrId);
    return found;
  }

  /** By its id alone. */
  byId(id: string): Expert | undefined {
    return this.#byId.get(id);
  }

  /** Throws `SkillInputError` for a skill that does not exist or a name that is taken, also as another one's id. */
  async create(expert: NewExpert): Promise<Expert> {
    checkExpert(expert);
    this.#refuseAmbiguous(expert);
    const skills = this.#skillIds(expert.skills ?? []);
    const added = await namingField(this.#store().add({ ...expert, skills }));
    await this.load();
    return this.#requireId(added.id);
  }

  /** Throws `SkillChangedError` when it is not the version that was seen. */
  async update(nameOrId: string, changes: ExpertChanges, version?: SeenVersion): Promise<Expert> {
    const { id } = this.require(nameOrId);
    checkExpert(changes);
    this.#refuseAmbiguous({ id, ...changes });
    const skills = changes.skills === undefined ? {} : { skills: this.#skillIds(changes.skills) };
    const updated = await namingField(this.#store().update(id, { ...changes, ...skills }, version));
    await this.load();
    if (updated === undefined) throw missing(nameOrId);
    return this.#requireId(id);
  }

  async remove(nameOrId: string): Promise<Expert> {
    const expert = this.require(nameOrId);
    await this.#store().remove(expert.id);
    await this.load();
    return expert;
  }

  #requireId(id: string): Expert {
    const found = this.byId(id);
    if (found === undefined) throw missing(id);
    return found;
  }

  /** Experts are asked for by name or id: what is the one of this must not be the other of another. */
  #refuseAmbiguous({ id, name }: { readonly id?: string; readonly name?: string }): void {
    const others = this.list().filter((expert) => expert.id !== id);
    const isSame = (one: string, other: string | undefined) => one.toLowerCase() === other?.toLowerCase();
    const called = others.find((expert) => isSame(expert.id, name));
    if (called !== undefined) {
      throw SkillInputError.of("name", `It is the id of the expert "${called.name}". Choose another name.`);
    }
    const named = others.find((expert) => isSame(expert.name, id));
    if (named !== undefined && !this.#byId.has(id ?? "")) {
      throw SkillInputError.of("id", `It is the name of the expert "${named.name}". Choose another id.`);
    }
  }

  #store(): ExpertStore {
    const { store } = this.#parts;
    if (store === undefined) throw new Error("Experts need a store, and none is open.");
    return store;
  }

  #skillIds(skills: readonly string[]): string[] {
    return skills.map((skill, position) => {
      const id = this.#parts.skillId(skill);
      if (id !== undefined) return id;
      throw SkillInputError.of(`skills[${position}]`, `There is no skill "${skill}".`);
    });
  }

  #toExpert(stored: StoredExpert): Expert {
    const { registry } = this.#parts;
    const { id, skills, tools } = stored;
    const allows = (tool: ToolInfo): boolean => this.#allowed.get(id)?.(tool) === true;
    const version = JSON.stringify([id, skills, tools]);
    return { ...stored, version, allows, list: () => registry.list().filter(allows) };
  }
}

function allowedBy(stored: StoredExpert): (tool: ToolInfo) => boolean {
  const skills = new Set(stored.skills);
  const fits = toolMatcher(stored.tools);
  return (tool) => {
    const skill = skillToolInfo(tool);
    if (skill !== undefined && skills.has(skill.skillId)) return true;
    return fits(tool) || builtinAliases(tool).some((name) => fits({ name }));
  };
}

function checkExpert({ id, name, tools = [] }: Partial<Pick<NewExpert, "id" | "name" | "tools">>): void {
  for (const [position, pattern] of tools.entries()) {
    const problem = problemOfToolPattern(pattern);
    if (problem !== undefined) throw SkillInputError.of(`tools[${position}]`, problem);
  }
  if (id !== undefined && !isCanonicalName(id)) {
    throw SkillInputError.of("id", "It must be letters, digits, _ and -, at most 64.");
  }
  if (name === undefined) return;
  if ([...name].length > 64 || !new RegExp(expertNamePattern, "u").test(name)) {
    throw SkillInputError.of("name", "It must have 1 to 64 characters, none of them /, ?, # or %.");
  }
}

/**
 * Patterns speak of the name that a tool has on the rack, as the scopes of tokens do. Other names and titles are chosen by
 * whoever wrote the tool; only what built-in tools are also known by is given by the rack itself.
 */
function builtinAliases({ name, aliases = [] }: ToolInfo): readonly string[] {
  return name.startsWith("internal_") ? aliases.filter((alias) => alias.startsWith("builtin_")) : [];
}

function missing(nameOrId: string): SkillMissingError {
  return new SkillMissingError("expert", `There is no expert "${nameOrId}".`);
}

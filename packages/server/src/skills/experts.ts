import { isDeepStrictEqual } from "node:util";
import type { ToolInfo, ToolRegistry } from "@toolrack/core";
import { isCanonicalName } from "@toolrack/core/internal";
import { problemOfToolPattern, toolMatcher } from "../config/index.ts";
import type { ExpertChanges, ExpertStore, NewExpert, SeenVersion, StoredExpert } from "../store/index.ts";
import { namingField, SkillInputError, SkillMissingError, skillToolInfo } from "./skill.ts";

/** An expert, and which tools it has at any moment. */
export interface Expert extends StoredExpert {
  /** Changes whenever `allows` may return another result for an unchanged tool. */
  readonly version: string;
  /**
   * Whether the expert has the tool, by the expert's current definition, because a call may have waited for
   * hours. A deleted expert allows nothing.
   */
  allows(tool: ToolInfo): boolean;
  /** The expert's enabled tools, in the rack's order. */
  list(): ToolInfo[];
}

export interface ExpertsParts {
  readonly registry: ToolRegistry;
  /** Without a store there are no experts. */
  readonly store?: ExpertStore;
  /** Finds the id of a skill by its id or name. */
  readonly skillId: (idOrName: string) => string | undefined;
}

/** An expert's name is part of URLs, where `.` or `..` would lead elsewhere. */
export const expertNamePattern = "^(?!\\.{1,2}$)[^/?#%\\s](?:[^/?#%]*[^/?#%\\s])?$";

/** All experts, kept in memory. An expert is a named set of skills and tools. */
export class Experts {
  readonly #parts: ExpertsParts;
  readonly #listeners = new Set<() => void>();
  /** How many reads of the store have begun. The count is the number of the latest read. */
  #readsBegun = 0;
  /** The number of the read that the current experts came from. */
  #appliedRead = 0;
  #stored: readonly StoredExpert[] = [];
  /** The experts by id, in the order of their creation. */
  #experts: ReadonlyMap<string, Expert> = new Map();
  #allowed: ReadonlyMap<string, (tool: ToolInfo) => boolean> = new Map();

  constructor(parts: ExpertsParts) {
    this.#parts = parts;
  }

  async load(): Promise<void> {
    const read = ++this.#readsBegun;
    const stored = (await this.#parts.store?.list()) ?? [];
    // A read that began earlier but ends later may miss newer changes.
    if (read < this.#appliedRead) return;
    this.#appliedRead = read;
    if (isDeepStrictEqual(stored, this.#stored)) return;
    this.#stored = stored;
    this.#allowed = new Map(stored.map((expert) => [expert.id, allowedBy(expert)]));
    this.#experts = new Map(stored.map((expert) => [expert.id, this.#toExpert(expert)]));
    for (const listener of this.#listeners) listener();
  }

  /** Calls the listener after every change of an expert. Returns a function that stops it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  list(): Expert[] {
    return [...this.#experts.values()];
  }

  byId(id: string): Expert | undefined {
    return this.#experts.get(id);
  }

  /** Finds an expert by its name, in upper or lower case, or by its id. */
  find(nameOrId: string): Expert | undefined {
    const wanted = nameOrId.toLowerCase();
    return this.list().find(({ name }) => name.toLowerCase() === wanted) ?? this.byId(nameOrId);
  }

  /** Like `find`, but throws `SkillMissingError`. */
  require(nameOrId: string): Expert {
    const found = this.find(nameOrId);
    if (found === undefined) throw missing(nameOrId);
    return found;
  }

  /** Throws `SkillInputError` for an unknown skill, or a name that another expert has as its name or id. */
  async create(expert: NewExpert): Promise<Expert> {
    checkExpert(expert);
    this.#refuseAmbiguous(expert);
    const skills = this.#skillIds(expert.skills ?? []);
    const { id } = await namingField(this.#store().add({ ...expert, skills }));
    return this.#reloaded(id);
  }

  /** Throws `SkillChangedError` when the expert has changed since `version`. */
  async update(nameOrId: string, changes: ExpertChanges, version?: SeenVersion): Promise<Expert> {
    const { id } = this.require(nameOrId);
    checkExpert(changes);
    this.#refuseAmbiguous({ id, ...changes });
    const skills = changes.skills === undefined ? {} : { skills: this.#skillIds(changes.skills) };
    await namingField(this.#store().update(id, { ...changes, ...skills }, version));
    return this.#reloaded(id, nameOrId);
  }

  async remove(nameOrId: string): Promise<Expert> {
    const expert = this.require(nameOrId);
    await this.#store().remove(expert.id);
    await this.load();
    return expert;
  }

  async #reloaded(id: string, nameOrId = id): Promise<Expert> {
    await this.load();
    const found = this.byId(id);
    if (found === undefined) throw missing(nameOrId);
    return found;
  }

  /** Experts are found by name or id, so no expert's name may be another one's id. */
  #refuseAmbiguous({ id, name }: { readonly id?: string; readonly name?: string }): void {
    const others = this.list().filter((expert) => expert.id !== id);
    const isSame = (one: string, other: string | undefined) => one.toLowerCase() === other?.toLowerCase();
    const called = others.find((expert) => isSame(expert.id, name));
    if (called !== undefined) {
      throw SkillInputError.of("name", `It is the id of the expert "${called.name}". Choose another name.`);
    }
    const named = others.find((expert) => isSame(expert.name, id));
    if (named !== undefined && this.byId(id ?? "") === undefined) {
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
 * The aliases that patterns of experts match beside the tool's name: only the `builtin_` aliases, which the
 * rack itself gives. Other aliases and titles do not count, because the tool's author chooses them.
 */
function builtinAliases({ name, aliases = [] }: ToolInfo): readonly string[] {
  return name.startsWith("internal_") ? aliases.filter((alias) => alias.startsWith("builtin_")) : [];
}

function missing(nameOrId: string): SkillMissingError {
  return new SkillMissingError("expert", `There is no expert "${nameOrId}".`);
}

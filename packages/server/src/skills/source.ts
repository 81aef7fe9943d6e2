import type { ToolInfo, ToolRegistry } from "@toolrack/core";
import { reasonOf } from "../helpers/index.ts";
import type { StoredSkillTool } from "../store/index.ts";
import type { SkillSurroundings } from "./ready-tool.ts";
import { type LoadedSkill, namePrefixes, type ToolNames } from "./skill.ts";
import { adaptSkillTool } from "./tool.ts";

interface PlacedTool {
  readonly tool: StoredSkillTool;
  /** On the rack. */
  readonly name: string;
  /** Whether its row or the skill's row disables it. */
  readonly isOff: boolean;
}

interface PlacedSkill {
  readonly skill: LoadedSkill;
  /** The prefix of the readable names of its tools. */
  readonly prefix: string;
  /** By id, without those that failed. */
  readonly tools: Map<string, PlacedTool>;
  /** By the tool's id: why it is not on the rack. */
  readonly failures: Map<string, string>;
}

interface FreshTool {
  readonly tool: StoredSkillTool;
  readonly info: ToolInfo;
  readonly owner: PlacedSkill;
}

/** Publishes the tools of skills, each change in one step. A problem affects only its own tool. */
export class SkillSource {
  readonly #surroundings: SkillSurroundings;
  readonly #names: ToolNames;
  #placed: ReadonlyMap<string, PlacedSkill> = new Map();

  constructor(surroundings: SkillSurroundings, names: ToolNames) {
    this.#surroundings = surroundings;
    this.#names = names;
  }

  /** In the order in which they were given. */
  skills(): LoadedSkill[] {
    return [...this.#placed.values()].map(({ skill }) => skill);
  }

  get(id: string): LoadedSkill | undefined {
    return this.#placed.get(id)?.skill;
  }

  /** Why a tool is not on the rack. */
  failureOf(toolId: string): string | undefined {
    for (const { failures } of this.#placed.values()) {
      const failure = failures.get(toolId);
      if (failure !== undefined) return failure;
    }
    return undefined;
  }

  /** Replaces all skills. A skill that is the same object as before is left alone. */
  replaceAll(skills: readonly LoadedSkill[]): void {
    const { registry } = this.#surroundings;
    const before = this.#placed;
    const prefixes = namePrefixes(skills);
    const placed = skills.map((skill) => keepUnchanged(before.get(skill.id), skill, prefixes.get(skill.id)!));
    const staying = new Set(placed.flatMap(({ tools }) => [...tools.values()].map(({ name }) => name)));
    const leaving = [...before.values()]
      .flatMap(({ tools }) => [...tools.values()])
      .filter(({ name }) => !staying.has(name));
    const isFree = freeNames(
      registry,
      leaving.map(({ name }) => name),
    );
    const fresh = placed.flatMap((owner) =>
      before.get(owner.skill.id) === owner ? [] : this.#adaptMissing(owner, isFree),
    );
    this.#placed = new Map(placed.map((one) => [one.skill.id, one]));
    if (leaving.length === 0 && fresh.length === 0) return;
    const put = fresh.map(({ info }) => info);
    const refused = registry.apply({ remove: leaving.map(({ name }) => name), put });
    const reasons = new Map(refused.map(({ info, error }) => [info, error.message]));
    // The registry keeps a disabled tool disabled. A tool that its row disabled before and enables now must be enabled
    // here.
    const wasOff = new Set(leaving.filter(({ isOff }) => isOff).map(({ name }) => name));
    for (const { tool, info, owner } of fresh) {
      const { name, disabled } = info;
      const reason = reasons.get(info);
      if (reason !== undefined) owner.failures.set(tool.id, reason);
      else owner.tools.set(tool.id, { tool, name, isOff: disabled });
      if (!disabled && wasOff.has(name) && registry.get(name)?.disabled) registry.enable(name);
    }
  }

  #adaptMissing(owner: PlacedSkill, isFree: (name: string) => boolean): FreshTool[] {
    const { skill, prefix, tools, failures } = owner;
    return skill.tools.flatMap((tool): FreshTool[] => {
      if (tools.has(tool.id)) return [];
      try {
        const info = adaptSkillTool(skill, tool, this.#surroundings, { names: this.#names, prefix });
        return [{ tool, info: withFreeNames(info, tool.id, isFree), owner }];
      } catch (thrown) {
        failures.set(tool.id, reasonOf(thrown));
        return [];
      }
    });
  }
}

/** The skill with those of its tools that are already published and have not changed. */
function keepUnchanged(old: PlacedSkill | undefined, skill: LoadedSkill, prefix: string): PlacedSkill {
  if (old?.skill === skill && old.prefix === prefix) return old;
  const tools = new Map<string, PlacedTool>();
  if (old?.prefix === prefix && headOf(old.skill) === headOf(skill)) {
    for (const tool of skill.tools) {
      const known = old.tools.get(tool.id);
      // A builtin tool depends on its target, which may have changed.
      if (known === undefined || tool.type === "builtin") continue;
      if (JSON.stringify(known.tool) === JSON.stringify(tool)) tools.set(tool.id, known);
    }
  }
  return { skill, prefix, tools, failures: new Map() };
}

/** All of a skill but its tools. When it changes, all its tools are adapted again. */
function headOf({ tools: _tools, warnings: _warnings, ...head }: LoadedSkill): string {
  return JSON.stringify(head);
}

/** Checks whether a name is free once `leaving` are removed. A checked name counts as taken. */
function freeNames(registry: ToolRegistry, leaving: readonly string[]): (name: string) => boolean {
  const gone = new Set(leaving);
  const taken = new Set<string>();
  return (name) => {
    const key = name.toLowerCase();
    const holder = registry.get(name);
    if (taken.has(key) || (holder !== undefined && !gone.has(holder.name))) return false;
    taken.add(key);
    return true;
  };
}

/** Drops aliases that other tools have. Uses the id when another tool has the readable name. */
function withFreeNames(info: ToolInfo, id: string, isFree: (name: string) => boolean): ToolInfo {
  const name = isFree(info.name) || info.name === id ? info.name : id;
  const aliases = info.aliases?.filter((alias) => alias !== name && isFree(alias)) ?? [];
  return { ...info, name, aliases };
}

import type { ToolInfo } from "@toolrack/core";
import { reasonOf } from "../helpers/index.ts";
import type { SkillSurroundings } from "./checked-tool.ts";
import { type LoadedSkill, namePrefixes, shortHash, type ToolNames } from "./skill.ts";
import { adaptSkillTool } from "./tool.ts";

interface PlacedTool {
  /** The hash of all data that the tool was made from. */
  readonly hash: string;
  readonly name: string;
  /** Whether the tool's own row or its skill's row disables the tool. */
  readonly isOff: boolean;
}

interface PlacedSkill {
  readonly skill: LoadedSkill;
  readonly prefix: string;
  /** By their ids. */
  readonly tools: Map<string, PlacedTool>;
}

/** Puts the tools of skills on the rack, each change in one step. A wrong tool does not affect the others. */
export class SkillSource {
  readonly #surroundings: SkillSurroundings;
  readonly #names: ToolNames;
  /** The current skills, in the order in which `replaceAll` received them. */
  skills: readonly LoadedSkill[] = [];
  /** The tools on the rack, by the ids of their skills. */
  #placed: ReadonlyMap<string, PlacedSkill> = new Map();
  #failures: ReadonlyMap<string, string> = new Map();

  constructor(surroundings: SkillSurroundings, names: ToolNames) {
    this.#surroundings = surroundings;
    this.#names = names;
  }

  /** Why the tool could not be put on the rack; undefined when there was no problem. */
  failureOf(toolId: string): string | undefined {
    return this.#failures.get(toolId);
  }

  /** Replaces all skills. Tools that have not changed are left alone, and skills that are the same are not looked at. */
  replaceAll(skills: readonly LoadedSkill[]): void {
    const { registry } = this.#surroundings;
    const prefixes = namePrefixes(skills);
    const placed = new Map<string, PlacedSkill>();
    const failures = new Map<string, string>();
    const candidates = skills.flatMap((skill) => {
      const { tools, warnings: _warnings, ...head } = skill;
      const prefix = prefixes.get(skill.id)!;
      const before = this.#placed.get(skill.id);
      if (before !== undefined && isSame(before, skill, prefix)) {
        placed.set(skill.id, before);
        return [];
      }
      const headHash = shortHash(JSON.stringify([prefix, head]));
      const own = new Map<string, PlacedTool>();
      placed.set(skill.id, { skill, prefix, tools: own });
      return tools.flatMap((tool) => {
        const hash = shortHash(headHash + JSON.stringify(tool));
        const known = before?.tools.get(tool.id);
        // A builtin tool depends on its target, which may have changed.
        if (known?.hash !== hash || tool.type === "builtin") return [{ skill, tool, prefix, own, hash }];
        own.set(tool.id, known);
        return [];
      });
    });
    const leaving: PlacedTool[] = [];
    for (const [id, before] of this.#placed) {
      const now = placed.get(id);
      if (now === before) continue;
      for (const [toolId, tool] of before.tools) if (now?.tools.get(toolId) !== tool) leaving.push(tool);
    }
    const remove = leaving.map(({ name }) => name);
    const isFree = this.#freeNames(new Set(remove));
    const fresh = candidates.flatMap(({ skill, tool, prefix, own, hash }) => {
      try {
        const info = adaptSkillTool(skill, tool, this.#surroundings, { names: this.#names, prefix });
        return [{ info: withFreeNames(info, tool.id, isFree), toolId: tool.id, own, hash }];
      } catch (thrown) {
        failures.set(tool.id, reasonOf(thrown));
        return [];
      }
    });
    this.skills = skills;
    this.#placed = placed;
    this.#failures = failures;
    if (leaving.length === 0 && fresh.length === 0) return;
    const refused = registry.apply({ remove, put: fresh.map(({ info }) => info) });
    const reasons = new Map(refused.map(({ info, error }) => [info, error.message]));
    // A tool that replaces a disabled one of its name stays disabled in the registry. When its row disabled
    // the tool before and enables it now, the tool must be enabled here.
    const wasOff = new Set(leaving.flatMap(({ isOff, name }) => (isOff ? name : [])));
    for (const { info, toolId, own, hash } of fresh) {
      const { name, disabled } = info;
      const reason = reasons.get(info);
      if (reason !== undefined) failures.set(toolId, reason);
      else own.set(toolId, { hash, name, isOff: disabled });
      if (!disabled && wasOff.has(name) && registry.get(name)?.disabled) registry.enable(name);
    }
  }

  /**
   * Returns a function that tells whether a name is free once the tools in `leaving` are removed, and claims
   * a free name: from then on it counts as taken.
   */
  #freeNames(leaving: ReadonlySet<string>): (name: string) => boolean {
    const taken = new Set<string>();
    return (name) => {
      const key = name.toLowerCase();
      const holder = this.#surroundings.registry.get(name);
      if (taken.has(key) || (holder !== undefined && !leaving.has(holder.name))) return false;
      taken.add(key);
      return true;
    };
  }
}

/** Whether all tools of the skill are on the rack as they are now. A builtin tool depends on another tool. */
function isSame(before: PlacedSkill, skill: LoadedSkill, prefix: string): boolean {
  return (
    before.skill === skill &&
    before.prefix === prefix &&
    before.tools.size === skill.tools.length &&
    !skill.tools.some(({ type }) => type === "builtin")
  );
}

/** Drops aliases that other tools have. Uses the id when another tool has the readable name. */
function withFreeNames(info: ToolInfo, id: string, isFree: (name: string) => boolean): ToolInfo {
  const name = isFree(info.name) || info.name === id ? info.name : id;
  const aliases = info.aliases?.filter((alias) => alias !== name && isFree(alias)) ?? [];
  return { ...info, name, aliases };
}

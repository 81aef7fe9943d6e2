import { isDeepStrictEqual } from "node:util";
import type { ToolInfo } from "@toolrack/core";
import { reasonOf } from "../helpers/index.ts";
import type { StoredSkillTool } from "../store/index.ts";
import type { SkillSurroundings } from "./checked-tool.ts";
import { type LoadedSkill, namePrefixes, shortHash, type ToolNames } from "./skill.ts";
import { adaptSkillTool } from "./tool.ts";

interface PlacedTool {
  /** The row as it was last read. */
  tool: StoredSkillTool;
  readonly name: string;
  /** Whether the tool's own row or its skill's row disables the tool. */
  readonly isOff: boolean;
}

interface PlacedSkill {
  readonly skill: LoadedSkill;
  /** The skill without its tools, for what a tool keeps of it: every version of the skill has a list of all tools. */
  readonly head: LoadedSkill;
  readonly prefix: string;
  /** The hash of what the skill's tools have in common. */
  readonly headHash: string;
  /** By their ids. */
  readonly tools: Map<string, PlacedTool>;
  /** Tools that stand for another one, which may change. */
  readonly builtins: readonly StoredSkillTool[];
}

/** A tool that is to be put on the rack. */
interface Candidate {
  readonly tool: StoredSkillTool;
  readonly place: PlacedSkill;
}

/** Puts the tools of skills on the rack, each change in one step. A wrong tool does not affect the others. */
export class SkillSource {
  readonly #surroundings: SkillSurroundings;
  readonly #names: ToolNames;
  /** The current skills, in the order in which `replaceAll` received them. */
  skills: readonly LoadedSkill[] = [];
  /** The tools on the rack, by the ids of their skills. */
  #placed = new Map<string, PlacedSkill>();
  #failures = new Map<string, string>();

  constructor(surroundings: SkillSurroundings, names: ToolNames) {
    this.#surroundings = surroundings;
    this.#names = names;
  }

  /** Why the tool could not be put on the rack; undefined when there was no problem. */
  failureOf(toolId: string): string | undefined {
    return this.#failures.get(toolId);
  }

  /** A tool of the skill that is on the rack, by its id. */
  toolOf(skill: LoadedSkill, toolId: string): StoredSkillTool | undefined {
    const place = this.#placed.get(skill.id);
    return place?.skill === skill ? place.tools.get(toolId)?.tool : undefined;
  }

  /** Replaces all skills. Tools that have not changed are left alone, and skills that are the same are not looked at. */
  replaceAll(skills: readonly LoadedSkill[]): void {
    const prefixes = namePrefixes(skills);
    const placed = new Map<string, PlacedSkill>();
    const candidates = skills.flatMap((skill): Candidate[] => {
      const prefix = prefixes.get(skill.id)!;
      const before = this.#placed.get(skill.id);
      if (before !== undefined && isSame(before, skill, prefix)) {
        placed.set(skill.id, before);
        return [];
      }
      const builtins = skill.tools.filter(({ type }) => type === "builtin");
      const place = newPlace(skill, prefix, builtins);
      placed.set(skill.id, place);
      return skill.tools.flatMap((tool) => {
        const known = before?.tools.get(tool.id);
        const isKnown = before?.headHash === place.headHash && isDeepStrictEqual(known?.tool, tool);
        // A builtin tool depends on its target, which may have changed.
        if (known === undefined || !isKnown || tool.type === "builtin") return [{ tool, place }];
        known.tool = tool;
        place.tools.set(tool.id, known);
        return [];
      });
    });
    const leaving: PlacedTool[] = [];
    for (const [id, before] of this.#placed) {
      const now = placed.get(id);
      if (now === before) continue;
      for (const [toolId, tool] of before.tools) if (now?.tools.get(toolId) !== tool) leaving.push(tool);
    }
    this.skills = skills;
    this.#placed = placed;
    this.#failures = new Map();
    this.#put(candidates, leaving);
  }

  /**
   * Replaces a skill of which one tool is new, changed or, when `tool` is undefined, gone. Costs the same however many
   * tools there are.
   */
  replaceTool(skill: LoadedSkill, toolId: string, tool: StoredSkillTool | undefined): void {
    const skills = this.skills.map((one) => (one.id === skill.id ? skill : one));
    const before = this.#placed.get(skill.id);
    const builtins = (before?.builtins ?? []).filter(({ id }) => id !== toolId);
    if (tool?.type === "builtin") builtins.push(tool);
    const place = newPlace(skill, namePrefixes(skills).get(skill.id)!, builtins, before?.tools);
    // A tool that failed because of a name may have it now.
    if (before?.headHash !== place.headHash || this.#failures.size > 0) {
      this.replaceAll(skills);
      return;
    }
    this.skills = skills;
    this.#placed.set(skill.id, place);
    const gone = before.tools.get(toolId);
    before.tools.delete(toolId);
    this.#put(tool === undefined ? [] : [{ tool, place }], gone === undefined ? [] : [gone]);
    // Tools that stand for another one take its new shape.
    const others = [...this.#placed.values()].flatMap((other) =>
      other.builtins.flatMap((one) => (one.id === toolId ? [] : [{ tool: one, place: other }])),
    );
    this.#put(
      others,
      others.flatMap(({ tool: { id }, place: { tools } }) => tools.get(id) ?? []),
    );
  }

  #put(candidates: readonly Candidate[], leaving: readonly PlacedTool[]): void {
    const { registry } = this.#surroundings;
    const failures = this.#failures;
    const remove = leaving.map(({ name }) => name);
    const isFree = this.#freeNames(new Set(remove));
    const fresh = candidates.flatMap(({ tool, place }) => {
      try {
        const naming = { names: this.#names, prefix: place.prefix };
        const info = adaptSkillTool(place.head, tool, this.#surroundings, naming);
        return [{ info: withFreeNames(info, tool.id, isFree), tool, place }];
      } catch (thrown) {
        failures.set(tool.id, reasonOf(thrown));
        return [];
      }
    });
    if (leaving.length === 0 && fresh.length === 0) return;
    const refused = registry.apply({ remove, put: fresh.map(({ info }) => info) });
    const reasons = new Map(refused.map(({ info, error }) => [info, error.message]));
    // A tool that replaces a disabled one of its name stays disabled in the registry. When its row disabled
    // the tool before and enables it now, the tool must be enabled here.
    const wasOff = new Set(leaving.flatMap(({ isOff, name }) => (isOff ? name : [])));
    for (const { info, tool, place } of fresh) {
      const { name, disabled } = info;
      const reason = reasons.get(info);
      if (reason !== undefined) failures.set(tool.id, reason);
      else place.tools.set(tool.id, { tool, name, isOff: disabled });
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
    before.builtins.length === 0
  );
}

/** `tools`: those that are on the rack already. */
function newPlace(
  skill: LoadedSkill,
  prefix: string,
  builtins: readonly StoredSkillTool[],
  tools = new Map<string, PlacedTool>(),
): PlacedSkill {
  const head = { ...skill, tools: [], warnings: [] };
  return { skill, head, prefix, headHash: shortHash(JSON.stringify([prefix, head])), tools, builtins };
}

/** Drops aliases that other tools have. Uses the id when another tool has the readable name. */
function withFreeNames(info: ToolInfo, id: string, isFree: (name: string) => boolean): ToolInfo {
  const name = isFree(info.name) || info.name === id ? info.name : id;
  const aliases = info.aliases?.filter((alias) => alias !== name && isFree(alias)) ?? [];
  return { ...info, name, aliases };
}

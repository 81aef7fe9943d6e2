import { setImmediate as nextTurn } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { ToolInfo } from "@toolrack/core";
import { inSlices, reasonOf } from "../helpers/index.ts";
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

  /**
   * Replaces all skills. Tools that have not changed are left alone, and skills that are the same are not looked at. Must
   * not be called, nor `replaceTool`, before the last call is done.
   */
  async replaceAll(skills: readonly LoadedSkill[]): Promise<void> {
    const before = this.#placed;
    const placed = new Map<string, PlacedSkill>();
    const candidates: Candidate[] = [];
    await inSlices(changedTools(skills, before, placed), (candidate) => {
      if (candidate !== undefined) candidates.push(candidate);
    });
    const leaving = new Map<string, PlacedTool>();
    for (const [id, { tools }] of before) {
      const now = placed.get(id)?.tools;
      if (now === tools) continue;
      for (const [toolId, tool] of tools) if (now?.get(toolId) !== tool) leaving.set(toolId, tool);
    }
    this.skills = skills;
    this.#placed = placed;
    this.#failures = new Map();
    if (candidates.length + leaving.size <= MOST_AT_ONCE) this.#put(candidates, [...leaving.values()]);
    else await this.#putMany(candidates, leaving);
  }

  /**
   * Puts very many tools on the rack, some at a time, so that nothing else is held up. Each tool is replaced in one step.
   * A tool that finds one of its names taken may get it once all others have theirs, since some give up their old ones.
   */
  async #putMany(candidates: readonly Candidate[], leaving: Map<string, PlacedTool>): Promise<void> {
    const gone = new Map(leaving);
    for (const { tool } of candidates) gone.delete(tool.id);
    for (let names = [...gone.values()]; names.length > 0; await nextTurn())
      this.#put([], names.splice(-MOST_AT_ONCE));
    const putAll = async (all: readonly Candidate[], oldOf: (one: Candidate) => PlacedTool | undefined) => {
      const without: Candidate[] = [];
      for (let at = 0; at < all.length; at += MOST_AT_ONCE) {
        const some = all.slice(at, at + MOST_AT_ONCE);
        without.push(
          ...this.#put(
            some,
            some.flatMap((one) => oldOf(one) ?? []),
          ),
        );
        await nextTurn();
      }
      return without;
    };
    const without = await putAll(candidates, ({ tool }) => leaving.get(tool.id));
    if (leaving.size > 0) await putAll(without, ({ tool, place }) => place.tools.get(tool.id));
  }

  /**
   * Replaces a skill of which one tool is new, changed or, when `tool` is undefined, gone. Costs the same however many
   * tools there are.
   */
  async replaceTool(skill: LoadedSkill, toolId: string, tool: StoredSkillTool | undefined): Promise<void> {
    const skills = this.skills.map((one) => (one.id === skill.id ? skill : one));
    const before = this.#placed.get(skill.id);
    const builtins = (before?.builtins ?? []).filter(({ id }) => id !== toolId);
    if (tool?.type === "builtin") builtins.push(tool);
    const place = newPlace(skill, namePrefixes(skills).get(skill.id)!, builtins, before?.tools);
    // A tool that failed because of a name may have it now.
    if (before?.headHash !== place.headHash || this.#failures.size > 0) {
      await this.replaceAll(skills);
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

  /** Returns the tools that were not put there, or without one of their names. */
  #put(candidates: readonly Candidate[], leaving: readonly PlacedTool[]): Candidate[] {
    const { registry } = this.#surroundings;
    const failures = this.#failures;
    const remove = leaving.map(({ name }) => name);
    const isFree = this.#freeNames(new Set(remove));
    const without: Candidate[] = [];
    const fresh = candidates.flatMap((candidate) => {
      const { tool, place } = candidate;
      failures.delete(tool.id);
      try {
        const naming = { names: this.#names, prefix: place.prefix };
        const wanted = adaptSkillTool(place.head, tool, this.#surroundings, naming);
        const info = withFreeNames(wanted, tool.id, isFree);
        if (info.aliases?.length !== wanted.aliases?.length || info.name !== wanted.name)
          without.push(candidate);
        return [{ info, candidate }];
      } catch (thrown) {
        failures.set(tool.id, reasonOf(thrown));
        return [];
      }
    });
    if (leaving.length === 0 && fresh.length === 0) return without;
    const refused = registry.apply({ remove, put: fresh.map(({ info }) => info) });
    const reasons = new Map(refused.map(({ info, error }) => [info, error.message]));
    // A tool that replaces a disabled one of its name stays disabled in the registry. When its row disabled
    // the tool before and enables it now, the tool must be enabled here.
    const wasOff = new Set(leaving.flatMap(({ isOff, name }) => (isOff ? name : [])));
    for (const { info, candidate } of fresh) {
      const { name, disabled } = info;
      const { tool, place } = candidate;
      const reason = reasons.get(info);
      if (reason === undefined) place.tools.set(tool.id, { tool, name, isOff: disabled });
      else {
        failures.set(tool.id, reason);
        without.push(candidate);
      }
      if (!disabled && wasOff.has(name) && registry.get(name)?.disabled) registry.enable(name);
    }
    return without;
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

/** So many tools are put on the rack in one step. They take 5 ms, and 25 ms while the code is still cold. */
const MOST_AT_ONCE = 200;

/**
 * Makes the places of the skills. Gives for each of their tools the candidate, or undefined when the tool is on the rack as
 * it is now.
 */
function* changedTools(
  skills: readonly LoadedSkill[],
  placedBefore: ReadonlyMap<string, PlacedSkill>,
  placed: Map<string, PlacedSkill>,
): Generator<Candidate | undefined> {
  const prefixes = namePrefixes(skills);
  for (const skill of skills) {
    const prefix = prefixes.get(skill.id)!;
    const before = placedBefore.get(skill.id);
    if (before !== undefined && isSame(before, skill, prefix)) {
      placed.set(skill.id, before);
      continue;
    }
    const builtins = skill.tools.filter(({ type }) => type === "builtin");
    const place = newPlace(skill, prefix, builtins);
    placed.set(skill.id, place);
    for (const tool of skill.tools) {
      const known = before?.tools.get(tool.id);
      const isKnown = before?.headHash === place.headHash && isDeepStrictEqual(known?.tool, tool);
      // A builtin tool depends on its target, which may have changed.
      if (known === undefined || !isKnown || tool.type === "builtin") yield { tool, place };
      else {
        known.tool = tool;
        place.tools.set(tool.id, known);
        yield undefined;
      }
    }
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

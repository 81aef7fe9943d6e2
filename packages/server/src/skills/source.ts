import type { ToolInfo, ToolRegistry } from "@toolrack/core";
import type { StoredSkillTool } from "../store/index.ts";
import type { LoadedSkill } from "./folder.ts";
import { adaptSkillTool, type SkillSurroundings } from "./tool.ts";

import { namePrefixes, type ToolNames } from "./tools-file.ts";

export interface SkillSourceOptions {
  readonly surroundings: SkillSurroundings;
  readonly names: ToolNames;
}

interface HungTool {
  readonly tool: StoredSkillTool;
  /** On the rack. */
  readonly name: string;
  /** Whether its row, or that of the skill, switches it off. */
  readonly isOff: boolean;
}

interface HungSkill {
  readonly skill: LoadedSkill;
  /** What readable names of its tools begin with. */
  readonly prefix: string;
  /** By id; those that failed are not among them. */
  readonly tools: ReadonlyMap<string, HungTool>;
}

/** What is to become of one skill: tools that stay as they are, and those that are made anew. */
interface Plan {
  readonly skill: LoadedSkill;
  readonly prefix: string;
  readonly kept: readonly HungTool[];
  readonly fresh: readonly { readonly tool: StoredSkillTool; readonly info: ToolInfo }[];
}

/**
 * Keeps the rack in step with the skills: every change is one step, what has not changed stays as it is, and what is
 * wrong with one tool is noted for that tool alone. It has no opinion on where skills come from.
 */
export class SkillSource {
  readonly #options: SkillSourceOptions;
  readonly #hung = new Map<string, HungSkill>();
  /** By the tool's id: why it is not on the rack. */
  readonly #failures = new Map<string, string>();

  constructor(options: SkillSourceOptions) {
    this.#options = options;
  }

  /** In order of their hanging up. */
  skills(): LoadedSkill[] {
    return [...this.#hung.values()].map(({ skill }) => skill);
  }

  get(id: string): LoadedSkill | undefined {
    return this.#hung.get(id)?.skill;
  }

  failureOf(toolId: string): string | undefined {
    return this.#failures.get(toolId);
  }

  /** Puts these in the place of all that were there. */
  replaceAll(skills: readonly LoadedSkill[]): void {
    this.#hang([...this.#hung.keys()], skills);
  }

  put(skill: LoadedSkill): void {
    this.#hang([skill.id], [skill]);
  }

  remove(id: string): void {
    this.#hang([id], []);
  }

  #hang(asked: readonly string[], given: readonly LoadedSkill[]): void {
    const { registry } = this.#options.surroundings;
    const prefixes = this.#prefixes(asked, given);
    const renamed = this.#renamed(asked, prefixes);
    const leaving = [...asked, ...renamed.map(({ id }) => id)];
    const arriving = [...given, ...renamed];
    const prefixOf = ({ id }: LoadedSkill) => prefixes.get(id)!;
    const olds = leaving.flatMap((id) => this.#hung.get(id) ?? []);
    const kept = new Map(arriving.map((skill) => [skill, this.#unchanged(skill, prefixOf(skill))]));
    const staying = new Set([...kept.values()].flat().map(({ name }) => name));
    const left = olds.flatMap(({ tools }) => [...tools.values()]).filter(({ name }) => !staying.has(name));
    for (const { skill } of olds) for (const { id } of skill.tools) this.#failures.delete(id);

    const isFree = freeNames(
      registry,
      left.map(({ name }) => name),
    );
    const plans = arriving.map((skill) => this.#plan(skill, prefixOf(skill), kept.get(skill) ?? [], isFree));
    const put = plans.flatMap(({ fresh }) => fresh.map(({ info }) => info));
    if (left.length > 0 || put.length > 0) {
      const refused = registry.apply({ remove: left.map(({ name }) => name), put });
      const reasons = new Map(refused.map(({ info, error }) => [info, error.message]));
      this.#switchOn(left, put);
      for (const { tool, info } of plans.flatMap(({ fresh }) => fresh)) {
        const reason = reasons.get(info);
        if (reason !== undefined) this.#failures.set(tool.id, reason);
      }
    }
    // Those that arrive keep the place of those that they replace.
    const arrived = new Set(arriving.map(({ id }) => id));
    for (const id of leaving) if (!arrived.has(id)) this.#hung.delete(id);
    for (const plan of plans) this.#hung.set(plan.skill.id, this.#toHung(plan));
  }

  /** Of all skills that there will be. */
  #prefixes(leaving: readonly string[], arriving: readonly LoadedSkill[]): Map<string, string> {
    const gone = new Set(leaving);
    const staying = this.skills().filter(({ id }) => !gone.has(id));
    return namePrefixes([...staying, ...arriving]);
  }

  /** Skills that stay, but whose tools get other readable names because of those that come or go. */
  #renamed(leaving: readonly string[], prefixes: ReadonlyMap<string, string>): LoadedSkill[] {
    const gone = new Set(leaving);
    return [...this.#hung.values()]
      .filter(({ skill, prefix }) => !gone.has(skill.id) && prefixes.get(skill.id) !== prefix)
      .map(({ skill }) => skill);
  }

  /** Tools of a skill that is hung up already, with nothing about them that is new. */
  #unchanged(skill: LoadedSkill, prefix: string): HungTool[] {
    const old = this.#hung.get(skill.id);
    if (old === undefined || old.prefix !== prefix || headOf(old.skill) !== headOf(skill)) return [];
    return skill.tools.flatMap((tool) => {
      const hung = old.tools.get(tool.id);
      // One that stands for another tool is made of that one too, which may have changed.
      if (hung === undefined || tool.type === "builtin") return [];
      return JSON.stringify(hung.tool) === JSON.stringify(tool) ? [hung] : [];
    });
  }

  #plan(
    skill: LoadedSkill,
    prefix: string,
    kept: readonly HungTool[],
    isFree: (name: string) => boolean,
  ): Plan {
    const { surroundings, names } = this.#options;
    const staying = new Set(kept.map(({ tool }) => tool.id));
    const fresh = skill.tools.flatMap((tool) => {
      if (staying.has(tool.id)) return [];
      try {
        const info = adaptSkillTool(skill, tool, surroundings, { names, prefix });
        return [{ tool, info: withFreeNames(info, tool.id, isFree) }];
      } catch (thrown) {
        this.#failures.set(tool.id, thrown instanceof Error ? thrown.message : String(thrown));
        return [];
      }
    });
    return { skill, prefix, kept, fresh };
  }

  #toHung({ skill, prefix, kept, fresh }: Plan): HungSkill {
    const added = fresh
      .filter(({ tool }) => !this.#failures.has(tool.id))
      .map(({ tool, info }) => ({ tool, name: info.name, isOff: info.disabled }));
    return { skill, prefix, tools: new Map([...kept, ...added].map((hung) => [hung.tool.id, hung])) };
  }

  /** The rack keeps a tool off that was off. One that its row switched off and now switches on is meant to be on. */
  #switchOn(left: readonly HungTool[], arrived: readonly ToolInfo[]): void {
    const { registry } = this.#options.surroundings;
    const wasOff = new Set(left.filter(({ isOff }) => isOff).map(({ name }) => name));
    for (const { name, disabled } of arrived) {
      if (!disabled && wasOff.has(name) && registry.get(name)?.disabled) registry.enable(name);
    }
  }
}

/** All of a skill but its tools: when it changes, they all are new. */
function headOf({ tools: _tools, warnings: _warnings, ...head }: LoadedSkill): string {
  return JSON.stringify(head);
}

/** Whether a name is nobody's, once these have left. A name that was asked for is taken from then on. */
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

/** An alias that another tool has is given up; a readable name that another has gives way to the id. */
function withFreeNames(info: ToolInfo, id: string, isFree: (name: string) => boolean): ToolInfo {
  const name = isFree(info.name) || info.name === id ? info.name : id;
  const aliases = info.aliases?.filter((alias) => alias !== name && isFree(alias)) ?? [];
  return { ...info, name, aliases };
}

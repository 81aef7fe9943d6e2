import { setImmediate as nextTurn } from "node:timers/promises";
import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Following, Store, ToolSwitch } from "../store/index.ts";

interface ToolSwitchesParts {
  readonly registry: ToolRegistry;
  readonly store: Pick<Store, "toolSwitches" | "registryVersion" | "follower">;
  readonly logger: Logger;
  /** Knows the new names of a renamed tool. A tool that was switched off under its old name stays off under these. */
  readonly names?: { successorsOf(toolName: string): readonly string[] };
}

/**
 * The tools that operators switched on or off. A decision is on disk before it takes effect and survives restarts and
 * reloads. It also applies to a tool that is published later under the same name, in the same step in which that tool
 * appears.
 */
export class ToolSwitches {
  readonly #parts: ToolSwitchesParts;
  readonly #unsubscribe: () => void;
  readonly #following: Following;
  readonly #listeners = new Set<(decided: ToolSwitch) => void>();
  #decided: ReadonlyMap<string, ToolSwitch> = new Map();
  /** Counts the changes of `#decided`, whether made in this process or read from the store. */
  #changes = 0;
  #isApplying = false;
  /** Set when the registry or the decisions changed and have not been applied yet. */
  #isBehind = false;

  private constructor(parts: ToolSwitchesParts) {
    const { registry, store, logger } = parts;
    this.#parts = parts;
    this.#unsubscribe = registry.subscribe(() => this.#apply(), ["tools"]);
    this.#following = store.follower.follow("registry", {
      version: () => store.registryVersion.read(),
      refresh: () => this.refresh(),
      failed: (error) => logger.warn("What other processes switched could not be read:", error),
    });
  }

  /** Applies the stored decisions. Must be called before anybody can call a tool. */
  static async open(parts: ToolSwitchesParts): Promise<ToolSwitches> {
    const switches = new ToolSwitches(parts);
    await switches.refresh();
    return switches;
  }

  /** The decision about the tool with this canonical name. */
  get(toolName: string): ToolSwitch | undefined {
    return this.#decided.get(keyOf(toolName));
  }

  async set(toolName: string, enabled: boolean, by: string): Promise<void> {
    await this.setAll([toolName], enabled, by);
  }

  /** Some at a time, so that others are served in between. When some cannot be written, those before them take effect. */
  async setAll(toolNames: readonly string[], enabled: boolean, by: string): Promise<void> {
    for (let from = 0; from < toolNames.length; from += AT_ONCE) {
      const some = toolNames.slice(from, from + AT_ONCE);
      const decided = some.map((toolName) => ({ toolName, enabled, by, at: Date.now() }));
      await this.#parts.store.toolSwitches.set(...decided);
      this.#replace([...this.#decided.values(), ...decided], decided);
      await nextTurn();
    }
  }

  /** Calls the listener with each decision once it has taken effect. Returns a function that stops it. */
  subscribe(listener: (decided: ToolSwitch) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reads the decisions again, because another node may have made some. */
  async refresh(): Promise<void> {
    let changes: number;
    let decided: readonly ToolSwitch[];
    // When the decisions changed while the list was read, the list may be out of date and is read again.
    do {
      changes = this.#changes;
      decided = await this.#parts.store.toolSwitches.list();
    } while (changes !== this.#changes);
    const news = decided.filter(({ toolName, at }) => this.get(toolName)?.at !== at);
    this.#replace(decided, news);
  }

  close(): void {
    void this.#following.stop();
    this.#unsubscribe();
  }

  #replace(decided: readonly ToolSwitch[], news: readonly ToolSwitch[]): void {
    this.#changes++;
    this.#decided = new Map(decided.map((one) => [keyOf(one.toolName), one]));
    this.#apply();
    for (const one of news) for (const listener of this.#listeners) listener(one);
  }

  /** Changing the registry calls this again; the loop then runs once more instead of recursing. */
  #apply(): void {
    this.#isBehind = true;
    if (this.#isApplying) return;
    this.#isApplying = true;
    try {
      while (this.#isBehind) {
        this.#isBehind = false;
        for (const decided of this.#decided.values()) {
          this.#applyOne(decided);
          const { toolName, enabled } = decided;
          const successors = enabled ? [] : (this.#parts.names?.successorsOf(toolName) ?? []);
          for (const name of successors)
            if (this.get(name) === undefined) this.#applyOne({ ...decided, toolName: name });
        }
      }
    } finally {
      this.#isApplying = false;
    }
  }

  #applyOne({ toolName, enabled }: ToolSwitch): void {
    const { registry, logger } = this.#parts;
    const info = registry.get(toolName);
    // The decision is not about a tool that only has this name as an alias.
    if (info === undefined || keyOf(info.name) !== keyOf(toolName) || info.disabled !== enabled) return;
    // An operator cannot switch on a tool that another part of the rack keeps disabled for a stated reason.
    if (enabled && info.metadata.disabledReason !== undefined) return;
    registry.update(info.name, { disabled: !enabled });
    logger.debug(`${info.name} is ${enabled ? "enabled" : "disabled"}, as was decided before`);
  }
}

/** So many decisions are written and take effect in one go. */
const AT_ONCE = 100;

function keyOf(toolName: string): string {
  return toolName.toLowerCase();
}

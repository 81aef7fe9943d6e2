import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Following, Store, ToolSwitch } from "../store/index.ts";

export interface ToolSwitchesParts {
  readonly registry: ToolRegistry;
  readonly store: Pick<Store, "toolSwitches" | "registryVersion" | "follower">;
  readonly logger: Logger;
  /** Knows the new names of a renamed tool. A tool that was switched off under its old name stays off under these. */
  readonly names?: { successorsOf(toolName: string): readonly string[] } | undefined;
}

/**
 * The tools that operators switched on or off. A decision is on disk before it takes effect and survives restarts and
 * reloads. It also applies to a tool that is published later under the same name, in the same step in which that tool
 * appears.
 */
export class ToolSwitches {
  readonly #registry: ToolRegistry;
  readonly #store: ToolSwitchesParts["store"];
  readonly #logger: Logger;
  readonly #names: ToolSwitchesParts["names"];
  readonly #unsubscribe: () => void;
  readonly #following: Following;
  readonly #listeners = new Set<(decided: ToolSwitch) => void>();
  #decided: ReadonlyMap<string, ToolSwitch> = new Map();
  /** Numbers the reads of the decisions: how many have begun, and which one the current decisions came from. */
  #readsBegun = 0;
  #appliedRead = 0;
  #decisionCount = 0;
  #isApplying = false;
  /** Set when the registry or the decisions changed and have not been applied yet. */
  #isBehind = false;

  private constructor({ registry, store, logger, names }: ToolSwitchesParts) {
    this.#registry = registry;
    this.#store = store;
    this.#logger = logger;
    this.#names = names;
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

  async set(toolName: string, enabled: boolean, by: string): Promise<ToolSwitch> {
    const [decided] = await this.setAll([toolName], enabled, by);
    return decided!;
  }

  /** When one decision cannot be written, those before it take effect. */
  async setAll(toolNames: readonly string[], enabled: boolean, by: string): Promise<readonly ToolSwitch[]> {
    const written: ToolSwitch[] = [];
    try {
      for (const toolName of toolNames) {
        const decided = { toolName, enabled, by, at: Date.now() };
        await this.#store.toolSwitches.set(decided);
        written.push(decided);
      }
    } finally {
      this.#decisionCount++;
      const known = written.map((one) => [keyOf(one.toolName), one] as const);
      this.#decided = new Map([...this.#decided, ...known]);
      this.#apply();
      for (const one of written) this.#notify(one);
    }
    return written;
  }

  /** Calls the listener with each decision once it has taken effect. Returns a function that stops it. */
  subscribe(listener: (decided: ToolSwitch) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reads the decisions again, because another node may have made some. */
  async refresh(): Promise<void> {
    const read = ++this.#readsBegun;
    const decided = await this.#read();
    // A read that began earlier but ends later may miss newer decisions.
    if (read < this.#appliedRead) return;
    this.#appliedRead = read;
    const before = this.#decided;
    this.#decided = new Map(decided.map((one) => [keyOf(one.toolName), one]));
    this.#apply();
    for (const one of decided) if (before.get(keyOf(one.toolName))?.at !== one.at) this.#notify(one);
  }

  close(): void {
    void this.#following.stop();
    this.#unsubscribe();
  }

  /** Reads again when a decision was made here during the read: the list may or may not contain it. */
  async #read(): Promise<readonly ToolSwitch[]> {
    for (;;) {
      const written = this.#decisionCount;
      const decided = await this.#store.toolSwitches.list();
      if (written === this.#decisionCount) return decided;
    }
  }

  #notify(decided: ToolSwitch): void {
    for (const listener of this.#listeners) listener(decided);
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
          if (!decided.enabled) this.#applyToSuccessors(decided);
        }
      }
    } finally {
      this.#isApplying = false;
    }
  }

  #applyToSuccessors(decided: ToolSwitch): void {
    for (const toolName of this.#names?.successorsOf(decided.toolName) ?? []) {
      if (this.get(toolName) === undefined) this.#applyOne({ ...decided, toolName });
    }
  }

  #applyOne({ toolName, enabled }: ToolSwitch): void {
    const info = this.#registry.get(toolName);
    // The decision is not about a tool that only has this name as an alias.
    if (info === undefined || keyOf(info.name) !== keyOf(toolName) || info.disabled !== enabled) return;
    // An operator cannot switch on a tool that another part of the rack keeps disabled for a stated reason.
    if (enabled && info.metadata.disabledReason !== undefined) return;
    this.#registry.update(info.name, { disabled: !enabled });
    this.#logger.debug(`${info.name} is ${enabled ? "enabled" : "disabled"}, as was decided before`);
  }
}

function keyOf(toolName: string): string {
  return toolName.toLowerCase();
}

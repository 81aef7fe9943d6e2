import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Following, Store, ToolSwitch } from "../store/index.ts";

export interface ToolSwitchesParts {
  readonly registry: ToolRegistry;
  readonly store: Pick<Store, "toolSwitches" | "registryVersion" | "follower">;
  readonly logger: Logger;
  /** Knows which names a name has given way to; what was switched off under it stays off under these. */
  readonly names?: { successorsOf(toolName: string): readonly string[] } | undefined;
}

/**
 * What operators switched on or off. A decision is on disk before it counts, outlives restarts and reloads, and holds for
 * a tool that comes later under the same name: it is applied in the very step that hangs the tool up.
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
  /** How often it was begun to read them, and which of those times they are of. */
  #begun = 0;
  #loaded = 0;
  /** How often something was decided here. */
  #written = 0;
  #isApplying = false;
  /** Something changed that was not looked at yet. */
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

  /** Applies what was decided before. To be called before anybody can call a tool. */
  static async open(parts: ToolSwitchesParts): Promise<ToolSwitches> {
    const switches = new ToolSwitches(parts);
    await switches.refresh();
    return switches;
  }

  /** What was decided about the tool with this canonical name. */
  get(toolName: string): ToolSwitch | undefined {
    return this.#decided.get(keyOf(toolName));
  }

  async set(toolName: string, enabled: boolean, by: string): Promise<ToolSwitch> {
    const [decided] = await this.setAll([toolName], enabled, by);
    return decided!;
  }

  /** The same for several. When one cannot be written, those before it hold. */
  async setAll(toolNames: readonly string[], enabled: boolean, by: string): Promise<readonly ToolSwitch[]> {
    const written: ToolSwitch[] = [];
    try {
      for (const toolName of toolNames) {
        const decided = { toolName, enabled, by, at: Date.now() };
        await this.#store.toolSwitches.set(decided);
        written.push(decided);
      }
    } finally {
      this.#written++;
      const known = written.map((one) => [keyOf(one.toolName), one] as const);
      this.#decided = new Map([...this.#decided, ...known]);
      this.#apply();
      for (const one of written) this.#tell(one);
    }
    return written;
  }

  /** Is told of each decision once the rack follows it, until the function that it answers is called. */
  subscribe(listener: (decided: ToolSwitch) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reads again what was decided, for another node may have. */
  async refresh(): Promise<void> {
    const turn = ++this.#begun;
    const decided = await this.#read();
    // One that began before and comes later may not know of what was decided in between.
    if (turn < this.#loaded) return;
    this.#loaded = turn;
    const before = this.#decided;
    this.#decided = new Map(decided.map((one) => [keyOf(one.toolName), one]));
    this.#apply();
    for (const one of decided) if (before.get(keyOf(one.toolName))?.at !== one.at) this.#tell(one);
  }

  close(): void {
    void this.#following.stop();
    this.#unsubscribe();
  }

  /** What was decided here while it was being read may be in it or not. */
  async #read(): Promise<readonly ToolSwitch[]> {
    for (;;) {
      const written = this.#written;
      const decided = await this.#store.toolSwitches.list();
      if (written === this.#written) return decided;
    }
  }

  #tell(decided: ToolSwitch): void {
    for (const listener of this.#listeners) listener(decided);
  }

  /** Changing the rack brings us here again: then one more look follows, instead of one inside the other. */
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
    // An alias of another tool is not what was switched.
    if (info === undefined || keyOf(info.name) !== keyOf(toolName) || info.disabled !== enabled) return;
    // Nobody can switch on what another part of the rack keeps off, and says why.
    if (enabled && info.metadata.disabledReason !== undefined) return;
    this.#registry.update(info.name, { disabled: !enabled });
    this.#logger.debug(`${info.name} is ${enabled ? "enabled" : "disabled"}, as was decided before`);
  }
}

function keyOf(toolName: string): string {
  return toolName.toLowerCase();
}

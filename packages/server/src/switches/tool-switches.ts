import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Store } from "../store/store.ts";
import type { ToolSwitch } from "../store/tool-switches/tool-switch-store.ts";

export interface ToolSwitchesParts {
  readonly registry: ToolRegistry;
  readonly store: Pick<Store, "toolSwitches">;
  readonly logger: Logger;
}

/**
 * What operators switched on or off. A decision is on disk before it counts, outlives restarts and reloads, and holds for
 * a tool that comes later under the same name: it is applied in the very step that hangs the tool up.
 */
export class ToolSwitches {
  readonly #registry: ToolRegistry;
  readonly #store: ToolSwitchesParts["store"];
  readonly #logger: Logger;
  readonly #unsubscribe: () => void;
  #decided: ReadonlyMap<string, ToolSwitch> = new Map();

  private constructor({ registry, store, logger }: ToolSwitchesParts) {
    this.#registry = registry;
    this.#store = store;
    this.#logger = logger;
    this.#unsubscribe = registry.subscribe((event) => {
      if (event.type === "tools") this.#apply();
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
    const decided = { toolName, enabled, by, at: Date.now() };
    await this.#store.toolSwitches.set(decided);
    this.#decided = new Map(this.#decided).set(keyOf(toolName), decided);
    this.#apply();
    return decided;
  }

  /** Reads again what was decided, for another node may have. */
  async refresh(): Promise<void> {
    const decided = await this.#store.toolSwitches.list();
    this.#decided = new Map(decided.map((one) => [keyOf(one.toolName), one]));
    this.#apply();
  }

  close(): void {
    this.#unsubscribe();
  }

  /** Changing the rack brings us here again, where nothing is left to change. */
  #apply(): void {
    for (const { toolName, enabled } of this.#decided.values()) {
      const info = this.#registry.get(toolName);
      // An alias of another tool is not what was switched.
      if (info === undefined || keyOf(info.name) !== keyOf(toolName) || info.disabled !== enabled) continue;
      this.#registry.update(info.name, { disabled: !enabled });
      this.#logger.debug(`${info.name} is ${enabled ? "enabled" : "disabled"}, as was decided before`);
    }
  }
}

function keyOf(toolName: string): string {
  return toolName.toLowerCase();
}

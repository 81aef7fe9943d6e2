import type { Logger, ToolInfo, ToolRegistry } from "@toolrack/core";
import { hashValue } from "@toolrack/core";

/** A tool that could not be hung up, and why. */
export interface RefusedUpstreamTool {
  readonly name: string;
  readonly reason: string;
}

interface Applied {
  readonly fingerprint: string;
  readonly isDisabled: boolean;
}

/** The tools of one server on the rack. Only what really changed is taken down and hung up again. */
export class RackTools {
  readonly #registry: ToolRegistry;
  readonly #logger: Logger;
  #applied = new Map<string, Applied>();
  refused: readonly RefusedUpstreamTool[] = [];

  constructor(registry: ToolRegistry, logger: Logger) {
    this.#registry = registry;
    this.#logger = logger;
  }

  get names(): readonly string[] {
    return [...this.#applied.keys()];
  }

  /** Puts these in the place of those that were there. `salt` changes when calls must go elsewhere. */
  replace(tools: readonly ToolInfo[], salt: number): void {
    const wanted = new Map(
      tools.map((tool) => [tool.name, { tool, fingerprint: fingerprintOf(tool, salt) }]),
    );
    const remove = [...this.#applied].flatMap(([name, { fingerprint }]) =>
      wanted.get(name)?.fingerprint === fingerprint ? [] : [name],
    );
    const put = [...wanted.values()].filter(
      ({ tool, fingerprint }) => this.#applied.get(tool.name)?.fingerprint !== fingerprint,
    );
    if (remove.length === 0 && put.length === 0) return;
    const refused = this.#registry.apply({ remove, put: put.map(({ tool }) => tool) });
    const unusable = new Set(refused.map(({ info }) => info.name));
    this.refused = refused.map(({ info, error }) => ({ name: info.name, reason: error.message }));
    for (const { name, reason } of this.refused) this.#logger.warn(`${name} is left out: ${reason}`);
    const before = this.#applied;
    this.#applied = new Map(
      [...wanted.values()]
        .filter(({ tool }) => !unusable.has(tool.name))
        .map(({ tool, fingerprint }) => [tool.name, { fingerprint, isDisabled: tool.disabled }]),
    );
    // The registry keeps a tool switched off that was; what we switched off ourselves we switch on again.
    for (const { tool } of put) {
      if (before.get(tool.name)?.isDisabled && !tool.disabled && !unusable.has(tool.name)) {
        this.#registry.enable(tool.name);
      }
    }
  }

  clear(): void {
    this.#registry.apply({ remove: this.names });
    this.#applied.clear();
    this.refused = [];
  }
}

function fingerprintOf(
  { name, description, title, aliases, parameters, outputSchema, metadata, disabled }: ToolInfo,
  salt: number,
): string {
  // The state of the server is in there too; it is always asked for anew and never a change of the tool.
  const { mcp: _, ...rest } = metadata;
  return hashValue([name, description, title, aliases, parameters, outputSchema, rest, disabled, salt]);
}

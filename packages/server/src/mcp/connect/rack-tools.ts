import { hashValue, type Logger, type ToolInfo, type ToolRegistry } from "@toolrack/core";

import { isRecord } from "../../helpers/index.ts";
import { type RefusedItem, shortened } from "./catalogue/catalogue.ts";

interface Applied {
  readonly fingerprint: string;
  readonly isDisabled: boolean;
}

/** The tools of one server on the rack. Only what really changed is taken down and hung up again. */
export class RackTools {
  readonly #registry: ToolRegistry;
  readonly #logger: Logger;
  #applied = new Map<string, Applied>();
  refused: readonly RefusedItem[] = [];

  constructor(registry: ToolRegistry, logger: Logger) {
    this.#registry = registry;
    this.#logger = logger;
  }

  get names(): readonly string[] {
    return [...this.#applied.keys()];
  }

  /** Puts these in the place of those that were there. `salt` changes when calls must go elsewhere. */
  replace(tools: readonly ToolInfo[], salt: number): void {
    const { single, doubled } = withoutDoubles(tools);
    const wanted = new Map(
      single.map((tool) => [tool.name, { tool, fingerprint: fingerprintOf(tool, salt) }]),
    );
    const remove = [...this.#applied].flatMap(([name, { fingerprint }]) =>
      wanted.get(name)?.fingerprint === fingerprint ? [] : [name],
    );
    const put = [...wanted.values()].filter(
      ({ tool, fingerprint }) => this.#applied.get(tool.name)?.fingerprint !== fingerprint,
    );
    if (remove.length === 0 && put.length === 0) {
      // What the registry refused is not applied, so it would be put again.
      this.refused = doubled;
      return;
    }
    const refused = this.#registry.apply({ remove, put: put.map(({ tool }) => tool) });
    const unusable = new Set(refused.map(({ info }) => info.name));
    const refusedBefore = this.refused;
    const isKnown = (item: RefusedItem) =>
      refusedBefore.some(({ name, reason }) => name === item.name && reason === item.reason);
    this.refused = [
      ...doubled,
      ...refused.map(({ info, error }) => ({ name: info.name, reason: shortened(error.message) })),
    ];
    for (const { name, reason } of this.refused) {
      if (!isKnown({ name, reason })) this.#logger.warn(`${name} is left out: ${reason}`);
    }
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

/**
 * Of two that want one name, the one that the server itself calls so has it; of two others, the first. Names that differ
 * by case only are one.
 */
function withoutDoubles(tools: readonly ToolInfo[]): {
  readonly single: readonly ToolInfo[];
  readonly doubled: readonly RefusedItem[];
} {
  const owners = new Map<string, ToolInfo>();
  for (const tool of tools) {
    const owner = owners.get(keyOf(tool));
    if (owner === undefined || (isRenamed(owner) && !isRenamed(tool))) owners.set(keyOf(tool), tool);
  }
  const isOwner = (tool: ToolInfo) => owners.get(keyOf(tool)) === tool;
  return {
    single: tools.filter(isOwner),
    doubled: tools
      .filter((tool) => !isOwner(tool))
      .map(({ name, displayName }) => ({
        name: displayName ?? name,
        reason: `It is renamed to ${name}, which is the name of another tool. Give it another name.`,
      })),
  };
}

function keyOf({ name }: ToolInfo): string {
  return name.toLowerCase();
}

/** One that has another name than its own is also reached by that. */
function isRenamed({ aliases = [] }: ToolInfo): boolean {
  return aliases.length > 0;
}

function fingerprintOf(
  { name, description, title, aliases, parameters, outputSchema, metadata, disabled }: ToolInfo,
  salt: number,
): string {
  // The state of the server is always asked for anew and never a change of the tool.
  const { mcp, ...rest } = metadata;
  const { state: _, ...origin } = isRecord(mcp) ? mcp : {};
  return hashValue([
    name,
    description,
    title,
    aliases,
    parameters,
    outputSchema,
    rest,
    origin,
    disabled,
    salt,
  ]);
}

import type { Logger, ToolInfo, ToolRegistry } from "@toolrack/core";
import { definitionTokens, hashValue } from "@toolrack/core/internal";
import { asRecord } from "../../../helpers/index.ts";
import type { RefusedItem } from "./catalogue.ts";
import { shortened } from "./usable-schema.ts";

interface Applied {
  readonly fingerprint: string;
  readonly isDisabled: boolean;
}

/** The tools of one server in the registry. */
export class RegisteredTools {
  /** Tools that the registry refused, and tools whose new name is the name of another tool. */
  refused: readonly RefusedItem[] = [];
  readonly #registry: ToolRegistry;
  readonly #logger: Logger;
  /** The server's tools in the registry, by their names on the rack. */
  #applied = new Map<string, Applied>();

  constructor({ registry, logger }: { readonly registry: ToolRegistry; readonly logger: Logger }) {
    this.#registry = registry;
    this.#logger = logger;
  }

  get size(): number {
    return this.#applied.size;
  }

  has(name: string): boolean {
    return this.#applied.has(name);
  }

  /** The estimated tokens of the definitions of the tools that are not disabled. */
  get tokens(): number {
    const names = [...this.#applied.keys()].filter((name) => this.#registry.get(name)?.disabled === false);
    return names.reduce((sum, name) => sum + (this.tokensOf(name) ?? 0), 0);
  }

  /** The estimated tokens of the definition of a tool. Undefined when it is not in the registry. */
  tokensOf(name: string): number | undefined {
    const tool = this.#applied.has(name) ? this.#registry.get(name) : undefined;
    return tool && definitionTokens(tool);
  }

  clear(): void {
    this.#registry.apply({ remove: [...this.#applied.keys()] });
    this.#applied.clear();
  }

  /** Replaces the server's tools. Touches only tools that changed. `generation`: another one makes all tools others. */
  replace(tools: readonly ToolInfo[], generation: number): void {
    const registry = this.#registry;
    const { single, doubled } = withoutDoubles(tools);
    const before = this.#applied;
    const wanted = new Map(single.map((tool) => [tool.name, fingerprintOfTool(tool, generation)]));
    const remove = [...before.keys()].filter((name) => wanted.get(name) !== before.get(name)?.fingerprint);
    const put = single.filter(({ name }) => before.get(name)?.fingerprint !== wanted.get(name));
    if (remove.length === 0 && put.length === 0) {
      // The registry refused no tool before: a refused tool is not in `#applied`, so it would be in `put` again.
      this.refused = doubled;
      return;
    }
    const refused = registry.apply({ remove, put });
    const unusable = new Set(refused.map(({ info }) => info.name));
    const known = new Set(this.refused.map(({ name, reason }) => `${name}\n${reason}`));
    const refusedItems = refused.map(({ info, error }) => ({
      name: info.name,
      reason: shortened(error.message),
    }));
    this.refused = [...doubled, ...refusedItems];
    for (const { name, reason } of this.refused) {
      if (!known.has(`${name}\n${reason}`)) this.#logger.warn(`${name} is left out: ${reason}`);
    }
    const usable = single.filter(({ name }) => !unusable.has(name));
    const appliedOf = ({ name, disabled: isDisabled }: ToolInfo) =>
      [name, { fingerprint: wanted.get(name) ?? "", isDisabled }] as const;
    this.#applied = new Map(usable.map(appliedOf));
    // The registry keeps a replaced tool disabled. Enable the tools that were disabled here before and no longer are.
    for (const { name, disabled } of put)
      if (before.get(name)?.isDisabled && !disabled && !unusable.has(name)) registry.enable(name);
  }
}

/**
 * Leaves one tool for each name. If two tools want the same name, a tool that was not renamed comes before a
 * renamed one, and otherwise the first one gets the name. Upper and lower case count as equal.
 */
function withoutDoubles(tools: readonly ToolInfo[]): {
  readonly single: readonly ToolInfo[];
  readonly doubled: readonly RefusedItem[];
} {
  const owners = new Map<string, ToolInfo>();
  // A renamed tool has the name that it would have without the renaming as an alias.
  const isRenamed = ({ aliases = [] }: ToolInfo) => aliases.length > 0;
  for (const tool of tools) {
    const key = tool.name.toLowerCase();
    const owner = owners.get(key);
    if (owner === undefined || (isRenamed(owner) && !isRenamed(tool))) owners.set(key, tool);
  }
  const isOwner = (tool: ToolInfo) => owners.get(tool.name.toLowerCase()) === tool;
  const refuse = ({ name, displayName = name }: ToolInfo) => ({
    name: displayName,
    reason: `It is renamed to ${name}, which is the name of another tool. Give it another name.`,
  });
  return {
    single: tools.filter(isOwner),
    doubled: tools.filter((tool) => !isOwner(tool)).map(refuse),
  };
}

function fingerprintOfTool(tool: ToolInfo, generation: number): string {
  const { name, description, title, aliases, parameters, outputSchema, metadata, disabled } = tool;
  // The state of the server is not part of the tool's definition.
  const { mcp, ...rest } = metadata;
  const { state: _, ...origin } = asRecord(mcp);
  const shown = [name, description, title, aliases, parameters, outputSchema];
  return hashValue([...shown, rest, origin, disabled, generation]);
}

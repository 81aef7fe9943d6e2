import { canonicalName, type ToolInfo, type ToolRegistry } from "@toolrack/core";
import type { ReadyTool, ToolRunner } from "./run-environment.ts";
import { UsageError } from "./usage-error.ts";

/** The name of the tool that a `builtin` tool stands for. Throws `UsageError` when none is said. */
export function builtinTarget({
  command,
  name,
}: {
  readonly command?: string;
  readonly name: string;
}): string {
  const target = command?.trim() || `builtin_${name}`;
  if (/\s/.test(target)) {
    throw new UsageError(
      `The command of a builtin tool is the name of a tool, such as builtin_file_read; "${target}" is none.`,
      "command",
    );
  }
  return target;
}

/** The tool that is meant, when it is on the rack. */
export function findTarget(registry: ToolRegistry, target: string): ToolInfo | undefined {
  return registry.get(target) ?? registry.get(canonicalName(target));
}

/** A tool that is already on the rack, under another name and with arguments of its own. */
export function builtinRunner({ tool, usage }: ReadyTool, registry: ToolRegistry): ToolRunner {
  const target = builtinTarget(tool);
  if (target === tool.id) throw new UsageError("A builtin tool cannot stand for itself.", "command");
  const { arguments: fixed, defaults } = usage.settings;
  return (context) => {
    const found = findTarget(registry, target);
    if (found?.name === context.tool.name)
      throw new Error("The tool stands for itself. Name another one as its command.");
    return context.call(found?.name ?? target, { ...defaults, ...context.input, ...fixed });
  };
}

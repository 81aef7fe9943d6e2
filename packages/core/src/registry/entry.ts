import { compileSchema } from "../schema/compile-schema.ts";
import type { CompiledSchema } from "../schema/types.ts";
import { implementationOf, type ToolImplementation } from "../tool/define.ts";
import { DefinitionError } from "../tool/definition-error.ts";
import type { ToolInfo } from "../tool/info.ts";
import { canonicalName } from "../tool/name.ts";

/** One tool on the rack with what the pipeline needs of it, worked out once. Immutable. */
export class ToolEntry {
  readonly info: ToolInfo;
  /** The name, folded: two names that differ only by case are one. */
  readonly key: string;
  readonly schema: CompiledSchema;
  readonly output: CompiledSchema | undefined;
  readonly implementation: ToolImplementation;

  constructor(info: ToolInfo) {
    this.info = info;
    this.key = fold(info.name);
    this.schema = compileSchema(info.parameters);
    this.output = info.outputSchema === undefined ? undefined : compileSchema(info.outputSchema);
    this.implementation = implementationOf(info.execute);
  }

  /** Every name under which the tool answers, folded, its own first. */
  keys(): string[] {
    const aliases = this.info.aliases ?? [];
    return aliases.length === 0 ? [this.key] : [...new Set([this.key, ...aliases.map(fold)])];
  }

  with(updates: Partial<ToolInfo>): ToolEntry {
    return new ToolEntry(normalise({ ...this.info, ...updates }, this.info.createdAt));
  }
}

/** Checks and completes a tool as it is registered. Throws `DefinitionError` naming the field that is wrong. */
export function toEntry(info: ToolInfo): ToolEntry {
  const candidate: unknown = info;
  if (typeof candidate !== "object" || candidate === null) {
    throw new DefinitionError("A tool is an object made by Tool.define.", "info");
  }
  if (typeof (candidate as { then?: unknown }).then === "function") {
    throw new DefinitionError("This is a promise of a tool: await it, then register it.", "info");
  }
  if (typeof info.name !== "string" || info.name.trim() === "") {
    throw new DefinitionError("A tool needs a name: a text that is not empty.", "name");
  }
  if (typeof info.execute !== "function") {
    throw new DefinitionError(`The tool "${info.name}" has no execute function.`, "execute");
  }
  return new ToolEntry(normalise(info, Date.now()));
}

export function fold(name: string): string {
  return name.toLowerCase();
}

/** A name that the rack cannot use as it is stays reachable as an alias and visible as the display name. */
function normalise(info: ToolInfo, createdAt: number): ToolInfo {
  const name = canonicalName(info.name);
  const renamed =
    name === info.name
      ? {}
      : { aliases: [...(info.aliases ?? []), info.name], displayName: info.displayName ?? info.name };
  return Object.freeze({
    ...info,
    ...renamed,
    name,
    metadata: Object.freeze({ ...info.metadata }),
    createdAt,
    disabled: info.disabled === true,
  });
}

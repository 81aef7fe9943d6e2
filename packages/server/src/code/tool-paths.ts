import type { RegistrySnapshot, ToolInfo, ToolRegistry } from "@toolrack/core";
import { nearestNames } from "@toolrack/core/internal";
import { isHelperTool, runToolName } from "../calls/index.ts";
import { originOf } from "../config/index.ts";

/** Where code finds a tool: `tools.NAMESPACE.NAME`. */
export interface ToolPath {
  readonly namespace: string;
  readonly name: string;
}

/** The namespace of all tools that come from no upstream server. */
const HERE = "rack";

/**
 * The paths of the tools of a rack. A tool of an upstream server is `tools.SERVER.TOOL`, any other `tools.rack.NAME`. In
 * both, characters that cannot be part of an identifier are underscores. The same tools always get the same paths.
 */
export class ToolPaths {
  /** The names on the rack by namespace and name. */
  readonly #names = new Map<string, Map<string, string>>();
  readonly #paths = new Map<string, ToolPath>();

  private constructor(tools: readonly ToolInfo[]) {
    for (const tool of tools) {
      if (isHelperTool(tool.name)) continue;
      const origin = originOf(tool);
      const namespace = toIdentifier(origin?.server ?? HERE);
      const wanted = toIdentifier(origin?.tool ?? tool.name);
      const names = this.#names.get(namespace) ?? new Map<string, string>();
      this.#names.set(namespace, names);
      // Of two tools with one name, the second is found by its name on the rack.
      const name = names.has(wanted) ? toIdentifier(tool.name) : wanted;
      names.set(name, tool.name);
      this.#paths.set(tool.name, { namespace, name });
    }
  }

  /** Made once for each version of the rack. */
  static of(snapshot: RegistrySnapshot): ToolPaths {
    const known = made.get(snapshot) ?? new ToolPaths(snapshot.sorted());
    made.set(snapshot, known);
    return known;
  }

  of(toolName: string): ToolPath | undefined {
    return this.#paths.get(toolName);
  }

  /**
   * The tool's name on the rack. `parts`: a namespace and a name, or only the tool's name on the rack. Spellings that an
   * identifier cannot have, such as `my-server`, are found too.
   */
  find([first = "", ...rest]: readonly string[]): string | undefined {
    if (rest.length === 0) return this.#paths.has(first) ? first : undefined;
    const names = this.#names.get(toIdentifier(first));
    const name = rest.join(".");
    const found = names?.get(toIdentifier(name));
    return found ?? (first === HERE && this.#paths.has(name) ? name : undefined);
  }

  isNamespace(name: string): boolean {
    return this.#names.has(toIdentifier(name));
  }

  /** Paths that are spelled like the wanted one, of tools for which `isSeen` is true. */
  nearest([first = "", second]: readonly string[], isSeen: (toolName: string) => boolean): string[] {
    const names = this.#names.get(toIdentifier(first));
    const among = (all: ReadonlyMap<string, string>) =>
      new Set([...all].flatMap(([name, toolName]) => (isSeen(toolName) ? [name] : [])));
    if (names !== undefined && second !== undefined)
      return nearestNames(second, among(names)).map((name) => `tools.${toIdentifier(first)}.${name}`);
    const seen = [...this.#names].filter(([, all]) => [...all.values()].some(isSeen));
    const spaces = nearestNames(first, new Set(seen.map(([namespace]) => namespace)));
    return spaces.map((namespace) => `tools.${namespace}`);
  }
}

const made = new WeakMap<RegistrySnapshot, ToolPaths>();

/** Letters of all scripts may be part of an identifier, but no blanks, dashes or slashes. */
function toIdentifier(text: string): string {
  const plain = text.replace(/[^\p{ID_Continue}$]/gu, "_");
  return /^[\p{ID_Start}$_]/u.test(plain) ? plain : `_${plain}`;
}

/** A call of a tool by the path that it has in code, such as `tools.github.search`. */
export interface PathCall {
  readonly toolName: string;
  /** Tells the model how the tool is called. */
  readonly note: string;
}

/** Models that are offered to write code may call a tool by its path instead. Undefined for any other name. */
export function pathCall(
  registry: Pick<ToolRegistry, "get" | "snapshot">,
  name: string,
): PathCall | undefined {
  if (!name.includes(".") || registry.get(name) !== undefined || registry.get(runToolName) === undefined)
    return undefined;
  const parts = name.replace(/^(?:functions\.)?(?:tools\.)?/, "").split(".");
  const paths = ToolPaths.of(registry.snapshot());
  const toolName = paths.find(parts);
  const path = toolName === undefined ? undefined : paths.of(toolName);
  if (toolName === undefined || path === undefined) return undefined;
  const written = `return await tools.${path.namespace}.${path.name}(args)`;
  const note = `(This was a direct call of "${toolName}". ${name} is how it is written in code: call ${runToolName} with code such as: ${written})`;
  return { toolName, note };
}

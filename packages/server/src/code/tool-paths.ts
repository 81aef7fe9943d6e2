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
  readonly #snapshot: RegistrySnapshot;
  /** The names on the rack by namespace and name. */
  #names: ReadonlyMap<string, ReadonlyMap<string, string>> | undefined;

  private constructor(snapshot: RegistrySnapshot) {
    this.#snapshot = snapshot;
  }

  /** Made once for each version of the rack. */
  static of(snapshot: RegistrySnapshot): ToolPaths {
    const known = made.get(snapshot) ?? new ToolPaths(snapshot);
    made.set(snapshot, known);
    return known;
  }

  of(toolName: string): ToolPath | undefined {
    const tool = this.#snapshot.get(toolName);
    if (tool?.name !== toolName || isHelperTool(toolName)) return undefined;
    const namespace = namespaceOf(tool);
    const wanted = wantedName(tool);
    const own = toIdentifier(toolName);
    // Of two tools with one name, the second is found by its name on the rack.
    const isOwn = wanted === own || this.#all().get(namespace)?.get(wanted) !== toolName;
    return { namespace, name: isOwn ? own : wanted };
  }

  /** Made when it is first needed: for 50,000 tools it takes 20 ms. */
  #all(): ReadonlyMap<string, ReadonlyMap<string, string>> {
    if (this.#names !== undefined) return this.#names;
    const all = new Map<string, Map<string, string>>();
    for (const tool of this.#snapshot.sorted()) {
      if (isHelperTool(tool.name)) continue;
      const namespace = namespaceOf(tool);
      const names = all.get(namespace) ?? new Map<string, string>();
      all.set(namespace, names);
      const wanted = wantedName(tool);
      names.set(names.has(wanted) ? toIdentifier(tool.name) : wanted, tool.name);
    }
    this.#names = all;
    return all;
  }

  /**
   * The tool's name on the rack. `parts`: a namespace and a name, or only the tool's name on the rack. Spellings that an
   * identifier cannot have, such as `my-server`, are found too.
   */
  find([first = "", ...rest]: readonly string[]): string | undefined {
    if (rest.length === 0) return this.of(first) && first;
    const names = this.#all().get(toIdentifier(first));
    const name = rest.join(".");
    const found = names?.get(toIdentifier(name));
    return found ?? (first === HERE && this.of(name) !== undefined ? name : undefined);
  }

  isNamespace(name: string): boolean {
    return this.#all().has(toIdentifier(name));
  }

  /** Paths that are spelled like the wanted one, of tools for which `isSeen` is true. */
  nearest([first = "", second]: readonly string[], isSeen: (toolName: string) => boolean): string[] {
    const names = this.#all().get(toIdentifier(first));
    const among = (all: ReadonlyMap<string, string>) =>
      new Set([...all].flatMap(([name, toolName]) => (isSeen(toolName) ? [name] : [])));
    if (names !== undefined && second !== undefined)
      return nearestNames(second, among(names)).map((name) => `tools.${toIdentifier(first)}.${name}`);
    const seen = [...this.#all()].filter(([, all]) => [...all.values()].some(isSeen));
    const spaces = nearestNames(first, new Set(seen.map(([namespace]) => namespace)));
    return spaces.map((namespace) => `tools.${namespace}`);
  }
}

const made = new WeakMap<RegistrySnapshot, ToolPaths>();

export function namespaceOf(tool: ToolInfo): string {
  const origin = originOf(tool);
  return origin === undefined ? HERE : toIdentifier(origin.server);
}

function wantedName(tool: ToolInfo): string {
  return toIdentifier(originOf(tool)?.tool ?? tool.name);
}

/** Letters of all scripts may be part of an identifier, but no blanks, dashes or slashes. */
function toIdentifier(text: string): string {
  if (/^[A-Za-z_$][\w$]*$/.test(text)) return text;
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

import { DefinitionError, type RefusedTool, type ToolInfo } from "@toolrack/core";
import { namesOf, type RecognisedFile, type ServingFile } from "./load-report.ts";

export interface NameClaims {
  /** The new versions of the files that this load has loaded, by path. */
  readonly loaded: ReadonlyMap<string, ServingFile>;
  /** The files that keep their current version, by path. */
  readonly staying: ReadonlyMap<string, ServingFile>;
  readonly versionOf: (path: string) => ServingFile | undefined;
  readonly builtins: readonly ToolInfo[];
  /** The tool that has this name or alias on the rack before this load is published. */
  readonly onRack: (name: string) => ToolInfo | undefined;
  /**
   * Whether the sandboxed tool's name belongs to the file `origin`, which published it in an earlier load.
   */
  readonly owns: (name: string, origin: string | undefined) => boolean;
}

export interface SettledNames {
  readonly remove: string[];
  readonly put: ToolInfo[];
  readonly refused: RefusedTool[];
}

/**
 * Decides which tool gets a name that several tools claim. A tool that has the name already keeps it. An
 * alias never takes a name from a tool. Files that are not sandboxed may replace a built-in tool of the same
 * name. Sandboxed files, which anybody may have written, never may: when two new ones claim a name, the file
 * that published it in an earlier load gets it, or neither.
 */
export function settleNames(claims: NameClaims): SettledNames {
  const { loaded, staying, builtins, onRack } = claims;
  const replaced = new Set(
    [...staying.values(), ...loaded.values()].filter((file) => !isSandboxed(file)).flatMap(foldedNames),
  );
  const isPublished = ({ name, origin }: ToolInfo) => onRack(name)?.origin === origin;
  const keptBuiltins = builtins.filter(({ name }) => !replaced.has(fold(name)));
  const refused = refuseSandboxed(claims, builtins);
  const refusedTools = new Set(refused.map(({ info }) => info));
  const aliases = new FreeAliases(claims, keptBuiltins);
  const ordered = inOrder(claims).map(([path, file]) => {
    const tools = file.recognised.tools.filter((info) => !refusedTools.has(info));
    return tools.map((info) => aliases.apply(info, path, isSandboxed(file)));
  });
  const losingAlias = toolsLosingAlias(claims).map(([path, info]) => aliases.apply(info, path, true));
  return {
    remove: [
      ...builtins.filter((info) => !keptBuiltins.includes(info) && isPublished(info)),
      ...losingAlias,
    ].map(({ name }) => name),
    put: [...losingAlias, ...ordered.flat(), ...keptBuiltins.filter((info) => !isPublished(info))],
    refused,
  };
}

/**
 * Sorts the loaded files by their right to their names: first files that have them on the rack, then other
 * files that are not sandboxed, then sandboxed files that published their names in an earlier load, then all
 * others.
 */
function inOrder(claims: NameClaims): [string, ServingFile][] {
  const ranks = new Map([...claims.loaded].map(([path, file]) => [path, rankOf(path, file, claims)]));
  return [...claims.loaded].sort(([one], [other]) => ranks.get(one)! - ranks.get(other)!);
}

function rankOf(path: string, file: ServingFile, { versionOf, owns }: NameClaims): number {
  const old = versionOf(path);
  const before = old === undefined ? [] : namesOf(old);
  if (namesOf(file).some((name) => before.includes(name))) return 0;
  if (!isSandboxed(file)) return 1;
  return file.recognised.tools.every(({ name, origin }) => owns(name, origin)) ? 2 : 3;
}

function refuseSandboxed(claims: NameClaims, builtins: readonly ToolInfo[]): RefusedTool[] {
  const builtinNames = new Set(builtins.flatMap(allNames).map(fold));
  const newcomers = new Map<string, ToolInfo[]>();
  const settled = new Set<string>();
  const refused: RefusedTool[] = [];
  for (const [path, file] of claims.loaded) {
    const isNewcomer = rankOf(path, file, claims) === 3;
    for (const info of file.recognised.tools) {
      const name = fold(info.name);
      if (isSandboxed(file) && builtinNames.has(name)) {
        const problem = `"${info.name}" is the name of a built-in tool, which a sandboxed file cannot replace.`;
        refused.push({ info, error: new DefinitionError(problem, "name") });
      } else if (isNewcomer) newcomers.set(name, [...(newcomers.get(name) ?? []), info]);
      else settled.add(name);
    }
  }
  for (const [name, tools] of newcomers) {
    // When another file has the name, that file keeps it, and the registry refuses the newcomers.
    if (tools.length < 2 || settled.has(name)) continue;
    const origins = tools.map(({ origin }) => origin).join(" and ");
    const problem = `${origins} both want the name "${tools[0]!.name}", and neither had it before, so neither is served.`;
    refused.push(...tools.map((info) => ({ info, error: new DefinitionError(problem, "name") })));
  }
  return refused;
}

/** Unchanged tools with an alias that is now the name of another tool. */
function toolsLosingAlias({ loaded, staying, onRack }: NameClaims): [string, ToolInfo][] {
  const arriving = new Set([...loaded.values()].flatMap(foldedNames));
  return [...staying].flatMap(([path, { recognised }]) =>
    recognised.tools.flatMap((info): [string, ToolInfo][] => {
      const isLosing = (tool: ToolInfo | undefined) =>
        tool?.aliases?.some((alias) => arriving.has(fold(alias)));
      // Most have no such alias, and there may be very many: they are not looked up.
      const published = isLosing(info) ? onRack(info.name) : undefined;
      return published?.origin === info.origin && isLosing(published) ? [[path, info]] : [];
    }),
  );
}

const BUILT_IN = "";

class FreeAliases {
  /** By name in lower case: the path of the file whose tool has it, or BUILT_IN. */
  readonly #holders = new Map<string, string>();
  readonly #claimed = new Map<string, ToolInfo>();
  readonly #claims: NameClaims;
  readonly #leaving: ReadonlySet<string | undefined>;

  constructor(claims: NameClaims, builtins: readonly ToolInfo[]) {
    this.#claims = claims;
    for (const name of builtins.flatMap(allNames)) this.#holders.set(fold(name), BUILT_IN);
    for (const [path, file] of [...claims.staying, ...claims.loaded]) {
      // A sandboxed file does not get the name of a built-in tool.
      for (const name of foldedNames(file))
        if (this.#holders.get(name) !== BUILT_IN) this.#holders.set(name, path);
    }
    this.#leaving = new Set(
      [...claims.loaded.values()].flatMap(({ recognised }) => recognised.tools.map(({ origin }) => origin)),
    );
  }

  /**
   * Returns the tool with only those aliases that are no name of another file's tool. A sandboxed tool also
   * loses aliases that any other tool has as an alias.
   */
  apply(info: ToolInfo, path: string, isSandboxedTool: boolean): ToolInfo {
    const aliases = info.aliases?.filter((alias) => {
      if ((this.#holders.get(fold(alias)) ?? path) !== path) return false;
      return !isSandboxedTool || !this.#isTaken(alias, info);
    });
    for (const alias of aliases ?? []) this.#claimed.set(fold(alias), info);
    return aliases?.length === info.aliases?.length ? info : { ...info, aliases: aliases ?? [] };
  }

  #isTaken(alias: string, info: ToolInfo): boolean {
    const claimed = this.#claimed.get(fold(alias));
    if (claimed !== undefined) return claimed !== info;
    const published = this.#claims.onRack(alias);
    return (
      published !== undefined && published.origin !== info.origin && !this.#leaving.has(published.origin)
    );
  }
}

/**
 * A file's tool that replaces a built-in tool which asks for a person's consent asks too, unless the operator's config
 * says otherwise. A file that is written without a thought of consent must not remove it.
 */
export function withConsent(
  recognised: RecognisedFile,
  builtins: readonly ToolInfo[],
  isUnguarded: (tool: ToolInfo) => boolean,
): RecognisedFile {
  const guarded = new Map(
    builtins.filter(({ metadata }) => metadata.dangerous === true).map((info) => [fold(info.name), info]),
  );
  const warnings = [...recognised.warnings];
  const tools = recognised.tools.map((info) => {
    const builtin = guarded.get(fold(info.name));
    if (builtin === undefined || info.metadata.dangerous === true) return info;
    const setting = `approvals: { unguarded: ["${info.name}"] }`;
    if (isUnguarded(info)) {
      warnings.push(
        `It replaces the built-in tool "${builtin.name}", which asks before it runs. This one does not ask: the config says ${setting}.`,
      );
      return info;
    }
    warnings.push(
      `It replaces the built-in tool "${builtin.name}", which asks before it runs, so it asks too. Write dangerous: true into its metadata, or let it run unasked with ${setting} in the config.`,
    );
    const { confirm } = builtin.metadata;
    const asked = { ...(confirm === undefined ? {} : { confirm }), ...info.metadata, dangerous: true };
    return { ...info, metadata: asked };
  });
  return { ...recognised, tools, warnings };
}

export function isSandboxed({ recognised }: ServingFile): boolean {
  return recognised.contract === "single-file";
}

function foldedNames(file: ServingFile): string[] {
  return namesOf(file).map(fold);
}

function allNames({ name, aliases = [] }: ToolInfo): string[] {
  return [name, ...aliases];
}

function fold(name: string): string {
  return name.toLowerCase();
}

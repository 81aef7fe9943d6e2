import { DefinitionError, type RefusedTool, type ToolInfo } from "@toolrack/core";
import { namesOf, type ServingFile } from "./load-report.ts";

export interface NameClaims {
  /** New versions, by path. */
  readonly loaded: ReadonlyMap<string, ServingFile>;
  /** Files that go on with the version they have. */
  readonly staying: ReadonlyMap<string, ServingFile>;
  /** The version that a file has now. */
  readonly versionOf: (path: string) => ServingFile | undefined;
  readonly builtins: readonly ToolInfo[];
  /** What is on the rack now under a name or an alias. */
  readonly onRack: (name: string) => ToolInfo | undefined;
  /** Whether a sandboxed tool's name is remembered as that of this file. */
  readonly owns: (name: string, origin: string | undefined) => boolean;
}

export interface SettledNames {
  readonly remove: string[];
  readonly put: ToolInfo[];
  readonly refused: RefusedTool[];
}

/**
 * Who is hung up under which name when several want it. The one that is there stays. An alias never takes a name.
 * Files of the operator may replace built-in tools by name; sandboxed ones, which may be anybody's, never do, and of
 * two that are new the one whose name it was before is served, or else neither.
 */
export function settleNames(claims: NameClaims): SettledNames {
  const { loaded, staying, builtins, onRack } = claims;
  const replaced = new Set(
    [...staying.values(), ...loaded.values()].filter((file) => !isSandboxed(file)).flatMap(foldedNames),
  );
  const isHung = ({ name, origin }: ToolInfo) => onRack(name)?.origin === origin;
  const standing = builtins.filter(({ name }) => !replaced.has(fold(name)));
  const refused = refuseSandboxed(claims, builtins);
  const refusedTools = new Set(refused.map(({ info }) => info));
  const aliases = new FreeAliases(claims, standing);
  const ordered = inOrder(claims).map(([path, file]) => {
    const tools = file.recognised.tools.filter((info) => !refusedTools.has(info));
    return tools.map((info) => aliases.apply(info, path, isSandboxed(file)));
  });
  const yielding = yieldingAliases(claims).map(([path, info]) => aliases.apply(info, path, true));
  return {
    remove: [...builtins.filter((info) => !standing.includes(info) && isHung(info)), ...yielding].map(
      ({ name }) => name,
    ),
    put: [...yielding, ...ordered.flat(), ...standing.filter((info) => !isHung(info))],
    refused,
  };
}

/** Files that already have their names come first, then those of the operator, then the owners of their names. */
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
  const ofBuiltins = new Set(builtins.flatMap(allNames).map(fold));
  const strangers = new Map<string, ToolInfo[]>();
  const settled = new Set<string>();
  const refused: RefusedTool[] = [];
  for (const [path, file] of claims.loaded) {
    const isStranger = rankOf(path, file, claims) === 3;
    for (const info of file.recognised.tools) {
      const name = fold(info.name);
      if (isSandboxed(file) && ofBuiltins.has(name)) {
        const problem = `"${info.name}" is the name of a built-in tool, which a sandboxed file cannot replace.`;
        refused.push({ info, error: new DefinitionError(problem, "name") });
      } else if (isStranger) strangers.set(name, [...(strangers.get(name) ?? []), info]);
      else settled.add(name);
    }
  }
  for (const [name, tools] of strangers) {
    // With somebody there, that one stays, and the rack itself refuses the others.
    if (tools.length < 2 || settled.has(name)) continue;
    const origins = tools.map(({ origin }) => origin).join(" and ");
    const problem = `${origins} both want the name "${tools[0]!.name}", and neither had it before, so neither is served.`;
    refused.push(...tools.map((info) => ({ info, error: new DefinitionError(problem, "name") })));
  }
  return refused;
}

/** Tools that stay, and answer to an alias that is now the name of another. */
function yieldingAliases({ loaded, staying, onRack }: NameClaims): [string, ToolInfo][] {
  const arriving = new Set([...loaded.values()].flatMap(foldedNames));
  return [...staying].flatMap(([path, { recognised }]) =>
    recognised.tools.flatMap((info): [string, ToolInfo][] => {
      const hung = onRack(info.name);
      if (hung?.origin !== info.origin) return [];
      return hung?.aliases?.some((alias) => arriving.has(fold(alias))) ? [[path, info]] : [];
    }),
  );
}

const BUILT_IN = "";

class FreeAliases {
  /** Who has a name, by path. */
  readonly #holders = new Map<string, string>();
  readonly #claimed = new Map<string, ToolInfo>();
  readonly #claims: NameClaims;
  readonly #leaving: ReadonlySet<string | undefined>;

  constructor(claims: NameClaims, builtins: readonly ToolInfo[]) {
    this.#claims = claims;
    for (const name of builtins.flatMap(allNames)) this.#holders.set(fold(name), BUILT_IN);
    for (const [path, file] of [...claims.staying, ...claims.loaded]) {
      // A sandboxed file that wants the name of a built-in tool does not get it.
      for (const name of foldedNames(file))
        if (this.#holders.get(name) !== BUILT_IN) this.#holders.set(name, path);
    }
    this.#leaving = new Set(
      [...claims.loaded.values()].flatMap(({ recognised }) => recognised.tools.map(({ origin }) => origin)),
    );
  }

  /** The tool with the aliases that it can have. A sandboxed one goes without those that any other tool has. */
  apply(info: ToolInfo, path: string, isModest: boolean): ToolInfo {
    const aliases = info.aliases?.filter((alias) => {
      if ((this.#holders.get(fold(alias)) ?? path) !== path) return false;
      return !isModest || !this.#isTaken(alias, info);
    });
    for (const alias of aliases ?? []) this.#claimed.set(fold(alias), info);
    return aliases?.length === info.aliases?.length ? info : { ...info, aliases: aliases ?? [] };
  }

  #isTaken(alias: string, info: ToolInfo): boolean {
    const claimed = this.#claimed.get(fold(alias));
    if (claimed !== undefined) return claimed !== info;
    const hung = this.#claims.onRack(alias);
    return hung !== undefined && hung.origin !== info.origin && !this.#leaving.has(hung.origin);
  }
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

import { createHash } from "node:crypto";
import { readdir, realpath, stat } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import {
  type CallOptions,
  type Logger,
  type ToolInfo,
  type ToolRegistry,
  type ToolResult,
  toOpenAITools,
} from "@toolrack/core";
import type { Secrets } from "../access/index.ts";
import { Unapproved } from "../access/index.ts";
import type { Offerings } from "../calls/index.ts";
import type { Config, Workspace } from "../config/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { SkillStore, Store, StoredSkill, StoredSkillTool } from "../store/index.ts";
import { reachableRanges, type SkillToolInfo, skillToolInfo } from "./checks.ts";
import {
  findSkillFolders,
  type LoadedSkill,
  listSkillFiles,
  materialise,
  readSkillFolder,
  type SkillFolder,
  tooManyFiles,
} from "./folder.ts";
import { SkillOfferings } from "./offerings.ts";
import { SkillLibrary } from "./skill-library.ts";

interface SkillParts {
  readonly registry: ToolRegistry;
  readonly config: Config;
  readonly workspace: Workspace;
  /** Nothing when the workspace has none yet. */
  readonly store: Store | undefined;
  readonly sandbox: () => Promise<Sandbox>;
  readonly secrets: () => Promise<Secrets | undefined>;
  readonly offerings: Offerings;
  readonly logger: Logger;
}

/** Where a workspace has folders of skills; absolute. */
export function skillFoldersOf({ skills = {} }: Config, directory: string): string[] {
  return (skills.folders ?? ["skills"]).map((folder) => resolve(directory, folder));
}

/** Hangs up the tools of a workspace's skills, and offers the skills themselves. */
export async function openSkills(parts: SkillParts): Promise<SkillLibrary> {
  const { registry, config, workspace, store, sandbox, secrets, offerings, logger } = parts;
  const library = new SkillLibrary({
    registry,
    ...(store === undefined ? {} : { store }),
    workspace: workspace.directory,
    folders: skillFoldersOf(config, workspace.directory),
    unapproved: new Unapproved(workspace),
    names: config.skills?.toolNames ?? "id",
    logger,
    surroundings: {
      allowPrivate: reachableRanges(workspace.network.allowPrivate, config.skills ?? {}, process.env),
      readSecret: async (name) => (await secrets())?.get(name),
      sandbox,
      logger,
    },
  });
  offerings.add(new SkillOfferings(library));
  await library.reload();
  return library;
}

/** A folder that is no skill, although it has a `SKILL.md`. */
export interface FailedFolder {
  /** Relative to the workspace. */
  readonly folder: string;
  readonly reason: string;
}

interface SkillPlaces {
  /** Absolute. */
  readonly workspace: string;
  /** Absolute folders, each of whose folders may be a skill. */
  readonly folders: readonly string[];
  readonly sandbox: () => Promise<Sandbox>;
  /** Says which folders wait for an admin because a tool call wrote them. Default: none. */
  readonly unapproved?: Pick<Unapproved, "skills" | "approveSkill">;
}

/** Reads folders, and remembers what it read as long as nothing in them changes. */
export class FolderReader {
  readonly #places: SkillPlaces;
  readonly #read = new Map<string, { revision: string; folder: SkillFolder | Error }>();

  constructor(places: SkillPlaces) {
    this.#places = places;
  }

  async readAll(): Promise<{ skills: LoadedSkill[]; failed: FailedFolder[] }> {
    const skills: LoadedSkill[] = [];
    const failed: FailedFolder[] = [];
    const directories = await findSkillFolders(this.#places.folders);
    const heldBack = await this.#places.unapproved?.skills();
    for (const known of this.#read.keys()) if (!directories.includes(known)) this.#read.delete(known);
    for (const directory of directories) {
      const held = await heldBack?.(directory);
      const revision = `${await revisionOf(directory)}${held === undefined ? "" : " not trusted"}`;
      const folder = await this.#readOne(directory, revision, held === undefined);
      const place = relative(this.#places.workspace, directory);
      if (folder instanceof Error) {
        failed.push({ folder: place, reason: folder.message });
        continue;
      }
      const twin = skills.find(({ id, name }) => id === folder.skill.id || name === folder.skill.name);
      if (twin !== undefined) {
        const reason = `Another folder has the skill "${twin.name}" already. Give one of them another name.`;
        failed.push({ folder: place, reason });
        continue;
      }
      skills.push(withTrust(toLoaded(folder, directory, place, revision), held));
    }
    return { skills, failed };
  }

  async #readOne(directory: string, revision: string, trusted: boolean): Promise<SkillFolder | Error> {
    const known = this.#read.get(directory);
    if (known?.revision === revision) return known.folder;
    const folder = await this.#readAnew(directory, trusted).catch((thrown: unknown) =>
      thrown instanceof Error ? thrown : new Error(String(thrown)),
    );
    this.#read.set(directory, { revision, folder });
    return folder;
  }

  async #readAnew(directory: string, trusted: boolean): Promise<SkillFolder> {
    const folder = await readSkillFolder(directory, { sandbox: this.#places.sandbox, trusted });
    const { isWhole } = await listSkillFiles(directory);
    return isWhole ? folder : { ...folder, warnings: [...folder.warnings, tooManyFiles] };
  }
}

function toLoaded(
  { skill, tools, warnings }: SkillFolder,
  directory: string,
  place: string,
  revision: string,
): LoadedSkill {
  const time = 0;
  return {
    description: "",
    instructions: "",
    frontMatter: {},
    enabled: true,
    ...skill,
    sourcePath: place,
    trusted: true,
    createdAt: time,
    updatedAt: time,
    owner: "folder",
    directory,
    revision,
    warnings,
    tools: tools.map((tool) => ({
      description: "",
      usage: "",
      enabled: true,
      ...tool,
      skillId: skill.id,
      createdAt: time,
      updatedAt: time,
    })),
  };
}

/** A skill whose folder a tool call wrote is like one that came from elsewhere, until an admin trusts it. */
export function withTrust(skill: LoadedSkill, held: string | undefined): LoadedSkill {
  if (held === undefined) return skill;
  const warning = `${held} It has no network and no secrets until an admin trusts it: toolrack skills trust "${skill.name}"`;
  return { ...skill, trusted: false, warnings: [...skill.warnings, warning] };
}

/** A skill that a folder and the tables both have is that of the tables; the folder is reported. */
export function withOneOwner(
  inFolders: readonly LoadedSkill[],
  stored: readonly LoadedSkill[],
): { skills: LoadedSkill[]; shadowed: FailedFolder[] } {
  const ids = new Set(stored.map(({ id }) => id));
  const names = new Set(stored.map(({ name }) => name));
  const isShadowed = ({ id, name }: LoadedSkill) => ids.has(id) || names.has(name);
  return {
    skills: [...inFolders.filter((skill) => !isShadowed(skill)), ...stored],
    shadowed: inFolders.filter(isShadowed).map(({ name, sourcePath = "" }) => ({
      folder: sourcePath,
      reason: `The database has the skill "${name}", and a skill has one owner. Delete one of the two.`,
    })),
  };
}

/** A skill of the tables with its tools, and its files where scripts find them. */
export async function loadStoredSkill(
  skill: StoredSkill,
  tools: readonly StoredSkillTool[],
  store: Pick<SkillStore, "listFiles">,
  workspace: string,
): Promise<LoadedSkill> {
  const warnings: string[] = [];
  const directory = await directoryOf(skill, tools, store, workspace).catch((thrown: Error) => {
    warnings.push(thrown.message);
    return undefined;
  });
  return {
    ...skill,
    owner: "database",
    ...(directory === undefined ? {} : { directory }),
    // The folder's name is made of the files' content.
    revision: `${skill.updatedAt}`,
    warnings,
    tools,
  };
}

async function directoryOf(
  { id, sourcePath, trusted }: StoredSkill,
  tools: readonly StoredSkillTool[],
  store: Pick<SkillStore, "listFiles">,
  workspace: string,
): Promise<string | undefined> {
  if (!tools.some(({ type }) => type === "script")) return undefined;
  const files = await store.listFiles(id);
  if (files.length > 0) return materialise(join(workspace, ".toolrack", "skills"), id, files);
  if (sourcePath === undefined) return undefined;
  if (!trusted) throw new Error(`Its scripts are given the folder ${sourcePath} once the skill is trusted.`);
  return confined(sourcePath, workspace);
}

/** Scripts see the whole folder, so it must be one of the workspace, and none that holds its settings. */
async function confined(sourcePath: string, workspace: string): Promise<string> {
  const [root, real] = await Promise.all([
    realpath(workspace),
    realpath(resolve(workspace, sourcePath)).catch(() => undefined),
  ]);
  if (real === undefined) throw new Error(`Its folder ${sourcePath} does not exist.`);
  const inside = relative(root, real);
  if (inside === "" || inside.startsWith("..") || inside.split(sep)[0] === ".toolrack") {
    throw new Error(`Its folder ${sourcePath} must be a folder inside the workspace.`);
  }
  return real;
}

/** Changes whenever a file below the folder does. */
async function revisionOf(directory: string): Promise<string> {
  const hash = createHash("sha256");
  const names = await readdir(directory, { recursive: true }).catch(() => []);
  for (const name of names.sort()) {
    const found = await stat(join(directory, name)).catch(() => undefined);
    if (found?.isFile()) hash.update(`${name}\0${found.size}\0${found.mtimeMs}\0${found.ino}\0`);
  }
  return hash.digest("hex");
}

export type OpenAITool = ReturnType<typeof toOpenAITools>["tools"][number];

/** A definition with what we know of the tool beside it. `_meta` never goes to a model. */
interface SkillToolDefinition extends OpenAITool {
  readonly _meta: SkillToolInfo;
}

interface SkillLoaderParts {
  readonly registry: ToolRegistry;
  readonly library: SkillLibrary;
}

/** Skills and their tools as OpenAI definitions. A thin face: the rack holds the tools, and runs them. */
export class SkillLoader {
  readonly #parts: SkillLoaderParts;

  constructor(parts: SkillLoaderParts) {
    this.#parts = parts;
  }

  /** Of an expert by its id or name, in its order. Throws `SkillMissingError`. */
  async loadSkillsForExpert(expertId: string): Promise<LoadedSkill[]> {
    const { library } = this.#parts;
    return library.experts.require(expertId).skills.flatMap((id) => library.find(id) ?? []);
  }

  /** Those that can be called: neither failed nor switched off. */
  async loadSkillTools(skill: LoadedSkill): Promise<SkillToolDefinition[]> {
    return skill.tools.flatMap((tool) => {
      const info = this.#parts.registry.get(tool.id);
      return info === undefined || info.disabled ? [] : [this.convertToolToOpenAIFormat(tool, skill)];
    });
  }

  /** Throws `ToolNotFoundError` for a tool that is not on the rack; `library.failureOf` says why. */
  convertToolToOpenAIFormat(tool: Pick<StoredSkillTool, "id">, _skill?: LoadedSkill): SkillToolDefinition {
    const info = this.#parts.registry.require(tool.id);
    const meta = skillToolInfo(info);
    if (meta === undefined) throw new Error(`"${tool.id}" is no tool of a skill.`);
    return { ...definitionOf(info), _meta: meta };
  }

  /** Through the one pipeline, like any call. Never rejects. */
  executeSkillTool(
    skillId: string,
    toolName: string,
    params: unknown,
    context: CallOptions = {},
  ): Promise<ToolResult> {
    const { registry, library } = this.#parts;
    const tool = library.find(skillId)?.tools.find(({ name }) => name === toolName);
    return registry.execute(tool?.id ?? `${skillId}_${toolName}`, params, context);
  }
}

function definitionOf(info: ToolInfo): OpenAITool {
  return toOpenAITools([info]).tools[0]!;
}

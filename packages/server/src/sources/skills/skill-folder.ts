import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { isCanonicalName } from "@toolrack/core";
import type { Sandbox } from "../../runners/sandbox/types.ts";
import type { NewSkill, NewSkillTool } from "../../store/skills/skill-store.ts";
import { discoverTools } from "./discover-tools.ts";
import { LARGEST_SKILL_TEXT, readSkillText } from "./front-matter.ts";
import { readRegularFile } from "./read-regular-file.ts";
import { isReservedName, reservedNameReason } from "./reserved-names.ts";
import { shortHash } from "./tool-names.ts";
import { readToolsFile } from "./tools-file.ts";

/** What a folder with a `SKILL.md` says. */
export interface SkillFolder {
  readonly skill: NewSkill & { readonly id: string };
  readonly tools: readonly (NewSkillTool & { readonly id: string })[];
  readonly warnings: readonly string[];
}

/** What we say in `metadata` of a `SKILL.md` for what its format has no word for. */
export const skillMetadataKeys = {
  id: "toolrack-id",
  title: "toolrack-title",
  mark: "toolrack-mark",
  sourcePath: "toolrack-source-path",
  enabled: "toolrack-enabled",
} as const;

const LARGEST_TOOLS_FILE = 10 * 1024 * 1024;

/** Folders with a `SKILL.md`, below these, by name. A folder that does not exist is empty. */
export async function findSkillFolders(parents: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const parent of parents) {
    const names = await readdir(parent).catch(() => []);
    for (const name of names.sort()) {
      if (!name.startsWith(".") && existsSync(join(parent, name, "SKILL.md"))) found.push(join(parent, name));
    }
  }
  return found;
}

/**
 * Reads a skill's folder. Ids that it does not give are made of names, so that they are the same on every machine.
 * Nothing of it is evaluated outside the sandbox. Throws with the file that is wrong.
 */
export async function readSkillFolder(
  directory: string,
  { sandbox, trusted }: { readonly sandbox: () => Promise<Sandbox>; readonly trusted: boolean },
): Promise<SkillFolder> {
  const text = await readRegularFile(join(directory, "SKILL.md"), LARGEST_SKILL_TEXT);
  const { frontMatter, body, source } = await readSkillText(text.toString("utf8"));
  const { name: written, description, metadata, ...rest } = frontMatter;
  const folder = basename(directory);
  const name = typeof written === "string" && written.trim() !== "" ? written.trim() : folder;
  const own = typeof metadata === "object" && metadata !== null ? (metadata as Record<string, unknown>) : {};
  const id = readId(own[skillMetadataKeys.id]) ?? idOf(name);
  const title = textOf(own[skillMetadataKeys.title]) ?? name;
  const mark = textOf(own[skillMetadataKeys.mark]);
  const sourcePath = textOf(own[skillMetadataKeys.sourcePath]);
  const others = Object.entries(own).filter(
    ([key]) => !Object.values<string>(skillMetadataKeys).includes(key),
  );

  const toolsFile = join(directory, "tools.json");
  const { tools, warnings } = existsSync(toolsFile)
    ? {
        tools: readToolsFile((await readRegularFile(toolsFile, LARGEST_TOOLS_FILE)).toString("utf8")),
        warnings: [],
      }
    : await discoverTools({ name: title, directory, trusted, body }, sandbox);
  return {
    skill: {
      id,
      name: title,
      ...(mark === undefined ? {} : { mark }),
      description: typeof description === "string" ? description : "",
      instructions: body,
      frontMatter: {
        // Only when it says more than the title does.
        ...(name === title ? {} : { name }),
        ...rest,
        ...(others.length === 0 ? {} : { metadata: Object.fromEntries(others) }),
      },
      ...(source === undefined ? {} : { frontMatterText: source }),
      ...(sourcePath === undefined ? {} : { sourcePath }),
      enabled: own[skillMetadataKeys.enabled] !== "false",
      trusted,
    },
    tools: tools.map((tool) => ({ ...tool, id: tool.id ?? `t${shortHash(`${id}/${tool.name}`)}` })),
    warnings: [...formatWarnings(name, folder, description), ...warnings],
  };
}

/** What other programs would refuse. Here it works all the same. */
function formatWarnings(name: string, folder: string, description: unknown): string[] {
  const warnings: string[] = [];
  if (!/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) || name.length > 64) {
    warnings.push(`The name "${name}" should be lower-case letters and digits, joined by single dashes.`);
  } else if (name !== folder) {
    warnings.push(`The name "${name}" should be that of the folder, "${folder}".`);
  }
  if (typeof description !== "string" || description.trim() === "") {
    warnings.push("It has no description, so models cannot tell when to use it.");
  } else if (description.length > 1024) warnings.push("Its description is longer than 1,024 characters.");
  return warnings;
}

/** It becomes part of names and paths. Throws for one that cannot. */
function readId(value: unknown): string | undefined {
  const id = textOf(value);
  if (id === undefined) return undefined;
  const field = `metadata.${skillMetadataKeys.id}`;
  if (!isCanonicalName(id)) throw new Error(`${field} must be letters, digits, _ and -, at most 64.`);
  if (isReservedName(id)) throw new Error(`${field}: ${reservedNameReason}`);
  return id;
}

function idOf(name: string): string {
  return isCanonicalName(name) && !isReservedName(name) ? name : `s${shortHash(name)}`;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

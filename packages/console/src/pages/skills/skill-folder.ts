import type { Skill, SkillTool } from "../../api/skill-types.ts";
import { isRecord } from "../../schema/is-record.ts";
import { readSkillText, writeSkillText } from "./front-matter.ts";
import type { ZipFile } from "./zip.ts";

/** What a folder with a `SKILL.md` holds, in the form that the API takes. */
export interface FolderContent {
  readonly skill: {
    readonly name: string;
    readonly description: string;
    readonly mark?: string;
    readonly instructions: string;
    readonly frontMatter: Readonly<Record<string, unknown>>;
  };
  readonly isEnabled: boolean;
  readonly tools: readonly Readonly<Record<string, unknown>>[];
  readonly files: Readonly<Record<string, string>>;
  /** Files that are no text and cannot be brought this way. */
  readonly left: readonly string[];
}

/** Where `toolrack skills export` keeps what SKILL.md has no word for. */
const ID = "toolrack-id";
const TITLE = "toolrack-title";
const MARK = "toolrack-mark";
const ENABLED = "toolrack-enabled";

/** Reads a folder's files by their paths below it. Throws `FrontMatterError`, and for a tools.json that is no list. */
export function readFolder(texts: ReadonlyMap<string, string | undefined>): FolderContent | undefined {
  const skillText = texts.get("SKILL.md");
  if (skillText === undefined) return undefined;
  const { frontMatter, body } = readSkillText(skillText);
  const metadata = isRecord(frontMatter.metadata) ? frontMatter.metadata : {};
  const { name, description, metadata: _metadata, ...rest } = frontMatter;
  const othersMetadata = Object.entries(metadata).filter(([key]) => !key.startsWith("toolrack-"));
  const others = [...texts].filter(([path]) => path !== "SKILL.md" && path !== "tools.json");
  const mark = metadata[MARK];
  return {
    skill: {
      name: String(metadata[TITLE] ?? name ?? ""),
      description: String(description ?? ""),
      ...(typeof mark === "string" ? { mark } : {}),
      instructions: body,
      frontMatter: {
        ...(name === undefined ? {} : { name }),
        ...rest,
        ...(othersMetadata.length === 0 ? {} : { metadata: Object.fromEntries(othersMetadata) }),
      },
    },
    isEnabled: String(metadata[ENABLED] ?? "true") !== "false",
    tools: readTools(texts.get("tools.json")),
    files: Object.fromEntries(others.flatMap(([path, text]) => (text === undefined ? [] : [[path, text]]))),
    left: others.flatMap(([path, text]) => (text === undefined ? [path] : [])),
  };
}

/** The files of a skill as a folder that `toolrack skills import` reads. Files without a text are left out. */
export function folderOf(skill: Skill): { readonly name: string; readonly files: readonly ZipFile[] } {
  const name = folderName(skill);
  const { name: _name, metadata, ...rest } = skill.frontMatter ?? {};
  const own = {
    ...(isRecord(metadata) ? metadata : {}),
    [ID]: skill.id,
    ...(name === skill.name ? {} : { [TITLE]: skill.name }),
    ...(skill.mark === undefined ? {} : { [MARK]: skill.mark }),
    ...(skill.enabled ? {} : { [ENABLED]: "false" }),
  };
  const frontMatter = {
    name,
    description: skill.description,
    ...rest,
    metadata: own,
  };
  const file = (path: string, text: string, executable = false): ZipFile => ({
    path: `${name}/${path}`,
    content: new TextEncoder().encode(text),
    executable,
  });
  const tools = `${JSON.stringify({ tools: skill.tools.map(toolEntry) }, undefined, 2)}\n`;
  return {
    name,
    files: [
      file("SKILL.md", writeSkillText({ frontMatter, body: skill.instructions ?? "" })),
      ...(skill.tools.length === 0 ? [] : [file("tools.json", tools)]),
      ...skill.files
        .filter(({ path }) => path !== "SKILL.md" && path !== "tools.json")
        .flatMap(({ path, text, executable }) => (text === undefined ? [] : [file(path, text, executable)])),
    ],
  };
}

/** Lower-case letters, digits and dashes, as the format of skills wants it. */
function folderName({ name, id, frontMatter }: Skill): string {
  const written = typeof frontMatter?.name === "string" ? frontMatter.name : name;
  return slugOf(written) || `skill-${slugOf(id)}`;
}

function slugOf(text: string): string {
  return (text.toLowerCase().match(/[a-z0-9]+/g) ?? []).join("-").slice(0, 64).replace(/-+$/, "");
}

function toolEntry(tool: SkillTool): object {
  const { id, name, displayName, description, type, usage, command, endpoint, method, enabled } = tool;
  return {
    id,
    name,
    ...(displayName === undefined ? {} : { displayName }),
    description,
    type,
    ...(usage === undefined ? {} : { usage }),
    ...(command === undefined ? {} : { command }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(method === undefined ? {} : { method }),
    ...(enabled ? {} : { enabled }),
  };
}

function readTools(text: string | undefined): readonly Record<string, unknown>[] {
  if (text === undefined) return [];
  const value: unknown = JSON.parse(text);
  const list = isRecord(value) ? value.tools : value;
  if (!Array.isArray(list)) throw new Error('tools.json must be a list of tools, or {"tools": [...]}.');
  return list.filter(isRecord);
}

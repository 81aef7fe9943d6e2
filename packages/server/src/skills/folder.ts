import { createHash, randomUUID } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { lstat, mkdir, open, readdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isCanonicalName } from "@toolrack/core/internal";
import { isReservedName, reservedNameReason } from "../calls/index.ts";
import { asRecord, defined, isRecord } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { NewSkill, NewSkillTool, SkillFile } from "../store/index.ts";
import { discoverTools, moduleProblem, readToolsFile } from "./folder-tools.ts";
import { isSafePath, SkillFolderError, type SkillReason, shortHash } from "./skill.ts";
import type { InstallPackages } from "./skill-packages.ts";

/** The content of a folder with a `SKILL.md`. */
export interface SkillFolder {
  readonly skill: NewSkill & { readonly id: string };
  readonly tools: readonly (NewSkillTool & { readonly id: string })[];
  readonly warnings: readonly string[];
  /** Why the skill's module cannot be loaded; undefined when it can. */
  readonly problem?: SkillReason;
}

/** The keys in `metadata` of a `SKILL.md` for fields that its format lacks. */
export const skillMetadataKeys = {
  id: "toolrack-id",
  title: "toolrack-title",
  mark: "toolrack-mark",
  sourcePath: "toolrack-source-path",
  enabled: "toolrack-enabled",
} as const;

const LARGEST_TOOLS_FILE = 10 * 1024 * 1024;

/** Finds the folders in `parents` that have a `SKILL.md`, sorted by name. A missing parent is skipped. */
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

interface ReadFolderOptions {
  readonly sandbox: () => Promise<Sandbox>;
  /** Without it, packages that the skill declares are not installed to learn its tools. */
  readonly install?: InstallPackages;
  readonly trusted: boolean;
  /** A copy of the folder that the skill's module is run from. Default: the folder itself. */
  readonly code?: string;
  /** Whether the modules that a `tools.json` names are parsed too. Without a `tools.json`, `getTools()` loads them. */
  readonly parsesModules?: boolean;
}

/**
 * Reads a skill's folder. Missing ids are made from names, so that they are the same on every machine. The
 * skill's code runs only in the sandbox. Throws an error that names the wrong file.
 */
export async function readSkillFolder(
  directory: string,
  { sandbox, install, trusted, code, parsesModules = false }: ReadFolderOptions,
): Promise<SkillFolder> {
  const { frontMatter, body, source } = await readSkillFile(directory);
  const { name: written, description, metadata, ...rest } = frontMatter;
  const folder = basename(directory);
  const name = typeof written === "string" && written.trim() !== "" ? written.trim() : folder;
  const own = asRecord(metadata);
  const field = (key: keyof typeof skillMetadataKeys) => textOf(own[skillMetadataKeys[key]]);
  const id = checkedId(field("id")) ?? idOf(name);
  const title = field("title") ?? name;
  const ownKeys = new Set<string>(Object.values(skillMetadataKeys));
  const others = Object.entries(own).filter(([key]) => !ownKeys.has(key));

  const toolsFile = join(directory, "tools.json");
  const place = { name: title, directory, trusted, body, ...defined({ code }) };
  const listed = existsSync(toolsFile)
    ? readToolsFile(String(await readRegularFile(toolsFile, LARGEST_TOOLS_FILE)))
    : undefined;
  const { tools, warnings, problem } =
    listed === undefined
      ? await discoverTools(place, sandbox, install)
      : {
          tools: listed,
          warnings: [],
          problem: parsesModules ? await moduleProblem(place, listed, sandbox) : undefined,
        };
  return {
    skill: {
      id,
      name: title,
      ...defined({ mark: field("mark"), frontMatterText: source, sourcePath: field("sourcePath") }),
      description: typeof description === "string" ? description : "",
      instructions: body,
      frontMatter: {
        // The name is kept only when it differs from the title.
        ...(name === title ? {} : { name }),
        ...rest,
        ...(others.length === 0 ? {} : { metadata: Object.fromEntries(others) }),
      },
      enabled: field("enabled") !== "false",
      trusted,
    },
    tools: tools.map((tool) => ({ ...tool, id: tool.id ?? `t${shortHash(`${id}/${tool.name}`)}` })),
    warnings: [...formatWarnings(name, folder, description), ...warnings],
    ...defined({ problem }),
  };
}

/** Warnings about names and descriptions that other programs would refuse, although they work here. */
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

/** Throws for an id that cannot be part of names and paths. */
function checkedId(id: string | undefined): string | undefined {
  if (id === undefined) return undefined;
  const field = `metadata.${skillMetadataKeys.id}`;
  if (!isCanonicalName(id)) throw idInvalid(`${field} must be letters, digits, _ and -, at most 64.`, id);
  if (isReservedName(id)) throw idInvalid(`${field}: ${reservedNameReason}`, id);
  return id;
}

function idInvalid(text: string, id: string): SkillFolderError {
  return new SkillFolderError("id_invalid", text, { id });
}

function idOf(name: string): string {
  return isCanonicalName(name) && !isReservedName(name) ? name : `s${shortHash(name)}`;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

interface SkillText {
  readonly frontMatter: Readonly<Record<string, unknown>>;
  /** The Markdown below the front matter. */
  readonly body: string;
  /** The original YAML with its comments. The current values are in `frontMatter`. */
  readonly source?: string;
}

const LARGEST_SKILL_TEXT = 1024 * 1024;
/** Many YAML aliases could expand to fill the memory; no skill needs more. */
const MOST_ALIASES = 20;

/** Reads the `SKILL.md` of a folder. Throws an error that names the file or its wrong line. */
export async function readSkillFile(directory: string): Promise<SkillText & { readonly content: Buffer }> {
  const content = await readRegularFile(join(directory, "SKILL.md"), LARGEST_SKILL_TEXT);
  return { ...(await readSkillText(content.toString("utf8"))), content };
}

/** Parses a `SKILL.md`. Throws an error with the wrong line. */
export async function readSkillText(text: string): Promise<SkillText> {
  if (text.length > LARGEST_SKILL_TEXT)
    throw new SkillFolderError("skill_text_large", "SKILL.md is larger than 1 MiB.");
  const found = /^\uFEFF?---[ \t]*\r?\n(?:([\s\S]*?)\r?\n)??---[ \t]*(?:\r?\n|$)/.exec(text);
  if (found === null) {
    if (/^\uFEFF?---[ \t]*(?:\r?\n|$)/.test(text))
      throw new SkillFolderError(
        "front_matter_endless",
        "The front matter has no end. Close it with a line of three dashes.",
      );
    return { frontMatter: {}, body: text };
  }
  const source = found[1] ?? "";
  const body = text.slice(found[0].length);
  // Imported late: most starts of the program read no front matter.
  const { parseDocument } = await import("yaml");
  const document = parseDocument(source, { prettyErrors: true, uniqueKeys: true });
  const problem = document.errors[0];
  if (problem !== undefined) {
    // The parser did not see the first line, the dashes, so its line numbers are too low by one.
    const line = (problem.linePos?.[0].line ?? 0) + 1;
    const said = String(problem.message.split("\n")[0]);
    const text = `The front matter is not YAML (line ${line}): ${said}`;
    throw new SkillFolderError("front_matter_invalid", text, { line, said });
  }
  const value: unknown = document.toJS({ maxAliasCount: MOST_ALIASES });
  if (value === null || value === undefined) return { frontMatter: {}, body };
  if (typeof value !== "object" || Array.isArray(value)) {
    throw new SkillFolderError("front_matter_no_map", "The front matter must be a map such as `name: pdf`.");
  }
  // Turns values that JSON lacks, such as dates, into JSON.
  return { frontMatter: JSON.parse(JSON.stringify(value)), body, source };
}

/** Makes the text of a `SKILL.md`. Values that have not changed stay as they are written in `source`. */
export async function writeSkillText({ frontMatter, body, source }: SkillText): Promise<string> {
  const { stringify } = await import("yaml");
  const yaml =
    source === undefined
      ? stringify(frontMatter, { lineWidth: 0 })
      : await rewriteYaml(source, frontMatter).catch(() => stringify(frontMatter, { lineWidth: 0 }));
  const end = yaml.includes("\r\n") ? "\r\n" : "\n";
  return `---${end}${yaml}${yaml.endsWith("\n") ? "" : end}---${end}${body}`;
}

const MOST_FILES = 1_000;
const MOST_BYTES = 20 * 1024 * 1024;
const skipped = new Set(["node_modules", ".git", "__pycache__", ".DS_Store"]);

/** Tells people that a folder is too large. */
export const tooManyFiles = `It has more than ${MOST_FILES.toLocaleString("en-US")} files or 20 MiB, and can be neither shown, imported nor exported as a whole. Keep what is not needed elsewhere.`;

/** The files of a skill's folder, sorted by path, without links. Throws for a folder that is too large. */
export async function readSkillFiles(folder: string): Promise<SkillFile[]> {
  const { files, isWhole } = await readFirstSkillFiles(folder);
  if (!isWhole) throw new Error(tooManyFiles);
  return files;
}

/** Like `readSkillFiles`, but returns only the first files of a folder that is too large. */
export async function readFirstSkillFiles(folder: string): Promise<{ files: SkillFile[]; isWhole: boolean }> {
  const listed = await listSkillFiles(folder);
  const files: SkillFile[] = [];
  for (const { path, executable } of listed.files) {
    files.push({ path, content: await readRegularFile(join(folder, path), MOST_BYTES), executable });
  }
  return { files, isWhole: listed.isWhole };
}

/** The files without `SKILL.md` and `tools.json`. */
export function otherFiles(files: readonly SkillFile[]): SkillFile[] {
  return files.filter(({ path }) => path !== "SKILL.md" && path !== "tools.json");
}

/** Lists the files of a skill's folder without reading them. `isWhole` is false when there were too many. */
export async function listSkillFiles(folder: string) {
  const files: Omit<SkillFile, "content">[] = [];
  let size = 0;
  /** Returns false when the limit is reached. */
  const walk = async (path: string): Promise<boolean> => {
    const entries = await readdir(join(folder, path), { withFileTypes: true });
    for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
      if (skipped.has(entry.name)) continue;
      const own = path === "" ? entry.name : `${path}/${entry.name}`;
      if (entry.isDirectory() && !(await walk(own))) return false;
      if (!entry.isFile()) continue;
      const { mode, size: bytes } = await lstat(join(folder, own));
      size += bytes;
      if (size > MOST_BYTES || files.length === MOST_FILES) return false;
      files.push({ path: own, executable: (mode & 0o100) !== 0 });
    }
    return true;
  };
  return { isWhole: await walk(""), files };
}

/** Throws for a path that would leave the folder. */
export async function writeSkillFiles(folder: string, files: readonly SkillFile[]): Promise<void> {
  for (const { path, content, executable } of files) {
    if (!isSafePath(path)) throw new Error(`"${path}" cannot be the path of a file of a skill.`);
    const target = join(folder, path);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, content, { mode: executable ? 0o755 : 0o644 });
  }
}

/**
 * Makes a folder with exactly these files, unless it exists already: each content has a folder of its own.
 * Several processes may do so at once. The folder's name consists of hashes, because the skill's author chose
 * the id, which must not become part of a path.
 */
export async function materialise(parent: string, id: string, files: readonly SkillFile[]): Promise<string> {
  const hash = createHash("sha256");
  for (const { path, content, executable } of files) {
    hash.update(`${path}\0${content.length}\0${executable}\0`).update(content);
  }
  const name = createHash("sha256").update(id).digest("hex").slice(0, 16);
  const folder = join(parent, `${name}-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(folder)) {
    // `pruneMaterialised` takes this modification time as the time of the last use.
    await utimes(folder, new Date(), new Date()).catch(() => {});
    return folder;
  }
  const temporary = join(parent, `.${randomUUID()}`);
  await mkdir(temporary, { recursive: true, mode: 0o755 });
  try {
    await writeSkillFiles(temporary, files);
    await rename(temporary, folder);
  } catch (thrown) {
    await rm(temporary, { recursive: true, force: true });
    // Another process made the same folder first.
    const { code } = thrown as NodeJS.ErrnoException;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw thrown;
  }
  return folder;
}

/** How long an unused folder is kept, in milliseconds: calls may still run in it. */
const KEPT_MS = 24 * 60 * 60_000;

/** Deletes old folders of `materialise` that are not in use. Ignores failures. */
export async function pruneMaterialised(parent: string, inUse: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    const folder = join(parent, name);
    const made = inUse.has(folder) ? undefined : await lstat(folder).catch(() => undefined);
    if (made === undefined || Date.now() - made.mtimeMs < KEPT_MS) continue;
    await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
}

/** Windows lacks O_NOFOLLOW and O_NONBLOCK; there, only the `lstat` before opening protects. */
const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * Reads a file that somebody else may have put there. Refuses, before reading, a link (it could lead to a secret), a
 * pipe (it would never end), and a file that is too large.
 */
export async function readRegularFile(path: string, largest: number): Promise<Buffer> {
  const name = basename(path);
  const irregular = new Error(`${name} must be a regular file: links, pipes and devices are not read.`);
  if (!(await lstat(path)).isFile()) throw irregular;
  const file = await open(path, flags).catch((thrown: NodeJS.ErrnoException) => {
    throw thrown.code === "ELOOP" ? irregular : thrown;
  });
  try {
    const found = await file.stat();
    if (!found.isFile()) throw irregular;
    if (found.size > largest) throw new Error(`${name} is larger than ${largest / (1024 * 1024)} MiB.`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

type YamlMap = Readonly<Record<string, unknown>>;

/**
 * Changes a YAML map until it has the values of `wanted`. Only differences are rewritten: other numbers,
 * quotes and comments stay. Throws when the YAML is no map, or an alias would lose its target.
 */
async function rewriteYaml(source: string, wanted: YamlMap): Promise<string> {
  const { parseDocument, stringify } = await import("yaml");
  const known: unknown = JSON.parse(
    JSON.stringify(parseDocument(source).toJS({ maxAliasCount: MOST_ALIASES })),
  );
  if (!isRecord(known)) throw new Error("The YAML is no map.");
  // YAML's `failsafe` schema keeps the original text of every value, such as `1.0` or `yes`.
  const document = parseDocument(source, { schema: "failsafe" });
  const toNode = (value: unknown) =>
    parseDocument(stringify(value, { lineWidth: 0 }), { schema: "failsafe" }).contents;
  let isChanged = false;
  const edit = (path: readonly string[], old: YamlMap, next: YamlMap): void => {
    for (const key of new Set([...Object.keys(old), ...Object.keys(next)])) {
      const own = [...path, key];
      const [before, value] = [old[key], next[key]];
      if (JSON.stringify(before) === JSON.stringify(value)) continue;
      if (isRecord(before) && isRecord(value)) {
        edit(own, before, value);
        continue;
      }
      isChanged = true;
      if (value === undefined) document.deleteIn(own);
      else document.setIn(own, toNode(value));
    }
  };
  edit([], known, wanted);
  return isChanged ? document.toString({ lineWidth: 0 }) : source;
}

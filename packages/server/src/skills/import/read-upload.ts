import { randomUUID } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { readSkillText } from "../../sources/skills/front-matter.ts";
import { isSafePath, writeSkillFiles } from "../../sources/skills/skill-files.ts";
import type { SkillFile } from "../../store/skills/skill-store.ts";
import { SkillInputError } from "../skill-input-error.ts";
import type { ImportedTables } from "./from-tables.ts";
import { type ImportOptions, readImport } from "./read-import.ts";

/**
 * Reads what somebody sent as files, exactly like the same files in a folder. For as long as that takes they lie below
 * `parent`, which whoever is told of trouble does not learn. Throws `SkillInputError`.
 */
export async function readUpload(
  parent: string,
  files: readonly SkillFile[],
  options: ImportOptions,
): Promise<ImportedTables> {
  if (files.length === 0) throw SkillInputError.of("files", "There is none.");
  for (const { path } of files) {
    if (!isSafePath(path)) throw SkillInputError.of("files", `"${path}" is no path for a file.`);
  }
  const folder = join(parent, `.${randomUUID()}`);
  const told = (text: string) => text.replaceAll(`${folder}/`, "").replaceAll(folder, "What was sent");
  try {
    await mkdir(folder, { recursive: true, mode: 0o755 });
    const placed = await inFolder(files);
    if (placed === undefined) {
      const failed = [{ name: "SKILL.md", reason: nameless }];
      return { bundles: [], experts: [], failed, warnings: [] };
    }
    await writeSkillFiles(folder, placed);
    const found = await readImport([join(folder, commonFolder(placed))], options);
    return {
      ...found,
      failed: found.failed.map(({ name, reason }) => ({ name, reason: told(reason) })),
      warnings: found.warnings.map(told),
    };
  } catch (thrown) {
    throw SkillInputError.of("files", told(thrown instanceof Error ? thrown.message : String(thrown)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const nameless =
  "It has no name, and its folder, which could have given it one, was not sent with it. Begin it with front matter that says `name: my-skill` between two lines of three dashes, or send the folder.";

/**
 * A skill whose folder was not sent with it is put into one of its name, as the format wants it. Undefined when it has
 * none.
 */
async function inFolder(files: readonly SkillFile[]): Promise<readonly SkillFile[] | undefined> {
  const text = files.find(({ path }) => path === "SKILL.md")?.content.toString("utf8");
  if (text === undefined) return files;
  // What is wrong with it is said by whoever reads the skill.
  const name = await readSkillText(text).then(
    ({ frontMatter }) => frontMatter.name ?? "",
    () => undefined,
  );
  if (typeof name === "string" && name.trim() === "") return undefined;
  const folder = typeof name === "string" && /^[a-z0-9-]{1,64}$/.test(name) ? name : "skill";
  return files.map((file) => ({ ...file, path: `${folder}/${file.path}` }));
}

/** The one folder that all files lie in; nothing when there is none. */
function commonFolder(files: readonly SkillFile[]): string {
  const first = files[0]!.path.split("/")[0]!;
  return files.every(({ path }) => path.startsWith(`${first}/`)) ? first : "";
}

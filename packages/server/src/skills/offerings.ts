import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { extname, join } from "node:path";
import type {
  OfferedDirectory,
  OfferedPrompt,
  OfferedResource,
  OfferedSkill,
  OfferingChange,
  OfferingReader,
  OfferingSource,
  PromptAnswer,
  ResourceAnswer,
} from "../calls/index.ts";
import type { SkillFile } from "../store/index.ts";
import { folderNames, skillTextOf } from "./export.ts";
import { LARGEST_SKILL_TEXT, readRegularFile, readSkillText } from "./folder.ts";
import type { LoadedSkill } from "./skill.ts";
import type { SkillLibrary } from "./skill-library.ts";

interface ReadSkill {
  readonly skill: LoadedSkill;
  /** `skill://{path}` */
  readonly base: string;
  readonly name: string;
  readonly frontMatter: Readonly<Record<string, unknown>>;
  readonly body: string;
  /** `SKILL.md` and everything beside it but `tools.json`, which is for the rack only. */
  readonly files: readonly SkillFile[];
}

/** Offers skills over MCP: each as a prompt, its files as resources, and an entry of the skills extension. */
export class SkillOfferings implements OfferingSource {
  readonly key = "skills";
  readonly #library: SkillLibrary;
  /** By the skill's id. Read again only when the skill is another object. */
  readonly #read = new Map<string, { skill: LoadedSkill; name: string; read: Promise<ReadSkill> }>();

  /** Digests of the files, which every list needs. */
  readonly #digests = new WeakMap<SkillFile, `sha256:${string}`>();

  constructor(library: SkillLibrary) {
    this.#library = library;
  }

  async prompts(reader: OfferingReader): Promise<OfferedPrompt[]> {
    const skills = await this.#visible(reader);
    return skills.filter(isInvocable).map(({ name, skill }) => ({
      name,
      title: skill.name,
      description: skill.description,
      arguments: [{ name: "task", description: "What to do with the skill.", required: false }],
    }));
  }

  async getPrompt(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined> {
    const found = (await this.#visible(reader)).find((skill) => skill.name === name && isInvocable(skill));
    if (found === undefined) return undefined;
    const tools = found.skill.tools
      .flatMap(({ id, name: tool }) => {
        const rackName = this.#library.nameOf(id);
        return rackName === undefined ? [] : [`- ${tool}: call \`${rackName}\``];
      })
      .join("\n");
    const text = [
      found.body.trim() || found.skill.description,
      ...(tools === "" ? [] : [`Tools of this skill:\n${tools}`]),
      ...(args.task === undefined || args.task === "" ? [] : [`Task: ${args.task}`]),
    ].join("\n\n");
    return {
      description: found.skill.description,
      messages: [{ role: "user", content: { type: "text", text } }],
    };
  }

  async resources(reader: OfferingReader): Promise<OfferedResource[]> {
    return (await this.#visible(reader)).flatMap((skill) =>
      skill.files.map((file) => toResource(skill, file)),
    );
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    for (const skill of await this.#visible(reader)) {
      const file = skill.files.find(({ path }) => uriOf(skill, path) === uri);
      if (file !== undefined) return { contents: [{ uri, mimeType: typeOf(file), ...contentOf(file) }] };
    }
    return undefined;
  }

  async skills(reader: OfferingReader): Promise<OfferedSkill[]> {
    return (await this.#visible(reader)).map((skill) => ({
      uri: uriOf(skill, "SKILL.md"),
      frontmatter: skill.frontMatter,
      resources: skill.files.map((file) => ({
        uri: uriOf(skill, file.path),
        digest: this.#digestOf(file),
        size: file.content.length,
      })),
    }));
  }

  async readDirectory(uri: string, reader: OfferingReader): Promise<OfferedDirectory | undefined> {
    let end = uri.length;
    while (uri[end - 1] === "/") end--;
    const wanted = uri.slice(0, end);
    for (const skill of await this.#visible(reader)) {
      if (wanted !== skill.base && !wanted.startsWith(`${skill.base}/`)) continue;
      const below = skill.files.filter(({ path }) => uriOf(skill, path).startsWith(`${wanted}/`));
      if (below.length === 0) return undefined;
      const depth = wanted.split("/").length;
      const level = new Map<string, OfferedResource>();
      for (const file of below) {
        const whole = uriOf(skill, file.path);
        const parts = whole.split("/");
        const own = parts.slice(0, depth + 1).join("/");
        const isFile = parts.length === depth + 1;
        level.set(own, isFile ? toResource(skill, file) : folderResource(own));
      }
      return { resources: [...level.values()] };
    }
    return undefined;
  }

  subscribe(listener: (change: OfferingChange) => void): () => void {
    return this.#library.subscribe(() => {
      listener({ kind: "skills" });
      listener({ kind: "prompts" });
      listener({ kind: "resources" });
    });
  }

  #digestOf(file: SkillFile): `sha256:${string}` {
    const known = this.#digests.get(file);
    if (known !== undefined) return known;
    const digest = `sha256:${createHash("sha256").update(file.content).digest("hex")}` as const;
    this.#digests.set(file, digest);
    return digest;
  }

  async #visible(reader: OfferingReader): Promise<ReadSkill[]> {
    const expert = reader.expert === undefined ? undefined : this.#library.experts.find(reader.expert);
    if (reader.expert !== undefined && expert === undefined) return [];
    const all = this.#library.list();
    const names = folderNames(all);
    const nameOf = ({ id }: LoadedSkill) => names.get(id)!;
    const skills = all.filter((skill) => {
      if (!skill.enabled) return false;
      if (expert !== undefined) return expert.skills.includes(skill.id);
      return (
        reader.mayUse({ name: nameOf(skill) }) ||
        skill.tools.some(({ id }) => reader.mayUse({ name: this.#library.nameOf(id) ?? id }))
      );
    });
    for (const id of this.#read.keys()) if (!names.has(id)) this.#read.delete(id);
    // A skill whose files cannot be read is left out.
    const read = await Promise.allSettled(skills.map((skill) => this.#readOnce(skill, nameOf(skill))));
    return read.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  }

  #readOnce(skill: LoadedSkill, name: string): Promise<ReadSkill> {
    const known = this.#read.get(skill.id);
    if (known?.skill === skill && known.name === name) return known.read;
    const read = this.#readSkill(skill, name);
    this.#read.set(skill.id, { skill, name, read });
    read.catch(() => this.#read.delete(skill.id));
    return read;
  }

  async #readSkill(skill: LoadedSkill, name: string): Promise<ReadSkill> {
    const isFolder = skill.owner === "folder" && skill.directory !== undefined;
    const files = await this.#library.filesOf(skill);
    const content = isFolder
      ? await readRegularFile(join(skill.directory!, "SKILL.md"), LARGEST_SKILL_TEXT)
      : Buffer.from(await skillTextOf(skill, name));
    const { frontMatter, body } = await readSkillText(content.toString("utf8"));
    return {
      skill,
      name,
      base: `skill://${name}`,
      frontMatter,
      body,
      files: [{ path: "SKILL.md", content, executable: false }, ...files],
    };
  }
}

/** A skill may forbid people to invoke it. */
function isInvocable({ frontMatter }: ReadSkill): boolean {
  return frontMatter["user-invocable"] !== false;
}

function uriOf({ base }: ReadSkill, path: string): string {
  return `${base}/${path.split("/").map(encodeURIComponent).join("/")}`;
}

function toResource(skill: ReadSkill, file: SkillFile): OfferedResource {
  const isMain = file.path === "SKILL.md";
  return {
    uri: uriOf(skill, file.path),
    name: isMain ? skill.name : `${skill.name}/${file.path}`,
    ...(isMain ? { title: skill.skill.name, description: skill.skill.description } : {}),
    mimeType: typeOf(file),
    size: file.content.length,
  };
}

function folderResource(uri: string): OfferedResource {
  return { uri, name: decodeURIComponent(uri.split("/").at(-1) ?? ""), mimeType: "inode/directory" };
}

const types: Readonly<Record<string, string>> = {
  ".md": "text/markdown",
  ".json": "application/json",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".cjs": "text/javascript",
  ".ts": "text/typescript",
  ".py": "text/x-python",
  ".sh": "application/x-sh",
  ".html": "text/html",
  ".css": "text/css",
  ".csv": "text/csv",
  ".yaml": "application/yaml",
  ".yml": "application/yaml",
  ".xml": "application/xml",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
  ".pdf": "application/pdf",
};

function typeOf({ path, content }: SkillFile): string {
  return types[extname(path).toLowerCase()] ?? (isUtf8(content) ? "text/plain" : "application/octet-stream");
}

function contentOf({ content }: SkillFile): { text: string } | { blob: string } {
  return isUtf8(content) && !content.includes(0)
    ? { text: content.toString("utf8") }
    : { blob: content.toString("base64") };
}

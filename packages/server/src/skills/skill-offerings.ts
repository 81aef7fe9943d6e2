import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { extname } from "node:path";
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
import { readSkillFile, readSkillText } from "./folder.ts";
import type { LoadedSkill } from "./skill.ts";
import type { SkillLibrary } from "./skill-library.ts";

interface ReadSkill {
  readonly skill: LoadedSkill;
  /** The URI of the skill's folder: `skill://{name}`. */
  readonly base: string;
  readonly name: string;
  readonly frontMatter: Readonly<Record<string, unknown>>;
  readonly body: string;
  /** `SKILL.md` and everything beside it but `tools.json`, which is for the rack only. */
  readonly files: readonly OfferedFile[];
}

interface OfferedFile extends Omit<SkillFile, "executable"> {
  readonly uri: string;
  readonly digest: `sha256:${string}`;
}

/** Offers skills over MCP: each as a prompt, its files as resources, and an entry of the skills extension. */
export class SkillOfferings implements OfferingSource {
  readonly key = "skills";
  readonly #library: SkillLibrary;
  /** The skills that were read, by id. A skill is read again only when its object or name has changed. */
  readonly #read = new Map<string, { skill: LoadedSkill; name: string; read: Promise<ReadSkill> }>();

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
      const file = skill.files.find((one) => one.uri === uri);
      if (file !== undefined) return { contents: [{ uri, mimeType: typeOf(file), ...contentOf(file) }] };
    }
    return undefined;
  }

  async skills(reader: OfferingReader): Promise<OfferedSkill[]> {
    return (await this.#visible(reader)).map((skill) => ({
      uri: `${skill.base}/SKILL.md`,
      frontmatter: skill.frontMatter,
      resources: skill.files.map(({ uri, digest, content }) => ({ uri, digest, size: content.length })),
    }));
  }

  async readDirectory(uri: string, reader: OfferingReader): Promise<OfferedDirectory | undefined> {
    const wanted = uri.replace(/(?<!\/)\/+$/, "");
    for (const skill of await this.#visible(reader)) {
      if (wanted !== skill.base && !wanted.startsWith(`${skill.base}/`)) continue;
      const below = skill.files.filter((file) => file.uri.startsWith(`${wanted}/`));
      if (below.length === 0) return undefined;
      const depth = wanted.split("/").length;
      const level = new Map<string, OfferedResource>();
      for (const file of below) {
        const parts = file.uri.split("/");
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
      for (const kind of ["skills", "prompts", "resources"] as const) listener({ kind });
    });
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
    const text = isFolder ? undefined : await skillTextOf(skill, name);
    const { frontMatter, body, content } =
      text === undefined
        ? await readSkillFile(skill.directory ?? "")
        : { ...(await readSkillText(text)), content: Buffer.from(text) };
    const base = `skill://${name}`;
    const all = [{ path: "SKILL.md", content }, ...(await this.#library.filesOf(skill))];
    const files = all.map(
      ({ path, content }): OfferedFile => ({
        path,
        content,
        uri: `${base}/${path.split("/").map(encodeURIComponent).join("/")}`,
        digest: `sha256:${createHash("sha256").update(content).digest("hex")}`,
      }),
    );
    return { skill, name, base, frontMatter, body, files };
  }
}

/** Whether people may invoke the skill, which its front matter can forbid. */
function isInvocable({ frontMatter }: ReadSkill): boolean {
  return frontMatter["user-invocable"] !== false;
}

function toResource({ name, skill }: ReadSkill, file: OfferedFile): OfferedResource {
  const { uri, path, content } = file;
  const size = content.length;
  const mimeType = typeOf(file);
  if (path !== "SKILL.md") return { uri, name: `${name}/${path}`, mimeType, size };
  return { uri, name, title: skill.name, description: skill.description, mimeType, size };
}

function folderResource(uri: string): OfferedResource {
  return { uri, name: decodeURIComponent(uri.split("/").at(-1) ?? ""), mimeType: "inode/directory" };
}

const types: Readonly<Record<string, string>> = {
  ...{ ".md": "text/markdown", ".html": "text/html", ".css": "text/css", ".csv": "text/csv" },
  ...{ ".js": "text/javascript", ".mjs": "text/javascript", ".cjs": "text/javascript" },
  ...{ ".ts": "text/typescript", ".py": "text/x-python", ".sh": "application/x-sh" },
  ...{ ".yaml": "application/yaml", ".yml": "application/yaml", ".json": "application/json" },
  ...{ ".xml": "application/xml", ".pdf": "application/pdf", ".svg": "image/svg+xml" },
  ...{ ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif" },
  ".webp": "image/webp",
};

function typeOf({ path, content }: OfferedFile): string {
  return types[extname(path).toLowerCase()] ?? (isUtf8(content) ? "text/plain" : "application/octet-stream");
}

function contentOf({ content }: OfferedFile): { text: string } | { blob: string } {
  return isUtf8(content) && !content.includes(0)
    ? { text: content.toString("utf8") }
    : { blob: content.toString("base64") };
}

import { readFile } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { hashValue } from "@toolrack/core/internal";
import type { Workspace } from "../config/index.ts";
import { isRecord, makeOwnFolder, parseJsonc, replaceFile } from "../helpers/index.ts";
import { skillPlaces } from "./power-files.ts";
import { foldPath, isInside, waysTo } from "./real-path.ts";

/**
 * Records that a tool call wrote to a place of skills or MCP servers, whose new contents an admin must
 * approve.
 */
interface Mark {
  /** The caller of the tool call. */
  readonly by: string;
  readonly at: string;
  /**
   * What needs no approval there: the paths of skills that an admin approved since, or the hashes of MCP
   * server entries that were there before or that an admin approved since.
   */
  readonly approved: readonly string[];
}

/** Marks by absolute path: the folder of a skill, a folder of skills, or the file that names MCP servers. */
type Marks = Readonly<Record<string, Mark>>;

/**
 * The last change to each file. Changes to one file run one after the other, for all instances of
 * `Unapproved` in this process.
 */
const changesByFile = new Map<string, Promise<unknown>>();

type Places = Pick<Workspace, "directory" | "skillFolders" | "mcpFile">;

/**
 * Remembers which skills and MCP servers tool calls wrote, until an admin approves them. The list is a file beside the
 * store, because it is about files on this disk; every process of the workspace reads it anew.
 */
export class Unapproved {
  readonly #places: Places;
  readonly #file: string;

  constructor(places: Places) {
    this.#places = places;
    this.#file = join(places.directory, ".toolrack", "unapproved.json");
  }

  /**
   * Must be called before a tool call changes something at the real path. Skills and MCP servers that appear
   * there are unapproved from then on.
   */
  async note(real: string, by: string): Promise<void> {
    const skills = await this.#skillsAt(real);
    const ways = (await waysTo(this.#mcpFile)).map(foldPath);
    const mcpFile = ways.some((way) => isInside(foldPath(real), way)) ? this.#mcpFile : undefined;
    if (skills.length === 0 && mcpFile === undefined) return;
    const at = new Date().toISOString();
    await this.#change(async (marks) => {
      const entries =
        mcpFile === undefined || marks[mcpFile] !== undefined ? undefined : await entriesIn(mcpFile);
      return {
        ...marks,
        ...Object.fromEntries(skills.map((place) => [place, { by, at, approved: [] }])),
        ...(mcpFile === undefined || entries === undefined
          ? {}
          : { [mcpFile]: { by, at, approved: [...entries].map(hashValue) } }),
      };
    });
  }

  /**
   * Returns a function that says, in a sentence for people, why the skill in a folder waits for an admin.
   * Undefined when it does not wait.
   */
  async skills(): Promise<(directory: string) => Promise<string | undefined>> {
    const marks = await this.#read();
    return async (directory) => {
      const ways = (await waysTo(directory)).map(foldPath);
      const found = Object.entries(marks).find(([place, { approved }]) => {
        const marked = foldPath(place);
        return ways.some((way) => isInside(marked, way) && !approved.includes(way));
      });
      return found && `A tool call of ${nameOf(found[1].by)} wrote it.`;
    };
  }

  async approveSkill(directory: string): Promise<void> {
    const ways = (await waysTo(directory)).map(foldPath);
    await this.#change(async (marks) => {
      const kept = Object.entries(marks).filter(([place]) => !ways.includes(foldPath(place)));
      return Object.fromEntries(
        kept.map(([place, mark]) => {
          const isAbove = ways.some((way) => isInside(foldPath(place), way));
          return [place, isAbove ? { ...mark, approved: [...mark.approved, ...ways] } : mark];
        }),
      );
    });
  }

  /** Like `skills`, for the entries of the file that names MCP servers, by their key and value. */
  async servers(): Promise<(key: string, given: unknown) => string | undefined> {
    const mark = (await this.#read())[this.#mcpFile];
    return (key, given) =>
      mark === undefined || mark.approved.includes(hashValue([key, given]))
        ? undefined
        : `It was added or changed after a tool call of ${nameOf(mark.by)} wrote to the file.`;
  }

  /**
   * Once all entries of the file are approved, the file's mark is removed: entries that people write later
   * need no approval.
   */
  async approveServer(key: string, given: unknown): Promise<void> {
    const file = this.#mcpFile;
    await this.#change(async (marks) => {
      const { [file]: mark, ...others } = marks;
      if (mark === undefined) return marks;
      const approved = [...new Set([...mark.approved, hashValue([key, given])])];
      const isDone = [...(await entriesIn(file))].every((entry) => approved.includes(hashValue(entry)));
      return isDone ? others : { ...others, [file]: { ...mark, approved } };
    });
  }

  get #mcpFile(): string {
    return resolve(this.#places.directory, this.#places.mcpFile ?? "mcp.json");
  }

  /**
   * Returns the folder of the skill that the path lies in. For a path that is a folder of skills or lies
   * above one, returns that whole folder of skills.
   */
  async #skillsAt(real: string): Promise<string[]> {
    const path = foldPath(real);
    const found: string[] = [];
    const { skillFolders = [] } = this.#places;
    for (const place of await skillPlaces(skillFolders)) {
      for (const way of await waysTo(place)) {
        const [name = ""] = relative(foldPath(way), path).split(sep);
        if (isInside(path, foldPath(way))) found.push(way);
        else if (isInside(foldPath(way), path)) {
          found.push(skillFolders.includes(place) ? join(way, name) : place);
        }
      }
    }
    return found;
  }

  #change(change: (marks: Marks) => Promise<Marks>): Promise<void> {
    const changed = (changesByFile.get(this.#file) ?? Promise.resolve()).then(async () => {
      const before = await this.#read();
      const after = await change(before);
      if (hashValue(before) === hashValue(after)) return;
      makeOwnFolder(join(this.#places.directory, ".toolrack"));
      await replaceFile(this.#file, JSON.stringify(after, null, 2), 0o600);
    });
    const settled = changed.catch(() => {});
    changesByFile.set(this.#file, settled);
    return changed;
  }

  /** Throws when the file cannot be read: that must not count as an approval of everything. */
  async #read(): Promise<Marks> {
    const text = await readFile(this.#file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return "{}";
      throw error;
    });
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Error(
        `${this.#file} is damaged, so it is not known which skills and MCP servers are approved. Look through both, then delete the file.`,
        { cause: error },
      );
    }
  }
}

/**
 * The entries of a file that names MCP servers, in the form of most clients (`mcpServers`) or of VS Code
 * (`servers`). When both forms have an entry with the same key, that of `mcpServers` counts.
 */
export function serversIn(document: unknown): ReadonlyMap<string, unknown> {
  const { mcpServers, servers } = isRecord(document) ? document : {};
  const listed = [servers, mcpServers].flatMap((part) => (isRecord(part) ? Object.entries(part) : []));
  return new Map(listed);
}

async function entriesIn(file: string): Promise<ReadonlyMap<string, unknown>> {
  const text = await readFile(file, "utf8").catch(() => "{}");
  try {
    return serversIn(parseJsonc(text));
  } catch {
    return new Map();
  }
}

function nameOf(by: string): string {
  return by === "" ? "this program" : `"${by}"`;
}

export const skillToolTypes = ["http", "script", "builtin"] as const;

export type SkillToolType = (typeof skillToolTypes)[number];

/** A named set of tools, with instructions on when and how to use them. */
export interface StoredSkill {
  readonly id: string;
  /** For people: `SearXNG Search`. No two skills share it. */
  readonly name: string;
  /** What readable names of its tools begin with, instead of what the name gives. */
  readonly mark?: string;
  readonly description: string;
  /** Markdown below the front matter of its `SKILL.md`. */
  readonly instructions: string;
  /** Everything else that its `SKILL.md` says of it, such as `license` or `metadata`. */
  readonly frontMatter: Readonly<Record<string, unknown>>;
  /** The front matter as somebody wrote it, so that an export can keep its wording and comments. */
  readonly frontMatterText?: string;
  /** Where its scripts lie, relative to the workspace, when they are not kept as files of the skill itself. */
  readonly sourcePath?: string;
  readonly enabled: boolean;
  /** False for what came from elsewhere: then its scripts have no network, and its tools no secrets. */
  readonly trusted: boolean;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface StoredSkillTool {
  /** Unique among all tools of all skills; the name that models are given. */
  readonly id: string;
  readonly skillId: string;
  /** Unique within the skill: `web_search`. */
  readonly name: string;
  /** For people: `网页搜索`. */
  readonly displayName?: string;
  readonly description: string;
  readonly type: SkillToolType;
  /** What it takes, as it was written: usually JSON. Empty for nothing. */
  readonly usage: string;
  readonly command?: string;
  readonly endpoint?: string;
  readonly method?: string;
  readonly enabled: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A file beside `SKILL.md`. */
export interface SkillFile {
  /** Relative, with `/`. */
  readonly path: string;
  readonly content: Buffer;
  readonly executable: boolean;
}

export type SkillChanges = Partial<
  Omit<StoredSkill, "id" | "createdAt" | "updatedAt" | "mark" | "sourcePath">
> & {
  /** Null takes it away. */
  readonly mark?: string | null;
  readonly sourcePath?: string | null;
};

export type SkillToolChanges = Partial<
  Pick<StoredSkillTool, "name" | "description" | "type" | "usage" | "enabled">
> & {
  readonly displayName?: string | null;
  readonly command?: string | null;
  readonly endpoint?: string | null;
  readonly method?: string | null;
};

export type NewSkill = Pick<StoredSkill, "name"> & Partial<Omit<StoredSkill, "createdAt" | "updatedAt">>;
export type NewSkillTool = Pick<StoredSkillTool, "name" | "type"> &
  Partial<Omit<StoredSkillTool, "skillId" | "createdAt" | "updatedAt">>;

/** A skill with all that belongs to it. */
export interface SkillBundle {
  readonly skill: NewSkill;
  readonly tools: readonly NewSkillTool[];
  readonly files: readonly SkillFile[];
}

/** A value that another row has already. */
export class SkillConflictError extends Error {
  override readonly name = "SkillConflictError";
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/** It was changed after whoever wants to change it had looked at it. */
export class SkillChangedError extends Error {
  override readonly name = "SkillChangedError";
  /** The skill, tool or expert as it is now. */
  readonly now: { readonly name: string; readonly updatedAt: number };

  constructor(now: SkillChangedError["now"]) {
    super("It was changed by somebody else in the meantime.");
    this.now = now;
  }
}

/** Which version is changed: the `updatedAt` of what was looked at. Another one is refused with `SkillChangedError`. */
export interface SeenVersion {
  readonly seen?: number | undefined;
}

/**
 * Skills, their tools and files. Every change resolves when it is safely written, and counts in the registry's version.
 * What another row has already is refused with `SkillConflictError`.
 */
export interface SkillStore {
  /** Another one after any change of skills and experts by somebody else, also one that counted no version. */
  fingerprint(): Promise<string>;
  /** In order of their making. */
  list(): Promise<StoredSkill[]>;
  get(id: string): Promise<StoredSkill | undefined>;
  /** Of one skill, or of all; those of a skill in their order. */
  listTools(skillId?: string): Promise<StoredSkillTool[]>;
  getTool(id: string): Promise<StoredSkillTool | undefined>;
  listFiles(skillId: string): Promise<SkillFile[]>;
  /** With its tools and files, all or nothing. Ids that are not given are made. */
  add(bundle: SkillBundle): Promise<StoredSkill>;
  /** The same in the place of the skill with this id; tools keep the time of their making. */
  replace(id: string, bundle: SkillBundle): Promise<StoredSkill>;
  /** With `files`, those instead of the ones that are there, in the same step. Every change gives a later `updatedAt`. */
  update(
    id: string,
    changes: SkillChanges,
    files?: readonly SkillFile[],
    version?: SeenVersion,
  ): Promise<StoredSkill | undefined>;
  /** With its tools and files, and out of every expert. */
  remove(id: string): Promise<boolean>;
  /** Undefined when there is no such skill. */
  addTool(skillId: string, tool: NewSkillTool): Promise<StoredSkillTool | undefined>;
  updateTool(
    id: string,
    changes: SkillToolChanges,
    version?: SeenVersion,
  ): Promise<StoredSkillTool | undefined>;
  removeTool(id: string): Promise<boolean>;
}

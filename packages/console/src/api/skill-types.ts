import type { JsonSchema } from "./types.ts";

/** What the HTTP API says of skills and experts, as far as the console reads it. */

export interface SkillSummary {
  readonly id: string;
  readonly name: string;
  readonly mark?: string;
  readonly description: string;
  readonly instructions?: string;
  readonly frontMatter?: Readonly<Record<string, unknown>>;
  readonly sourcePath?: string;
  /** `folder`: it is changed in its folder, and only read here. */
  readonly owner: "folder" | "database";
  readonly enabled: boolean;
  /** False for what was imported: its scripts have no network, its tools no secrets. */
  readonly trusted: boolean;
  readonly toolCount: number;
  readonly failedTools: number;
  readonly warnings?: readonly string[];
  readonly updatedAt?: number;
}

export interface SkillList {
  readonly items: readonly SkillSummary[];
  readonly failed: readonly { readonly folder: string; readonly reason: string }[];
}

export type SkillToolType = "http" | "script" | "builtin";

export interface SkillTool {
  readonly id: string;
  readonly skillId: string;
  readonly skillName: string;
  readonly name: string;
  readonly displayName?: string;
  readonly description: string;
  readonly type: SkillToolType;
  readonly usage?: unknown;
  readonly command?: string;
  readonly endpoint?: string;
  readonly method?: string;
  readonly enabled: boolean;
  readonly updatedAt?: number;
  /** Its name on the rack; absent while it cannot be used. */
  readonly rackName?: string;
  readonly status: "ok" | "disabled" | "failed";
  readonly failure?: string;
}

export interface SkillFile {
  readonly path: string;
  readonly size: number;
  readonly executable: boolean;
  /** The content, when it is text and not too long. */
  readonly text?: string;
}

export interface Skill extends SkillSummary {
  readonly tools: readonly SkillTool[];
  readonly files: readonly SkillFile[];
}

export interface Expert {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly instructions?: string;
  /** Ids of skills. */
  readonly skills: readonly string[];
  /** Patterns over the names of tools; `*` stands for anything. */
  readonly tools: readonly string[];
  readonly toolCount: number;
  readonly updatedAt?: number;
}

/** What an import did, or would do. */
export interface SkillImport {
  readonly dryRun: boolean;
  readonly skills: readonly {
    readonly id: string;
    readonly name: string;
    readonly description: string;
    /** Of a dry run: one with its id would go. */
    readonly replaces?: boolean;
    readonly tools: readonly {
      readonly name: string;
      readonly type: SkillToolType;
      readonly failure?: string;
    }[];
    readonly files?: readonly string[];
  }[];
  readonly experts: readonly { readonly id: string; readonly name: string; readonly replaces?: boolean }[];
  readonly failed: readonly {
    readonly name: string;
    readonly reason: string;
    /** It is there already, and `replace` would take its place. */
    readonly replaceable?: boolean;
  }[];
  readonly warnings: readonly string[];
}

/** A tool of a skill as it is saved and tried. `null` takes a field away. */
export interface SkillToolDraft {
  readonly name: string;
  readonly type: SkillToolType;
  readonly displayName: string | null;
  readonly description: string;
  readonly usage: unknown;
  readonly command: string | null;
  readonly endpoint: string | null;
  readonly method: string | null;
  readonly enabled: boolean;
}

export type ParametersSchema = Exclude<JsonSchema, boolean>;

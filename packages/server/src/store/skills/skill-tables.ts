import type { SkillToolType } from "./skill-store.ts";

/** What may be null was left out by whoever wrote the row by hand. */
export interface SkillRow {
  id: string;
  name: string;
  mark: string | null;
  enabled: number;
  trusted: number;
  created_at: number;
  updated_at: number;
  source_path: string | null;
  description: string | null;
  front_matter: string | null;
  front_matter_text: string | null;
  skill_md: string | null;
}

export interface SkillToolRow {
  id: string;
  skill_id: string;
  name: string;
  type: SkillToolType | null;
  method: string | null;
  enabled: number;
  position: number;
  created_at: number;
  updated_at: number;
  display_name: string | null;
  command: string | null;
  endpoint: string | null;
  description: string | null;
  usage: string | null;
}

export interface SkillFileRow {
  skill_id: string;
  path: string;
  executable: number;
  content: string;
}

export interface ExpertRow {
  id: string;
  name: string;
  name_key: string | null;
  created_at: number;
  updated_at: number;
  description: string | null;
  instructions: string | null;
  tools: string | null;
}

/** The tables of skills and experts, as queries see them. */
export interface SkillTables {
  skills: SkillRow;
  skill_tools: SkillToolRow;
  skill_files: SkillFileRow;
  experts: ExpertRow;
  expert_skills: { expert_id: string; skill_id: string; position: number };
}

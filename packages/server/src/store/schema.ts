import type { Kysely } from "kysely";
import type { SkillToolType } from "./keys.ts";

export type Engine = "sqlite" | "postgres" | "mysql";

export type StoreDatabase = Kysely<Tables>;

/** The tables as queries see them. The migrations explain the columns. */
export interface Tables {
  calls: CallRow;
  instances: { id: string; heartbeat_at: number };
  tokens: TokenRow;
  approvals: ApprovalRow;
  approval_rules: ApprovalRuleRow;
  secrets: Texts<"name" | "value"> & Numbers<"created_at" | "updated_at">;
  schedules: ScheduleRow;
  tool_switches: ToolSwitchRow;
  registry_version: Numbers<"id" | "version">;
  skills: SkillRow;
  skill_tools: SkillToolRow;
  skill_files: Texts<"skill_id" | "path" | "content"> & Numbers<"executable">;
  experts: ExpertRow;
  expert_skills: Texts<"expert_id" | "skill_id"> & Numbers<"position">;
  mcp_servers: McpServerRow;
  mcp_tools: McpToolRow;
  mcp_names: Texts<"name_key" | "server_key">;
  chat_sessions: ChatSessionRow;
  chat_messages: ChatMessageRow;
  chat_handoffs: Texts<"id" | "owner" | "session_id" | "messages"> & Numbers<"created_at">;
}

type Texts<Column extends string> = Record<Column, string>;
type Numbers<Column extends string> = Record<Column, number>;
type OptionalTexts<Column extends string> = Record<Column, string | null>;
type OptionalNumbers<Column extends string> = Record<Column, number | null>;

export interface CallRow
  extends Texts<
      "call_id" | "tool_name" | "display_name" | "session_id" | "message_id" | "caller" | "instance"
    >,
    Texts<"parameters_hash" | "parameters" | "result_text">,
    OptionalTexts<"parent_call_id" | "replay_of" | "tid" | "result_blob" | "more_blob">,
    OptionalTexts<"flags" | "error" | "more" | "log">,
    Numbers<"depth" | "timestamp" | "size" | "result_size">,
    OptionalNumbers<"duration" | "run_duration" | "after_duration"> {
  state: "running" | "completed" | "error" | "interrupted";
  result_type: "text" | "json" | "error";
}

export interface TokenRow
  extends Texts<"id" | "name" | "hash" | "scopes">,
    Numbers<"created_at">,
    OptionalNumbers<"last_used_at" | "expires_at"> {}

export interface ApprovalRow
  extends Texts<
      "id" | "call_id" | "tool_name" | "display_name" | "session_id" | "caller" | "message" | "input"
    >,
    OptionalTexts<
      "parent_call_id" | "decided_by" | "details" | "reason" | "edited_input" | "instance" | "rule"
    >,
    Numbers<"dangerous" | "created_at" | "expires_at">,
    OptionalNumbers<"decided_at" | "resumable"> {
  state: "pending" | "allowed" | "denied" | "expired";
  stage: "before" | "during" | null;
}

export interface ApprovalRuleRow
  extends Texts<"id" | "tool" | "created_by">,
    OptionalTexts<"session_id" | "input" | "caller">,
    Numbers<"created_at">,
    OptionalNumbers<"exact"> {
  decision: "allow" | "ask" | "deny";
}

export interface ScheduleRow
  extends Texts<"id" | "tool_name" | "caller" | "timing" | "input">,
    OptionalTexts<"last_call_id">,
    Numbers<"runs" | "created_at">,
    OptionalNumbers<"next_run_at" | "last_run_at" | "ended_at"> {
  state: "active" | "finished" | "cancelled";
  missed: "run" | "skip";
}

export interface ToolSwitchRow
  extends Texts<"name_key" | "tool_name" | "switched_by">,
    Numbers<"enabled" | "switched_at"> {}

/** In rows of skills and experts, a column is null when a person who wrote the row by hand left it out. */
export interface SkillRow
  extends Texts<"id" | "name">,
    OptionalTexts<"mark" | "source_path" | "description" | "front_matter" | "front_matter_text" | "skill_md">,
    Numbers<"enabled" | "trusted" | "created_at" | "updated_at"> {}

export interface SkillToolRow
  extends Texts<"id" | "skill_id" | "name">,
    OptionalTexts<"method" | "display_name" | "command" | "endpoint" | "description" | "usage">,
    Numbers<"enabled" | "position" | "created_at" | "updated_at"> {
  type: SkillToolType | null;
}

export interface ExpertRow
  extends Texts<"id" | "name">,
    OptionalTexts<"name_key" | "description" | "instructions" | "tools">,
    Numbers<"created_at" | "updated_at"> {}

export interface McpServerRow
  extends Texts<"server_key">,
    OptionalTexts<"entry" | "verdict" | "catalogue">,
    Numbers<"created_at" | "updated_at">,
    OptionalNumbers<"enabled"> {}

export interface McpToolRow
  extends Texts<"server_key" | "tool_key" | "name">,
    OptionalTexts<"approved_by" | "approved" | "pending" | "override">,
    OptionalNumbers<"approved_at"> {}

export interface ChatSessionRow
  extends Texts<"id" | "owner" | "model" | "title" | "state">,
    OptionalTexts<"expert" | "turn" | "instance">,
    Numbers<"created_at" | "updated_at"> {}

export interface ChatMessageRow
  extends Texts<"id" | "session_id" | "body">,
    Numbers<"position" | "created_at" | "updated_at"> {
  role: "user" | "assistant";
  /** `stopping`: the message runs, and somebody asked to stop it. */
  status: "running" | "completed" | "stopped" | "interrupted" | "error" | "stopping";
}
